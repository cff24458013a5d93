"""Estimates, their intervals and baselines; the scores of folds, what their models use and what they confuse."""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pandas as pd
from evenfold.estimates.metrics.record import Answered, Metric, Responses, codes_of
from evenfold.estimates.metrics.registry import metric_of, score_or_nan
from evenfold.estimates.models.problem import IntArray, Problem
from evenfold.splitters import Stream
from evenfold.splitters.errors import Displayed, ModelError
from evenfold.splitters.numbers import IMPORTANCE
from sklearn.metrics import confusion_matrix

MOST_ROWS, FEWEST_ROWS, REPEATS = 300, 40, 2  # of the importance of features: test rows, and changes of each
AT_LEAST = 5_000  # predictions that are cheap beside any fit
MOST_FOLDS = 10  # of which it is measured: the first ones, for more would say the same at the cost of short fits
MOST_CLASSES = 20  # of a confusion matrix
FIGURES = ("n_train", "n_test", "seconds_fit", "seconds_score")  # of a FoldScore, beside its scores
TOLD = ("metric", "method", "value", "sd", "se", "pooled", "apparent", "n_splits")  # of an Estimate, in a table


def in_percent(level: float) -> str:
    """Return a level as people read it: ``95 %``, ``99.9 %``."""
    return f"{100 * level:.6g} %"


def require_level(level: float) -> None:
    """Raise ModelError for a level outside of (0, 1)."""
    if not 0 < level < 1:
        raise ModelError(f"level={level:g} is not a share of cases; choose a number between 0 and 1, such as 0.95.")


def rounded(value: float, digits: int) -> str:
    """Return a number with so many digits that mean something, as people write it: ``0.052``, ``-130``, ``1,200``."""
    text = f"{value:.{digits}g}"
    return f"{float(text):,.0f}" if "e+" in text else text


@dataclass(frozen=True)
class Interval:
    """The range in which the value of a metric lies in ``level`` of the cases, by ``method``; ``of``: that value."""

    low: float
    high: float
    level: float
    method: str
    notes: tuple[str, ...] = ()
    of: str = ""

    def said(self, digits: int) -> str:
        """Return its level and ends, of so many digits, as people write them: ``95 % [0.1, 0.3]``."""
        return f"{in_percent(self.level)} [{rounded(self.low, digits)}, {rounded(self.high, digits)}]"

    def read(self, metric: Metric) -> Interval:
        """Return the interval as people read the metric: an error is positive."""
        low, high = sorted((metric.shown(self.low), metric.shown(self.high)))
        return replace(self, low=low, high=high)

    def scores(self, best: float) -> Interval:
        """Return the interval of losses as that of scores ``best`` - loss: the highest loss is the lowest score."""
        return replace(self, low=best - self.high, high=best - self.low)

    def within(self, low: float, high: float) -> Interval:
        """Return the interval without what a metric cannot be, of which a standard error knows nothing."""
        return replace(self, low=min(max(self.low, low), high), high=max(min(self.high, high), low))

    def holding(self, value: float) -> Interval:
        """Return the interval, widened to ``value`` where it does not hold it: no estimate lies outside of its own."""
        return replace(self, low=min(self.low, value), high=max(self.high, value))


@dataclass(frozen=True)
class Declined:
    """The reason why there is no interval, and what would give one; empty where none is asked for."""

    reason: str

    @property
    def note(self) -> str:
        """The reason in a sentence."""
        return f"There is no interval: {self.reason}"


@dataclass(frozen=True)
class Baseline:
    """A score that is reached without a model, beside an estimate. Higher is better.

    ``name``: what is predicted for every row: training rows' mean, last value, most frequent class or class shares.
    ``difference``: the estimate's value minus ``value``. ``interval``: of it, None where nothing says how sure it is.
    """

    name: str
    value: float
    difference: float
    interval: Interval | None = None


