"""What a model uses: on test rows, without further fits, the same each time, and cheap beside the scoring."""

from typing import Any

import numpy as np
import pandas as pd
import pytest
from evenfold.estimates import (
    FoldScore,
    ModelSpec,
    Problem,
    fit_and_score,
    fitted,
    importance_table,
    permutation_importance,
    score_key,
)
from sklearn.inspection import permutation_importance as theirs
from sklearn.linear_model import Ridge

RIDGE = ModelSpec(estimator="sklearn.linear_model:Ridge", metrics=("r2",))
DRAW = np.random.default_rng(0)
X = pd.DataFrame(DRAW.normal(size=(900, 3)), columns=["much", "some", "nothing"])
X["kind"] = DRAW.choice(["a", "b"], 900)
TABLE = X.assign(y=3 * X["much"] + X["some"] + (X["kind"] == "a") + DRAW.normal(size=900))
PROBLEM = Problem.of(TABLE, RIDGE, "y")
TRAIN, TEST = np.arange(600), np.arange(600, 900)


def scored(problem: Problem = PROBLEM, **more: Any) -> FoldScore:
    return fit_and_score(problem, TRAIN, TEST, seed=0, name="fold 0", **more)[0]


def test_it_agrees_with_scikit_learns_and_repeats_itself() -> None:
    made = fitted(PROBLEM, TRAIN, seed=0, name="")
    ours = permutation_importance(made, PROBLEM, TEST, 600, seed=0, path=(0, 0))
    known = theirs(made, PROBLEM.X.iloc[TEST], PROBLEM.y[TEST], n_repeats=20, random_state=0, scoring="r2")
    for name, mean, spread in zip(PROBLEM.features, known.importances_mean, known.importances_std, strict=True):
        assert ours[name] == pytest.approx(mean, abs=4 * spread)
    assert list(ours) == ["much", "some", "nothing", "kind"]
    assert ours == permutation_importance(made, PROBLEM, TEST, 600, seed=0, path=(0, 0))
    assert ours != permutation_importance(made, PROBLEM, TEST, 600, seed=0, path=(0, 1))
    turned = Problem.of(TABLE[TABLE.columns[::-1]], RIDGE, "y")
    again = fitted(turned, TRAIN, seed=0, name="")
    assert permutation_importance(again, turned, TEST, 600, seed=0, path=(0, 0)) == pytest.approx(ours)


class Counting(Ridge):
    """Says its first column, and counts the rows that it is asked about."""

    rows = 0

    def predict(self, rows: pd.DataFrame) -> Any:
        self.rows += len(rows)
        return np.asarray(rows.iloc[:, 0], dtype=float)


@pytest.mark.parametrize(("n", "n_features"), [(195, 1), (200, 1), (500, 200), (40_000, 1)])
def test_it_never_predicts_more_than_half_of_what_scoring_does(n: int, n_features: int) -> None:
    """Or 5,000 rows, where that is more; features too many for it, or by under 40 rows, are not measured at all."""
    table = pd.DataFrame(np.zeros((n, n_features)), columns=[f"f{i}" for i in range(n_features)])
    table["f0"] = np.arange(n)
    problem = Problem.of(table.assign(y=np.arange(n) / 7.0), RIDGE, "y")
    counting, test = Counting(), np.arange(n // 5)
    found = permutation_importance(counting, problem, test, n - n // 5, seed=0, path=())
    assert counting.rows <= max(5_000, n // 2)
    assert counting.rows == 300 * 3 or (n, n_features) != (40_000, 1)
    assert counting.rows == 0 or set(found) == set(problem.features)
    assert bool(found) == ((n, n_features) not in {(195, 1), (500, 200)})


def test_it_is_measured_where_a_fold_asks_and_the_model_does_not_decline() -> None:
    assert scored().importance == {}
    assert scored(importance=True).importance.keys() == set(PROBLEM.features)
    none = Problem.of(TABLE, RIDGE.model_copy(update={"importance": "none"}), "y")
    assert scored(none, importance=True).importance == {}
    assert "importance" not in PROBLEM.model.canonical()
    keys = [score_key(each.model, membership="m", fingerprint="f", seed=0) for each in (PROBLEM, none)]
    assert keys[0] != keys[1]


def test_a_metric_that_the_rows_cannot_have_is_no_failure() -> None:
    y = np.where(np.arange(900) < 300, "a", "b")
    problem = Problem.of(X.assign(y=y), ModelSpec(estimator="sklearn.linear_model:LogisticRegression"), "y")
    made = fitted(problem, np.arange(900), seed=0, name="")
    assert permutation_importance(made, problem, TEST, 600, seed=0, path=()) == {}
    assert permutation_importance(made, problem, np.arange(150, 450), 600, seed=0, path=()) != {}


def test_the_table_holds_the_mean_the_sd_and_the_ends_of_the_folds() -> None:
    scores = [FoldScore(f"fold {i}", 0, i, {}, {}, 9, 9, 0, 0, (), {"b": 0.1 * i, "a": -0.01}) for i in (1, 2, 3)]
    table = importance_table([*scores, scored()])
    assert table["feature"].tolist() == ["b", "a"]
    assert table.loc[0, ["mean", "sd", "least", "most"]].tolist() == pytest.approx([0.2, 0.1, 0.1, 0.3])
    assert table["folds"].tolist() == [3, 3]
