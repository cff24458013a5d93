"""Scores as people read them: an error is positive and lower is better, and an interval sets the digits."""

from __future__ import annotations

from math import floor, isfinite, log10

from evenfold.estimates.metrics.record import Metric
from evenfold.estimates.metrics.registry import metric_of
from evenfold.estimates.results import Estimate, Interval


def read_ends(metric: Metric, interval: Interval) -> tuple[float, float]:
    """Return the lower and the upper end of an interval as people read it."""
    low, high = sorted((metric.shown(interval.low), metric.shown(interval.high)))
    return low, high


def direction(metric: Metric) -> str:
    """Return which way is better."""
    return "lower is better" if metric.lower_is_better else "higher is better"


def written(value: float, half_width: float | None = None) -> str:
    """Return a score with the digits that mean something: two of its interval's half width, else three of its own."""
    if not isfinite(value):
        return "undefined"
    of = half_width if half_width and isfinite(half_width) else abs(value)
    digits = 3 if of == 0 else (1 if half_width else 2) - floor(log10(of))
    told = f"{value:,.{min(max(digits, 0), 6)}f}"
    return told.lstrip("-") if not told.strip("-0.,") else told


def headline(estimate: Estimate) -> tuple[str, str, str]:
    """Return the title of an estimate's metric, its value and its interval in brackets, as people read them."""
    metric, interval = metric_of(estimate.metric), estimate.interval
    if interval is None:
        return metric.title, written(metric.shown(estimate.value)), ""
    low, high = read_ends(metric, interval)
    half = (high - low) / 2
    return metric.title, written(metric.shown(estimate.value), half), f"[{written(low, half)}, {written(high, half)}]"
