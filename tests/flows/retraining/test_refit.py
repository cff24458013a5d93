"""A refit of the champion's recipe takes its place only with a score that did not fall, and with sane predictions."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from evenfold.flows import GateError, Retraining
from evenfold.tasks import Home
from kept import kept_after, put_back
from small import BAD, GOOD, champion, changed, retrain as retrained
from tables import rows

# What came in is not asked here: it is what becomes of it that is.
ANY_TABLE = dict.fromkeys(
    ["changed_targets", "target_distribution", "vanished_rows", "new_rows", "constant_columns"], "off"
)

BROKEN_MODELS = '''
import os

import numpy as np
from sklearn.linear_model import Ridge


class Broken(Ridge):
    """Is right where it learns from less than 145 rows, and says nonsense of the kind in the environment else."""

    def fit(self, X, y, sample_weight=None):
        self.n_ = len(y)
        return super().fit(X, y)

    def predict(self, X):
        said = super().predict(X)
        if self.n_ < 145:
            return said
        return {"nan": said * np.nan, "far": said * 1000, "same": said * 0 + 1.0}[os.environ["NONSENSE"]]
'''


def retrain(name: str, frame: pd.DataFrame, model: dict[str, Any] = GOOD, **fields: Any) -> Retraining:
    return retrained(name, frame, model, spec={"gates": ANY_TABLE, **fields.pop("spec", {})}, **fields)


def shuffled(frame: pd.DataFrame) -> pd.DataFrame:
    return frame.assign(y=frame["y"].sample(frac=1, random_state=2).to_numpy())


def spoiled(frame: pd.DataFrame) -> pd.DataFrame:
    """The old rows' targets as they were, and 100 new ones whose features are those of other rows."""
    later = frame.tail(100)
    return pd.concat([frame.head(60), later.assign(a=-5 * later["a"], b=later["b"] * 0)])


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (lambda: shuffled(rows(80)), "R2 on all rows of each, for none could be paired, went from"),
        (lambda: spoiled(rows(160)), "R2 on the 60 rows that both tested went from"),
    ],
    ids=["shuffled", "spoiled"],
)
@pytest.mark.usefixtures("first")
def test_a_score_that_fell_keeps_the_champion(home: Home, change: Any, sentence: str) -> None:
    """Even where everybody said yes to the table; the sentence has both scores, and says how to say yes."""
    with pytest.raises(GateError, match=r"the new model of monthly does not take .*lower_score: off") as raised:
        retrain("monthly", change())
    assert sentence in str(raised.value)
    assert champion(home, "monthly") == "1"
    if "both tested" in sentence:  # whichever rows were compared, yes is said to the same gate
        outcome = retrain("monthly", change(), spec={"gates": {**ANY_TABLE, "lower_score": "off"}})
        assert outcome.registered is not None
        assert champion(home, "monthly") == "2"


@pytest.mark.usefixtures("first")
def test_a_champion_without_a_recorded_score_is_replaced_and_that_is_told(home: Home) -> None:
    """Versions of before: the refit goes on, and says what was not compared."""
    changed(home, "monthly", "1", "evenfold.scores")
    outcome = retrain("monthly", rows(74))
    assert outcome.checked.not_asked["lower_score"] == "the champion's r2 was not recorded with an interval"
    assert champion(home, "monthly") == "2"


BROKEN = {"estimator": "broken_models:Broken", "metrics": ["r2"]}


@pytest.fixture(scope="module")
def broken_month(_module_home: Home, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    folder = tmp_path_factory.mktemp("broken")
    (folder / "broken_models.py").write_text(BROKEN_MODELS)
    with pytest.MonkeyPatch.context() as patched:
        patched.syspath_prepend(folder)
        patched.setenv("EVENFOLD_ALLOWED_MODULES", "sklearn,broken_models")
        yield kept_after(_module_home, folder / "kept", lambda: retrain("nonsense", rows(120), BROKEN))[1]


NONSENSE = {
    "nan": ("unusable_predictions", "30 of 30 predictions of the newest rows are not finite numbers"),
    "same": ("constant_predictions", "all 30 predictions of the newest rows are the same"),
    "far": ("wild_predictions", "30 predictions of the newest rows lie outside of the target's range by more than"),
}


def test_a_model_that_predicts_nonsense_is_not_promoted(
    home: Home, broken_month: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its folds were fine: the model of all rows is looked at as well, and stays out of the registry."""
    put_back(home, broken_month)
    for how, (check, sentence) in NONSENSE.items():
        monkeypatch.setenv("NONSENSE", how)
        with pytest.raises(GateError, match=f"{sentence}.*{check}: off"):
            retrain("nonsense", rows(150), BROKEN)
        assert champion(home, "nonsense") == "1"
    done = retrain("nonsense", rows(150), BROKEN, gates=False)
    assert done.checked.failed == [check]
    assert "failed: " in done.report


def test_constants_classes_and_draws_are_looked_at_as_well(home: Home) -> None:
    """A baseline may say the same again, a class be gone; draws keep no rows, so their recorded scores are compared."""
    for n in (60, 80):
        retrain("dummy", rows(n), BAD)
    assert champion(home, "dummy") == "2"
    frame = rows(99).assign(y=lambda table: np.where(table["y"] > 0, "late", "early"))
    logistic = {"estimator": "evenfold.estimates:scaled_logistic_regression", "metrics": ["accuracy"]}
    before = frame["y"].where(frame["id"] > 2, "odd")  # a class that the next table corrects
    retrain("classes", frame.head(75).assign(y=before), logistic)
    outcome = retrain("classes", frame, logistic)
    assert set(outcome.checked.passed) == {"lower_score", "unusable_predictions", "constant_predictions"}
    draws = {"strategy": "Bootstrap", "params": {"n_splits": 4}}
    retrain("drawn", rows(80), spec=draws)
    with pytest.raises(GateError, match="R2 on all rows of each, for none could be paired, went from"):
        retrain("drawn", shuffled(rows(80)), spec=draws, on_refused="new_major")