@dataclass(frozen=True, repr=False)
class Estimate(Displayed):
    """The conclusion on one metric. Higher is always better, as in scikit-learn's scorers.

    ``method``: ``cross-validation`` (``value`` is the score of all out-of-fold predictions together), ``validation
    part`` or ``one split`` (a single test set), ``out-of-bag``, ``.632``, ``.632+``, ``random splits`` (the mean).
    ``interval``: of ``value``, which it always holds. ``fold_mean``: the mean of the splits' own scores. ``sd``: the
    *spread*, the sample standard deviation (ddof=1) of single splits' scores; no interval. ``se``: sd/sqrt(splits),
    which takes splits for independent, and they are not; None for repeats and draws. ``pooled``: the score of all
    out-of-fold predictions (mean over repeats). ``apparent``: the mean score on training rows. ``gap``: apparent -
    value. ``ingredients``: the numbers that ``value`` is made of, by name. ``warnings``: about the model.
    """

    metric: str
    method: str
    value: float
    sd: float | None
    se: float | None
    n_splits: int
    pooled: float | None = None
    apparent: float | None = None
    gap: float | None = None
    interval: Interval | None = None
    notes: tuple[str, ...] = ()
    ingredients: dict[str, float] = field(default_factory=dict)
    fold_mean: float | None = None
    baseline: Baseline | None = None
    warnings: tuple[str, ...] = ()

    def bounded(self, outcome: Interval | Declined) -> Estimate:
        """Return the estimate with its interval, or with a note why there is none."""
        if isinstance(outcome, Interval):
            return replace(self, interval=outcome.holding(self.value))
        return replace(self, notes=(*self.notes, outcome.note)) if outcome.reason else self

    @property
    def resolution(self) -> float | None:
        """The smallest difference from a model of another kind that this split could show: half the interval's width.

        Models of other kinds could show .70 to 1.02 times as much (``benchmarks/resolution.py``), variants .05 to .27.
        """
        return None if self.interval is None else (self.interval.high - self.interval.low) / 2

    @property
    def summary(self) -> str:
        """Metric, value, interval and how it was got, in one line."""
        reading = metric_of(self.metric)
        interval = "" if self.interval is None else f", {self.interval.read(reading).said(4)}"
        score = f"{reading.title} {rounded(reading.shown(self.value), 4)}{interval}"
        return f"Estimate {score}: {self.method}, {self.n_splits:,} splits"


@dataclass(frozen=True)
class FoldScore:
    """One model on one split. Scores are scikit-learn's: higher is always better.

    ``test``: scores on unseen rows; ``apparent``: on the training rows. ``fold`` and ``repeat`` count from 0; a
    draw's ``fold`` is its number. ``warnings``: the first line of each warning of the fit. ``importance``: see
    ``permutation_importance``; empty where it was not measured.
    """

    name: str
    repeat: int
    fold: int
    test: dict[str, float]
    apparent: dict[str, float]
    n_train: int
    n_test: int
    seconds_fit: float
    seconds_score: float
    warnings: tuple[str, ...] = ()
    importance: dict[str, float] = field(default_factory=dict)


def warned(fits: Sequence[Sequence[str]]) -> list[str]:
    """Return each warning once, with how many of the fits gave it; ``fits``: the warnings of each."""
    times = Counter(sentence for warnings in fits for sentence in warnings)
    return [f"{n:,} of {len(fits):,} fits warned: {sentence}." for sentence, n in times.items()]


_HEARD: ContextVar[list[str] | None] = ContextVar("evenfold_heard", default=None)
_before: list[Any] = [warnings.showwarning]


def _hear(message: Warning | str, category: type[Warning], filename: str, lineno: int, *more: Any, **how: Any) -> None:
    # Threads of scikit-learn's that fit at once lose one another's filters for a moment; nobody can do anything then.
    if "`sklearn.utils.parallel.delayed`" in str(message):
        return
    heard = _HEARD.get()
    if heard is None:
        _before[0](message, category, filename, lineno, *more, **how)
        return
    first = (str(message).strip().splitlines() or [""])[0]
    sentence = f"{category.__name__}: {first[:160].rstrip(' :.')}"
    if sentence not in heard:
        heard.append(sentence)


@contextmanager
def hearing() -> Iterator[list[str]]:
    """Yield a list that gets the first line of each warning in the block, in this thread, and print none.

    ``warnings.catch_warnings`` would do it for every thread at once, and models are fitted in several.
    """
    if warnings.showwarning is not _hear:
        _before[0], warnings.showwarning = warnings.showwarning, _hear
    heard: list[str] = []
    token = _HEARD.set(heard)
    try:
        yield heard
    finally:
        _HEARD.reset(token)


