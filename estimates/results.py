"""Estimates, their intervals and baselines, and the scores of folds."""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from typing import Any

from evenfold.estimates.errors import ModelError
from evenfold.estimates.metrics.registry import metric_of
from evenfold.splitters.display import Displayed


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
class Baseline:
    """A score that is reached without a model, beside an estimate. Higher is better.

    ``name``: what is predicted for every row, of the training rows: the mean, the last value, the most frequent class
    or the class shares. ``difference``: the estimate's value minus ``value``. ``interval``: of the difference, None
    where nothing says how sure it is.
    """

    name: str
    value: float
    difference: float
    interval: Interval | None = None


@dataclass(frozen=True, repr=False)
class Estimate(Displayed):
    """The conclusion on one metric. Higher is always better, as in scikit-learn's scorers.

    ``method``: ``cross-validation`` (``value`` is the score of all out-of-fold predictions together), ``validation
    part`` or ``one split`` (a single test set), ``out-of-bag``, ``.632``, ``.632+``, ``random splits`` (the mean
    over splits). ``interval``: of ``value``, which it always holds. ``fold_mean``: the mean of the splits' own
    scores, None where ``value`` is no pooled score. ``sd``: the *spread*, the sample standard deviation (ddof=1) of
    single splits' scores; no interval. ``se``: sd/sqrt(splits), which takes splits for independent, and they are
    not; None for repeats and draws. ``pooled``: the score of all out-of-fold predictions (mean over repeats); None
    where there is none. ``apparent``: the mean score on training rows. ``gap``: apparent - value, above 0 where the
    model does better on rows it has seen. ``ingredients``: the numbers that ``value`` is made of, by name.
    ``warnings``: sentences about the model that come before all ``notes``.
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

    @property
    def resolution(self) -> float | None:
        """The smallest difference from a model of another kind that this split could show: half the interval's width.

        A paired difference spreads like one model's score where the errors correlate by .5. Comparisons of
        models of different kinds could show .70 to 1.02 times as much (the middle of all pairs,
        ``benchmarks/resolution.py``), of variants of one model .05 to .27 times.
        """
        return None if self.interval is None else (self.interval.high - self.interval.low) / 2

    @property
    def summary(self) -> str:
        """Metric, value, interval and how it was got, in one line."""
        reading, interval = metric_of(self.metric), ""
        if self.interval is not None:
            low, high = sorted((reading.shown(self.interval.low), reading.shown(self.interval.high)))
            interval = f", {in_percent(self.interval.level)} [{low:.4g}, {high:.4g}]"
        score = f"{reading.title} {reading.shown(self.value):.4g}{interval}"
        return f"Estimate {score}: {self.method}, {self.n_splits:,} splits"


@dataclass(frozen=True)
class FoldScore:
    """One model on one split. Scores are scikit-learn's: higher is always better.

    ``test``: scores on unseen rows; ``apparent``: on the training rows. ``fold`` and ``repeat`` count from 0; a
    draw's ``fold`` is its number. Times are in seconds. ``warnings``: the first line of each warning of the fit.
    ``importance``: how far the first metric falls where a feature's values change places among test rows; empty
    where it was not measured.
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
