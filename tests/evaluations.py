"""Two evaluated data sets, and what the tests of estimates ask of predictions."""

from __future__ import annotations

from typing import Any

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
    interval_for,
)
from evenfold.estimates.metrics.responses import replay
from evenfold.splitters import KFold, StratifiedKFold, Stream
from scipy import stats
from sklearn.datasets import load_breast_cancer, load_diabetes

LOGISTIC = "evenfold.estimates:scaled_logistic_regression"
RIDGE = "sklearn.linear_model:Ridge"


def normals(n: int, seed: int = 0) -> Any:
    """Return n normal numbers."""
    return stats.norm.ppf(Stream(seed).uniform(n) * 0.999999 + 5e-7)


def of_rows(metric: str, frame: pd.DataFrame, problem: Problem, method: str = "wald") -> Interval:
    """Return the interval of some predictions by a method."""
    made = interval_for(Evidence(METRICS[metric], problem, predictions=frame), method)
    assert isinstance(made, Interval)
    return made


def answered(frame: pd.DataFrame, problem: Problem) -> Answered:
    """Return some predictions as metrics read them."""
    return Answered(replay(frame, problem.classes), frame["y"].to_numpy(), problem.classes)


def evaluated(problem: Problem, pairs: list[Any], repeat: int = 0) -> tuple[list[FoldScore], list[pd.DataFrame]]:
    """Return the scores and predictions of a problem's model on some splits."""
    done = [
        fit_and_score(problem.model, problem, *pair, seed=0, name=f"fold {i}", fold=i, repeat=repeat)
        for i, pair in enumerate(pairs)
    ]
    return [score for score, _ in done], [frame for _, frame in done]


CANCER = Problem.of(load_breast_cancer(as_frame=True).frame, ModelSpec(estimator=LOGISTIC), "target")
CANCER_SCORES, CANCER_FRAMES = evaluated(CANCER, list(StratifiedKFold(5).split(CANCER.X, CANCER.y)))
DIABETES = Problem.of(load_diabetes(as_frame=True).frame, ModelSpec(estimator=RIDGE), "target")
DIABETES_SCORES, DIABETES_FRAMES = evaluated(DIABETES, list(KFold(5).split(DIABETES.X)))
