"""A refit of the champion's recipe takes its place only with a score that did not fall, and with sane predictions."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from evenfold.flows import GateError, Retraining
from evenfold.tasks import Home
from tables import rows

from evenfold import flows

COLUMNS = {"key": ["id"], "target": "y"}
RIDGE = {"estimator": "sklearn.linear_model:Ridge", "metrics": ["r2"]}
# What came in is not asked here: it is what becomes of it that is.
ANY_TABLE = dict.fromkeys(["changed_targets", "target_distribution", "vanished_rows", "new_rows"], "off")

BROKEN_MODELS = '''
import numpy as np
from sklearn.linear_model import LogisticRegression, Ridge


class Broken(Ridge):
    """Is right on small tables, and breaks on larger ones, on all rows alone."""

    def __init__(self, breaks_at=140, how="nan", alpha=1.0):
        self.breaks_at, self.how = breaks_at, how
        super().__init__(alpha=alpha)

    def fit(self, X, y, sample_weight=None):
        self.n_ = len(y)
        return super().fit(X, y)

    def predict(self, X):
        said = super().predict(X)
        if self.n_ < self.breaks_at:
            return said
        return {"nan": said * np.nan, "far": said * 1000, "same": said * 0 + 1.0}[self.how]
'''


@pytest.fixture(autouse=True)
def home(shared_home: Home) -> Home:
    return shared_home


def retrain(name: str, frame: pd.DataFrame, model: dict[str, Any] = RIDGE, **fields: Any) -> Retraining:
    spec = {"name": name, "columns": COLUMNS, "strategy": "KFold", "params": {"n_splits": 3}} | {
        "gates": ANY_TABLE, **fields.pop("spec", {})
    }  # fmt: skip
    return flows.retrain(frame, engine="plain", spec=spec, model=model, **fields)


def champion(home: Home, name: str) -> str:
    from mlflow.tracking import MlflowClient

    return str(MlflowClient(home.tracking_uri).get_model_version_by_alias(name, "champion").version)


def test_a_refit_tells_its_score_on_the_rows_that_both_tested(home: Home) -> None:
    """It stands in the outcome and in the report, with the chance that is allowed."""
    retrain("told", rows(150))
    outcome = retrain("told", rows(180))
    assert outcome.checked is not None
    assert "on the 150 rows that both tested went from" in outcome.checked.passed["lower_score"]
    assert "half the width of the champion's recorded interval is" in outcome.report
    assert champion(home, "told") == "2"


def shuffled(frame: pd.DataFrame) -> pd.DataFrame:
    return frame.assign(y=frame["y"].sample(frac=1, random_state=2).to_numpy())


def spoiled(frame: pd.DataFrame) -> pd.DataFrame:
    """The old rows' targets as they were, and 200 new ones whose features are those of other rows."""
    later = frame.tail(200)
    return pd.concat([frame.head(150), later.assign(a=-5 * later["a"], b=later["b"] * 0)])


@pytest.mark.parametrize(
    ("name", "change", "sentence"),
    [
        ("shuffled", lambda: shuffled(rows(180)), "R2 on all rows of each, for none could be paired, went from"),
        ("spoiled", lambda: spoiled(rows(350)), "R2 on the 150 rows that both tested went from"),
        ("few", lambda: shuffled(rows(200)).tail(60), "R2 on all rows of each"),
    ],
)
def test_a_score_that_fell_keeps_the_champion(home: Home, name: str, change: Any, sentence: str) -> None:
    """Even where everybody said yes to the table; the sentence has both scores, and says how to say yes."""
    retrain(name, rows(150))
    with pytest.raises(GateError, match=f"the new model of {name} does not take .*lower_score: off") as raised:
        retrain(name, change())
    assert sentence in str(raised.value)
    assert champion(home, name) == "1"
    outcome = retrain(name, change(), spec={"gates": {**ANY_TABLE, "lower_score": "off"}})
    assert outcome.registered is not None
    assert champion(home, name) == "2"


def test_a_champion_without_a_recorded_score_is_replaced_and_that_is_told(home: Home) -> None:
    """Versions of before: the refit goes on, and says what was not compared. A tag that somebody changed stops it."""
    from mlflow.tracking import MlflowClient

    client = MlflowClient(home.tracking_uri)
    retrain("bare", rows(150))
    for tag in ("not json", '[{"metric": 5}]'):
        client.set_model_version_tag("bare", "1", "evenfold.scores", tag)
        with pytest.raises(GateError, match=r"is not a list of scores .*; put back what was there, or delete the tag"):
            retrain("bare", rows(170))
    client.delete_model_version_tag("bare", "1", "evenfold.scores")
    outcome = retrain("bare", rows(170))
    assert outcome.checked is not None
    assert outcome.checked.not_asked["lower_score"] == "the champion's r2 was not recorded with an interval"
    assert champion(home, "bare") == "2"


@pytest.mark.parametrize(
    ("how", "check", "sentence"),
    [
        ("nan", "unusable_predictions", "30 of 30 predictions of the newest rows are not finite numbers"),
        ("far", "wild_predictions", "30 predictions of the newest rows lie outside of the target's range by more than"),
        ("same", "constant_predictions", "all 30 predictions of the newest rows are the same"),
    ],
)
def test_a_model_that_predicts_nonsense_is_not_promoted(
    home: Home, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, how: str, check: str, sentence: str
) -> None:
    """Its folds were fine: the model of all rows is looked at as well, and stays out of the registry."""
    (tmp_path / "broken_models.py").write_text(BROKEN_MODELS)
    monkeypatch.syspath_prepend(tmp_path)
    sys.modules.pop("broken_models", None)
    monkeypatch.setenv("EVENFOLD_ALLOWED_MODULES", "sklearn,broken_models")
    model = {"estimator": "broken_models:Broken", "params": {"how": how, "breaks_at": 145}, "metrics": ["r2"]}
    retrain(f"nonsense-{how}", rows(120), model)
    with pytest.raises(GateError, match=sentence):
        retrain(f"nonsense-{how}", rows(150), model)
    assert champion(home, f"nonsense-{how}") == "1"
    if how != "nan":
        done = retrain(f"nonsense-{how}", rows(150), model, gates=False)
        assert done.checked is not None
        assert done.checked.failed == [check]
        assert "gate failed" in done.report


def test_a_champion_that_says_the_same_of_all_rows_may_do_so_again(home: Home) -> None:
    """A baseline is constant by design."""
    dummy = {"estimator": "sklearn.dummy:DummyRegressor", "metrics": ["r2"]}
    retrain("dummy", rows(150), dummy)
    retrain("dummy", rows(180), dummy)
    assert champion(home, "dummy") == "2"


def test_classes_and_draws_are_looked_at_as_well(home: Home) -> None:
    """Probabilities are numbers and differ; draws keep no rows, so their recorded scores are compared."""
    frame = rows(200).assign(y=lambda table: np.where(table["y"] > 0, "late", "early"))
    logistic = {"estimator": "evenfold.estimates:scaled_logistic_regression", "metrics": ["accuracy"]}
    retrain("classes", frame.head(150), logistic)
    outcome = retrain("classes", frame, logistic)
    assert outcome.checked is not None
    assert set(outcome.checked.passed) == {"lower_score", "unusable_predictions", "constant_predictions"}
    draws = {"strategy": "Bootstrap", "params": {"n_splits": 10}}
    retrain("drawn", rows(150), spec=draws)
    with pytest.raises(GateError, match="R2 on all rows of each, for none could be paired, went from"):
        retrain("drawn", shuffled(rows(150)), spec=draws, on_refused="new_major")