def permutation_importance(
    fitted: Any, problem: Problem, test: IntArray, n_train: int, *, seed: int, path: Sequence[int]
) -> dict[str, float]:
    """Return by how much the first metric falls without the order of each feature, on rows of ``test``.

    Each feature's values change places twice among at most 300 evenly drawn test rows. All changed rows, no more than
    half of those that scoring predicts (or 5,000), are predicted at once; with many features rows or changes are fewer.
    Empty below 40 rows, or where the metric is undefined. ``seed`` and ``path`` decide rows and changes. Source:
    Breiman (2001), Random forests; Fisher, Rudin and Dominici (2019).
    """
    features = list(problem.features)
    room = max(AT_LEAST, (n_train + int(test.size)) // 2)
    sizes = {times: min(MOST_ROWS, int(test.size), room // (len(features) * times + 1)) for times in (1, REPEATS)}
    repeats = REPEATS if sizes[REPEATS] >= FEWEST_ROWS else 1
    if (m := sizes[repeats]) < FEWEST_ROWS:
        return {}
    stream = Stream(seed, IMPORTANCE, *path)
    rows = np.sort(test[stream.permutation(test.size)[:m]])
    X = problem.X.iloc[rows]
    as_they_are = np.tile(np.arange(m), (1 + len(features) * repeats, 1))  # once, and once for each change
    columns = {}
    for name in sorted(features):  # so that the order of columns changes nothing
        order, i = as_they_are.copy(), features.index(name)
        order[1 + i * repeats : 1 + (i + 1) * repeats] = [stream.permutation(m) for _ in range(repeats)]
        columns[name] = X[name].array.take(order.reshape(-1))
    X = pd.DataFrame(columns)[features]
    weights = None if problem.weights is None else np.tile(problem.weights[rows], len(as_they_are))
    y = np.tile(problem.y[rows], len(as_they_are))
    answered = Answered(Responses.of(fitted, X), y, problem.classes, weights)
    metric, blocks = metric_of(problem.model.metrics[0]), np.arange(y.size).reshape(as_they_are.shape)
    with hearing():  # of what is undefined, which is no importance then
        scores = [score_or_nan(metric, answered.drawn(block), quick=True) for block in blocks]
    if not np.isfinite(scores).all():
        return {}
    falls = scores[0] - np.reshape(scores[1:], (len(features), repeats)).mean(axis=1)
    return dict(zip(features, falls.tolist(), strict=True))


def importance_table(scores: Sequence[FoldScore]) -> pd.DataFrame:
    """Return each feature's importance over the folds, largest first: feature, mean, sd, least, most, folds."""
    measured = pd.DataFrame([score.importance for score in scores if score.importance])
    rows = [(name, column.mean(), column.std(), column.min(), column.max(), int(column.count()))
            for name, column in measured.items()]  # fmt: skip
    table = pd.DataFrame(rows, columns=["feature", "mean", "sd", "least", "most", "folds"])
    return table.sort_values("mean", ascending=False, kind="stable", ignore_index=True)


def figures_of(estimate: Estimate | None, figures: Sequence[str] = TOLD) -> dict[str, object]:
    """Return figures of an estimate and the ends of its interval, by name; None for what there is not."""
    interval = estimate and estimate.interval
    ends = {end: getattr(interval, end, None) for end in ("low", "high")}
    return {each: getattr(estimate, each, None) for each in figures} | ends


@dataclass(frozen=True)
class Confusion:
    """Counts of true (a row) by predicted classes over all test rows, or over training rows (``apparent``)."""

    classes: list[str]
    counts: list[list[int]]
    positive: str | None = None
    thresholds: tuple[float, float] | None = None
    apparent: bool = False

    @classmethod
    def of(cls, problem: Problem, predictions: pd.DataFrame, apparent: bool = False) -> Confusion | None:
        """Return it for predictions of classes; None for numbers, and for more than 20 classes."""
        classes = problem.classes
        if not classes or len(classes) > MOST_CLASSES:
            return None
        truth, called = (codes_of(predictions[name].to_numpy(), classes) for name in ("y", "prediction"))
        has_threshold = problem.model.threshold is not None and f"proba_{problem.positive}" in predictions
        counts = confusion_matrix(truth, called, labels=range(len(classes))).tolist()
        positive = None if problem.positive is None else str(problem.positive)
        limits = thresholds(problem, predictions) if has_threshold else None
        return cls([str(label) for label in classes], counts, positive, limits, apparent)


def thresholds(problem: Problem, predictions: pd.DataFrame) -> tuple[float, float]:
    """Return the lowest and the highest threshold over the folds, as probabilities of the positive class."""
    threshold = problem.model.threshold
    if threshold is None or isinstance(threshold, float):
        return (threshold or 0.5,) * 2
    label = problem.positive
    yes = predictions["prediction"] == label
    probability = predictions[f"proba_{label}"]
    by = [predictions["repeat"], predictions["fold"]]
    # Where a fold calls none a yes, or none a no, the threshold is somewhere beyond: taken as the end of the scale.
    least = probability.where(yes).groupby(by).min().fillna(1.0)
    most = probability.mask(yes).groupby(by).max().fillna(0.0)
    middle = (least + most) / 2
    return float(middle.min()), float(middle.max())
