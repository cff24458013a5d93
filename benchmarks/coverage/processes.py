"""Processes that make data sets whose true error is known, with the models that are fitted to them.

Six are those of a published audit of intervals: few rows for the features (classes and numbers), heavy tails, a rare
class, clusters, and a series. The others are tame, or hard in a way of their own.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import numpy as np
from evenfold.splitters import BalancedGroupKFold, ForwardChaining, KFold, StratifiedKFold
from numpy.typing import NDArray
from scipy.special import expit

Array = NDArray[np.float64]
POPULATION = 20_000


@dataclass(frozen=True)
class Sample:
    """Rows with their groups; ``intercept`` is the last column of X."""

    X: Array
    y: Array
    groups: NDArray[np.int64] | None = None


@dataclass(frozen=True)
class Process:
    """How a data set of n rows is drawn, what is fitted to it, and how it is split (``split``: train and test rows).

    ``metrics``: what is measured. ``ordered``, ``stratified``: what the split is.
    """

    name: str
    n: int
    draw: Callable[[np.random.Generator, int], Sample]
    fit: Callable[[Array, Array], Array]
    metrics: tuple[str, ...]
    splitter: str = "random"
    classes: tuple[int, ...] = ()

    def splits(self, sample: Sample, seed: int, k: int = 5) -> list[tuple[NDArray[np.int64], NDArray[np.int64]]]:
        """Return train and test rows of each split."""
        if self.splitter == "forward":
            return list(ForwardChaining(k).split(sample.X, sample.y, time=np.arange(self.n)))
        if self.splitter == "grouped":
            labels = BalancedGroupKFold(k, random_state=seed).assign(groups=sample.groups)
        else:
            maker = StratifiedKFold if self.splitter == "stratified" else KFold
            labels = maker(k, random_state=seed).assign(sample.X, sample.y.astype(np.int64) if self.classes else None)
        return [(np.flatnonzero(labels != fold), np.flatnonzero(labels == fold)) for fold in range(k)]

    def answer(self, X: Array, coefficients: Array) -> Array:
        """Return predictions, or the probability of class 1."""
        return expit(X @ coefficients) if self.classes else X @ coefficients


def ridge(X: Array, y: Array, penalty: float = 1.0) -> Array:
    """Return ridge coefficients; the last column, the intercept, has no penalty."""
    return np.linalg.solve(X.T @ X + np.diag([penalty] * (X.shape[1] - 1) + [0.0]), X.T @ y)


def least_squares(X: Array, y: Array) -> Array:
    """Return least-squares coefficients."""
    return ridge(X, y, 1e-8)


def logistic(X: Array, y: Array) -> Array:
    """Return logistic regression's coefficients with scikit-learn's default penalty, by Newton's method."""
    penalty = np.diag([1.0] * (X.shape[1] - 1) + [1e-6])
    beta = np.zeros(X.shape[1])
    for _ in range(12):
        p = expit(X @ beta)
        step = np.linalg.solve((X * (p * (1 - p))[:, None]).T @ X + penalty, X.T @ (y - p) - penalty @ beta)
        beta = beta + step
        if np.abs(step).max() < 1e-6:
            break
    return beta


def _features(rng: np.random.Generator, n: int, p: int) -> Array:
    return np.column_stack([rng.normal(size=(n, p)), np.ones(n)])


def _classes(p: int, strong: int, size: float, intercept: float = 0.0) -> Callable[[np.random.Generator, int], Sample]:
    beta = np.concatenate([np.full(strong, size), np.zeros(p - strong), [intercept]])

    def draw(rng: np.random.Generator, n: int) -> Sample:
        X = _features(rng, n, p)
        return Sample(X, (rng.uniform(size=n) < expit(X @ beta)).astype(np.float64))

    return draw


def _numbers(p: int, size: float, noise: Callable[[np.random.Generator, int], Array]) -> Callable[..., Sample]:
    beta = np.concatenate([np.full(p, size), [0.0]])

    def draw(rng: np.random.Generator, n: int) -> Sample:
        X = _features(rng, n, p)
        return Sample(X, X @ beta + noise(rng, n))

    return draw


