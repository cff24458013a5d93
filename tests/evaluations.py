"""Data sets, two of them evaluated, and what the tests of estimates ask of predictions."""

from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
from evenfold.estimates import (
    METRICS,
    Answered,
    Evidence,
    FoldScore,
    Interval,
    ModelSpec,
    Problem,
    fit_and_score,
    fit_predictions,
    interval_for,
)
from evenfold.estimates.intervals.methods import around, standard_error
from evenfold.estimates.intervals.registry import nested, nested_splits
from evenfold.estimates.metrics.record import replay
from evenfold.splitters import KFold, StratifiedKFold, Stream
from scipy import stats
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.datasets import load_breast_cancer, load_diabetes, load_wine

LOGISTIC = "evenfold.estimates:scaled_logistic_regression"
UNSCALED = "sklearn.linear_model:LogisticRegression"
RIDGE = "sklearn.linear_model:Ridge"


def normals(n: int, seed: int = 0) -> Any:
    return stats.norm.ppf(Stream(seed).uniform(n) * 0.999999 + 5e-7)


def of_rows(metric: str, frame: pd.DataFrame, problem: Problem, method: str = "wald") -> Interval:
    made = interval_for(Evidence(METRICS[metric], problem, predictions=frame), method)
    assert isinstance(made, Interval)
    return made


def pooled_interval(losses: Any, groups: Any = None, weights: Any = None) -> Interval:
    """Return the interval of a mean of losses from their influence on it: t with the rows', or the groups', error."""
    loss = np.asarray(losses, dtype=float)
    mass = np.ones(loss.size) if weights is None else np.asarray(weights, dtype=float)
    mean = float(np.average(loss, weights=mass))
    units = None if groups is None else np.unique(np.asarray(groups), return_inverse=True)[1]
    spread = standard_error((loss - mean) * mass / mass.mean(), units)
    interval = around(mean, spread, 0.95, "pooled rows")
    assert interval is not None
    return interval


def frame_of(y: Any, prediction: Any, fold: Any = 0, **more: Any) -> pd.DataFrame:
    return pd.DataFrame({"row": range(len(y)), "repeat": 0, "fold": fold, "y": y, "prediction": prediction, **more})


def answered(frame: pd.DataFrame, problem: Problem) -> Answered:
    return Answered(replay(frame, problem.classes), frame["y"].to_numpy(), problem.classes)


def nested_of(problem: Problem, pairs: list[Any], level: float = 0.95) -> Any:
    scores, frames = evaluated(problem, pairs)
    evidence = Evidence(METRICS["neg_mean_squared_error"], problem, scores, pd.concat(frames))
    refits = [fit_predictions(problem, *pair, seed=0) for pair in nested_splits(evidence)]
    return nested(replace(evidence, refits=refits), level)


def evaluated(
    problem: Problem, pairs: list[Any], repeat: int = 0, seed: int = 0
) -> tuple[list[FoldScore], list[pd.DataFrame]]:
    how = {"repeat": repeat, "seed": seed}
    done = [fit_and_score(problem, *pair, name=f"fold {i}", fold=i, **how) for i, pair in enumerate(pairs)]
    return [score for score, _ in done], [frame for _, frame in done]


CANCER_ROWS = load_breast_cancer(as_frame=True).frame
DIABETES_ROWS = load_diabetes(as_frame=True).frame
WINE_ROWS = load_wine(as_frame=True).frame
CANCER = Problem.of(CANCER_ROWS, ModelSpec(estimator=LOGISTIC), "target")
CANCER_SCORES, CANCER_FRAMES = evaluated(CANCER, list(StratifiedKFold(5).split(CANCER.X, CANCER.y)))
DIABETES = Problem.of(DIABETES_ROWS, ModelSpec(estimator=RIDGE), "target")
DIABETES_SCORES, DIABETES_FRAMES = evaluated(DIABETES, list(KFold(5).split(DIABETES.X)))


class Remembering(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """Remembers what it was fitted on."""

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> "Remembering":
        self.seen_X_, self.seen_y_, self.weights_ = np.asarray(X), y, sample_weight
        self.classes_ = np.unique(y)
        return self

    def predict(self, X: Any) -> Any:
        return np.full(len(X), self.classes_[0])

    def predict_proba(self, X: Any) -> Any:
        return np.full((len(X), len(self.classes_)), 1 / len(self.classes_))


REMEMBERING = f"{__name__}:Remembering"


def rare(n: int = 600, share: float = 0.15) -> pd.DataFrame:
    stream = Stream(2)
    y = stream.uniform(n) < share
    x = stats.norm.ppf(stream.uniform(2 * n) * 0.9999 + 5e-5).reshape(n, 2) + 0.7 * y[:, None]
    return pd.DataFrame({"a": x[:, 0], "b": x[:, 1], "y": np.where(y, "yes", "no"), "w": 1 + np.arange(n) % 3})


RARE = rare()
THIRDS = list(StratifiedKFold(3).split(RARE, RARE["y"]))


def problem(table: pd.DataFrame = RARE, target: str = "y", groups: Any = None, **model: Any) -> Problem:
    given = {"features": ["a", "b"]} if table is RARE else {}
    return Problem.of(table, ModelSpec(**{**given, **model}), target, groups=groups)


def evaluate(seen: Problem, pairs: Any = THIRDS) -> list[Any]:
    return [fit_and_score(seen, *pair, seed=0, name=f"fold {i}", fold=i) for i, pair in enumerate(pairs)]
