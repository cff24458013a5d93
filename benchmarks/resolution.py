"""How small a difference from another model a comparison shows, beside what an evaluation of one model says of it.

An evaluation knows one model. It says half of its interval's width, which is the paired resolution where the errors of
both models correlate by .5. Here pairs of models are compared row by row on the same folds.
"""

from __future__ import annotations

from itertools import combinations
from typing import Any

import numpy as np
import pandas as pd
from evenfold.estimates import Evidence, FoldScore, Interval, ModelSpec, Problem, compare, interval_for, metric_of
from evenfold.splitters import KFold, StratifiedKFold
from numpy.typing import NDArray
from scipy.special import expit
from sklearn.ensemble import RandomForestClassifier, RandomForestRegressor
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.neighbors import KNeighborsClassifier, KNeighborsRegressor
from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor

SETS, ROWS, FOLDS = 12, 300, 5
CLASSIFIERS = {
    "linear": LogisticRegression(), "linear, stronger penalty": LogisticRegression(C=0.1),
    "neighbours": KNeighborsClassifier(15), "tree": DecisionTreeClassifier(max_depth=4, random_state=0),
    "forest": RandomForestClassifier(30, random_state=0),
}  # fmt: skip
REGRESSORS = {
    "linear": Ridge(), "linear, stronger penalty": Ridge(30.0), "neighbours": KNeighborsRegressor(15),
    "tree": DecisionTreeRegressor(max_depth=4, random_state=0), "forest": RandomForestRegressor(30, random_state=0),
}  # fmt: skip
KINDS: tuple[tuple[dict[str, Any], tuple[Any, ...], tuple[str, ...]], ...] = (
    (CLASSIFIERS, (0, 1), ("accuracy", "roc_auc", "neg_log_loss")),
    (REGRESSORS, (), ("r2", "neg_mean_absolute_error", "neg_mean_squared_error")),
)
Array = NDArray[np.float64]


def rows() -> list[dict[str, Any]]:
    """Return, per metric, what pairs could show in units of what one evaluation says."""
    told = []
    for models, classes, metrics in KINDS:
        found = _ratios(models, classes, metrics)
        for metric in metrics:
            other, variants = found[metric, "other"], found[metric, "variant"]
            low, middle, high = np.quantile(other, [0.25, 0.5, 0.75]).tolist()
            told.append(
                {
                    "work": f"smallest difference a comparison shows / what one evaluation says, {metric}",
                    "ours": f"models of other kinds: {middle:.2f} (quartiles {low:.2f} to {high:.2f})",
                    "peer": f"variants of one model: {np.median(variants):.2f}",
                    "ratio": round(middle, 2),
                    "target": "0.5 to 1.25",
                    "met": 0.5 <= middle <= 1.25,
                }
            )
    return told


def _ratios(
    models: dict[str, Any], classes: tuple[Any, ...], metrics: tuple[str, ...]
) -> dict[tuple[str, str], list[float]]:
    ratios: dict[tuple[str, str], list[float]] = {}
    for seed in range(SETS):
        rng = np.random.default_rng(seed)
        X = rng.normal(size=(ROWS, 8))
        signal = X[:, 0] + 0.7 * X[:, 1] + 0.7 * X[:, 2] * X[:, 3]
        y = (
            (rng.uniform(size=ROWS) < expit(1.3 * signal)).astype(np.int64)
            if classes
            else signal + rng.normal(size=ROWS)
        )
        labels = (StratifiedKFold if classes else KFold)(FOLDS, random_state=seed).assign(X, y)
        frames = {name: _predicted(model, X, y, labels, classes) for name, model in models.items()}
        for metric in metrics:
            half = {name: _half(metric, frame, y, labels, classes) for name, frame in frames.items()}
            for a, b in combinations(frames, 2):
                shown = compare(frames[a], frames[b], metric, classes=classes).resolution
                assert shown is not None
                alike = a.partition(",")[0] == b.partition(",")[0]
                ratios.setdefault((metric, "variant" if alike else "other"), []).append(
                    shown / ((half[a] + half[b]) / 2)
                )
    return ratios


def _predicted(model: Any, X: Array, y: NDArray[Any], labels: NDArray[Any], classes: tuple[Any, ...]) -> pd.DataFrame:
    parts = []
    for fold in range(FOLDS):
        test = np.flatnonzero(labels == fold)
        model.fit(X[labels != fold], y[labels != fold])
        columns = {"row": test, "repeat": 0, "fold": fold, "y": y[test], "prediction": model.predict(X[test])}
        if classes:
            columns |= dict(zip(("proba_0", "proba_1"), model.predict_proba(X[test]).T, strict=True))
        parts.append(pd.DataFrame(columns))
    return pd.concat(parts)


def _half(metric: str, frame: pd.DataFrame, y: NDArray[Any], labels: NDArray[Any], classes: tuple[Any, ...]) -> float:
    task = "classification" if classes else "regression"
    problem = Problem(
        X=pd.DataFrame(index=range(ROWS)), y=y, task=task, classes=classes, model=ModelSpec(), target="y",
        features=(), encoded=(), left_out={}, columns_read=(),
    )  # fmt: skip
    sizes = [int(np.sum(labels == fold)) for fold in range(FOLDS)]
    scores = [FoldScore("", 0, fold, {}, {}, ROWS - n, n, 0.0, 0.0) for fold, n in enumerate(sizes)]
    made = interval_for(Evidence(metric_of(metric), problem, scores, frame), "corrected_wald")
    assert isinstance(made, Interval)
    return (made.high - made.low) / 2


def notes() -> str:
    """Return how to read it."""
    return f"{SETS} data sets of {ROWS} rows, {FOLDS} folds, every pair of five models; the median over pairs and sets."
