"""Metrics of one's own: scorers and functions, as objects and by the path that names them."""

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from evenfold.estimates import ModelError, ModelSpec, Problem
from evenfold.estimates.metrics.registry import metric_of
from evenfold.estimates.metrics.scoring import name_of
from evenfold.splitters import UntrustedNameError
from evenfold.tasks import Home
from own_code import edit, write
from sklearn.metrics import fbeta_score, get_scorer, log_loss, make_scorer, mean_absolute_error, roc_auc_score
from small import SPEC, compared, evaluated, small

from evenfold import flows

MONEY = """
import numpy as np
from sklearn.metrics import make_scorer

def profit(y_true, y_pred):
    return float(np.mean(np.where(y_pred == "yes", np.where(y_true == "yes", 10.0, -4.0), 0.0)))

def cost(y_true, y_pred, rate=1.0):
    return rate * float(np.mean(np.abs(y_true - y_pred)))

def wanted(y_true, chance, sample_weight=None):
    return float(np.average((y_true == "yes") == (chance > 0.3), weights=sample_weight))

dear = make_scorer(cost, greater_is_better=False, rate=2.0)

class Profit:
    pass
"""
LATE = {**SPEC, "columns": {"key": "id", "target": "late"}}
LOGISTIC = {"estimator": "sklearn.linear_model:LogisticRegression", "features": ["a", "b"]}
NAMES: dict[str, tuple[Any, str]] = {
    "a scorer of scikit-learn": (get_scorer("roc_auc"), "roc_auc"),
    "one with its parameters": (get_scorer("f1_macro"), "f1_macro"),
    "its function": (roc_auc_score, "roc_auc"),
    "its error": (mean_absolute_error, "neg_mean_absolute_error"),
    "its loss": (log_loss, "neg_log_loss"),
    "a made one": (make_scorer(fbeta_score, beta=2, average="macro"), "sklearn.metrics:fbeta_score"
                   "(average='macro', beta=2)"),
}  # fmt: skip


@pytest.fixture
def shop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(tmp_path)
    write(tmp_path, {"shop/__init__.py": "", "shop/money.py": MONEY})
    __import__("shop.money")
    return sys.modules["shop.money"]


@pytest.mark.parametrize(("metric", "name"), NAMES.values(), ids=NAMES)
def test_a_metric_that_is_passed_is_the_one_that_is_named(metric: Any, name: str) -> None:
    assert ModelSpec.of({"metrics": [metric]}).metrics == (name,)
    assert name_of(name) == name  # of its path, too


def test_scorers_of_ones_own_are_named_by_their_functions_and_say_what_they_are(shop: Any) -> None:
    """Greater is better but where they say otherwise; a path of a scorer is that scorer."""
    wanted = make_scorer(shop.wanted, response_method="predict_proba")
    assert name_of(shop.profit) == "shop.money:profit"
    assert name_of(wanted) == "shop.money:wanted(response_method='predict_proba')"
    dear = "shop.money:cost(greater_is_better=False, rate=2.0)"
    assert name_of(shop.dear) == name_of("shop.money:dear") == name_of(dear) == dear
    assert (metric_of(dear).lower_is_better, metric_of(dear).title) == (True, "cost(rate=2.0)")
    assert not metric_of("shop.money:profit").lower_is_better
    for metric, words in {"shop.money:Profit": "is not a metric", "shop.money:none": "has no 'none'",
                          "shop.money:dear(rate=3)": "takes nothing more", "shop.money:cost(rate=open)": "names no",
                          "shop.money:cost(**{})": "names no", len: "standard library"}.items():  # fmt: skip
        with pytest.raises(ModelError, match=words):
            name_of(name_of(metric))
    with pytest.raises(ModelError, match="is no metric"):
        name_of(3)


def test_an_evaluation_by_ones_own_metrics_is_what_they_say_of_its_predictions(shop: Any, home: Home) -> None:
    """With intervals; text classes are handed as they are, and errors are read as positive."""
    wanted = make_scorer(shop.wanted, response_method="predict_proba")
    made = evaluated(small(), spec=LATE, model=LOGISTIC, metrics=[shop.profit, wanted, "accuracy"])
    rows = made.predictions()
    assert made.metrics["shop.money:profit"] == pytest.approx(shop.profit(rows["y"], rows["prediction"]))
    assert made.metrics[name_of(wanted)] == pytest.approx(shop.wanted(rows["y"], rows["proba_yes"]))
    assert all(each.interval.low < each.value < each.interval.high for each in made.estimates)
    again = evaluated(small(), spec=LATE, model=LOGISTIC, metrics=["shop.money:profit", name_of(wanted), "accuracy"])
    assert (again.run_id, again.n_cached) == (made.run_id, 3)
    numbers = evaluated(small(), metrics="shop.money:dear", features=["a"])
    folds = numbers.predictions()
    assert numbers.estimates[0].value == pytest.approx(-2 * np.mean(np.abs(folds["y"] - folds["prediction"])))
    best = flows.retrain(small(), SPEC, LOGISTIC | {"estimator": "sklearn.linear_model:Ridge"}, metric=shop.dear,
                         engine="plain")  # fmt: skip
    assert best.decision.metric == name_of(shop.dear)


def test_a_changed_metric_is_another_run_that_names_the_module(shop: Any, home: Home, tmp_path: Path) -> None:
    asked = {"spec": LATE, "model": LOGISTIC, "metrics": "shop.money:profit"}
    first = evaluated(small(), **asked)
    edit(tmp_path, "shop/money.py", "-4.0", "-9.0")
    other = evaluated(small(), **asked)
    assert (other.n_cached, other.since) == (0, f"shop.money changed since run {first.run_id[:8]}")
    assert other.metrics["shop.money:profit"] < first.metrics["shop.money:profit"]


def test_what_may_not_be_imported_is_no_metric(shop: Any, home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    """A deployed run names listed functions, a registry's recipe too; of a record's metrics the others are left out."""
    pair = [evaluated(small(), metrics=["r2", "shop.money:cost"], features=[name]) for name in ("a", "b")]
    assert [each.metric for each in compared(*pair)] == ["r2"]
    assert [each.metric for each in compared(*pair, metrics="shop.money:cost")] == ["shop.money:cost"]
    recipe = {"metrics": ["shop.money:cost(rate=2)"]}
    with pytest.raises(UntrustedNameError, match="may not be imported"):
        ModelSpec.of_others(recipe, ModelSpec())
    monkeypatch.setenv("EVENFOLD_CLOSED", "1")
    monkeypatch.setenv("EVENFOLD_SIGNING_KEY", "a" * 40)
    for allowed, closed in {"sklearn": True, "sklearn,shop.money:cost": False}.items():
        monkeypatch.setenv("EVENFOLD_ALLOWED_MODULES", allowed)
        if closed:
            with pytest.raises(UntrustedNameError, match="may not be imported"):
                Problem.of(small(), ModelSpec.of(recipe), "y")
        else:
            assert Problem.of(small(), ModelSpec.of(recipe), "y").model.metrics == tuple(recipe["metrics"])
            assert ModelSpec.of_others(recipe, ModelSpec()).metrics == tuple(recipe["metrics"])
