"""Scores as people read them: an error is positive and lower is better, and an interval sets the digits."""

from __future__ import annotations

from dataclasses import dataclass
from math import floor, isfinite, log10

from evenfold.estimates.metrics.registry import metric_of
from evenfold.estimates.results import Estimate, Interval


@dataclass(frozen=True)
class Reading:
    """How a metric is read: its title, and whether people read the negative of scikit-learn's score."""

    title: str
    lower_is_better: bool

    @classmethod
    def of(cls, metric: str) -> Reading:
        """Return how a scorer of scikit-learn is read: ``neg_mean_absolute_error`` is MAE, lower is better."""
        record = metric_of(metric)
        return cls(record.title, record.lower_is_better)

    def shown(self, score: float) -> float:
        """Return a score as people read it."""
        return -score if self.lower_is_better else score

    def ends(self, interval: Interval) -> tuple[float, float]:
        """Return the lower and the upper end of an interval as people read it."""
        low, high = sorted((self.shown(interval.low), self.shown(interval.high)))
        return low, high

    @property
    def direction(self) -> str:
        """Which way is better."""
        return "lower is better" if self.lower_is_better else "higher is better"


def written(value: float, half_width: float | None = None) -> str:
    """Return a score with the digits that mean something: two of its interval's half width, else three of its own."""
    if not isfinite(value):
        return "undefined"
    of = half_width if half_width and isfinite(half_width) else abs(value)
    digits = 3 if of == 0 else (1 if half_width else 2) - floor(log10(of))
    return f"{value:,.{min(max(digits, 0), 6)}f}"


def headline(estimate: Estimate) -> tuple[str, str, str]:
    """Return the title of an estimate's metric, its value and its interval in brackets, as people read them."""
    reading, interval = Reading.of(estimate.metric), estimate.interval
    if interval is None:
        return reading.title, written(reading.shown(estimate.value)), ""
    low, high = reading.ends(interval)
    half = (high - low) / 2
    return reading.title, written(reading.shown(estimate.value), half), f"[{written(low, half)}, {written(high, half)}]"