def _clusters(rng: np.random.Generator, n: int) -> Sample:
    """Clusters of 10 rows, a fifth of the residual variance between them, and features that they share in part."""
    groups = np.arange(n) // 10
    count = -(-n // 10)
    X = _features(rng, n, 5)
    X[:, :5] = 0.7 * X[:, :5] + 0.7 * rng.normal(size=(count, 5))[groups]
    noise = np.sqrt(0.2) * rng.normal(size=count)[groups] + np.sqrt(0.8) * rng.normal(size=n)
    return Sample(X, X @ np.array([0.5] * 5 + [0.0]) + noise, groups)


def _series(rng: np.random.Generator, n: int) -> Sample:
    """Residuals that follow one another: each is .9 of the last and something new; their variance is 1."""
    X = _features(rng, n, 3)
    noise = np.empty(n)
    noise[0] = rng.normal()
    fresh = np.sqrt(1 - 0.81) * rng.normal(size=n)
    for t in range(1, n):
        noise[t] = 0.9 * noise[t - 1] + fresh[t]
    return Sample(X, X @ np.array([0.5, 0.5, 0.5, 0.0]) + noise)


def _normal(rng: np.random.Generator, n: int) -> Array:
    return rng.normal(size=n)


def _heavy(rng: np.random.Generator, n: int) -> Array:
    return rng.standard_t(2.5, size=n)


def _lognormal(rng: np.random.Generator, n: int) -> Array:
    return np.asarray(rng.lognormal(sigma=0.8, size=n) - np.exp(0.32))


def _zipf(rng: np.random.Generator, n: int) -> Sample:
    """Groups whose sizes fall like 1/rank, with an effect each."""
    groups = np.repeat(np.arange(n), np.maximum(n // 5 // np.arange(1, n + 1), 1))[:n]
    X = _features(rng, n, 5)
    noise = np.sqrt(0.3) * rng.normal(size=n)[groups] + np.sqrt(0.7) * rng.normal(size=n)
    return Sample(X, X @ np.array([0.5] * 5 + [0.0]) + noise, groups)


_OF_CLASSES = ("accuracy", "roc_auc", "balanced_accuracy", "neg_log_loss")
_MAE = "neg_mean_absolute_error"
_SQUARED = ("neg_mean_squared_error", "r2")
PROCESSES = (
    Process("logistic, 20 features, 100 rows", 100, _classes(20, 4, 1.0), logistic, _OF_CLASSES, "stratified", (0, 1)),
    Process("ridge, 60 features, 100 rows", 100, _numbers(60, 0.15, _normal), partial(ridge, penalty=30.0), _SQUARED),
    Process("errors with a heavy tail (t 2.5), 200 rows", 200, _numbers(10, 0.3, _heavy), least_squares, _SQUARED),
    Process("5 % positives, 400 rows", 400, _classes(5, 3, 1.0, -3.75), logistic, _OF_CLASSES, "stratified", (0, 1)),
    Process("10 clusters of 10 rows", 100, _clusters, least_squares, _SQUARED, "grouped"),
    Process("30 clusters of 10 rows", 300, _clusters, least_squares, _SQUARED, "grouped"),
    Process("logistic, 10 features, 300 rows", 300, _classes(10, 5, 0.6), logistic, _OF_CLASSES, "stratified", (0, 1)),
    Process(
        "logistic, 10 features, 1,500 rows", 1_500, _classes(10, 5, 0.6), logistic, _OF_CLASSES, "stratified", (0, 1)
    ),
    Process("ridge, 10 features, 300 rows", 300, _numbers(10, 0.3, _normal), ridge, (*_SQUARED, _MAE)),
    Process("ridge, 10 features, 1,500 rows", 1_500, _numbers(10, 0.3, _normal), ridge, (*_SQUARED, _MAE)),
    Process("lognormal errors, 250 rows", 250, _numbers(5, 0.3, _lognormal), least_squares, (*_SQUARED, _MAE)),
    Process("groups of Zipf's sizes, 300 rows", 300, _zipf, least_squares, _SQUARED, "grouped"),
    Process("nothing to learn, 200 rows", 200, _classes(20, 0, 0.0), logistic, _OF_CLASSES, "stratified", (0, 1)),
    Process("a series, forward chaining, 300 rows", 300, _series, least_squares, _SQUARED, "forward"),
)
