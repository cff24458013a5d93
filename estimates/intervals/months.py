"""The judgement of a new month's rows by a champion that never saw them: whether they still speak its language."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from math import exp, inf, isfinite, log, sqrt
from typing import Any, Literal

import numpy as np
import pandas as pd
from evenfold.estimates.metrics.record import Answered, Codes, Floats
from evenfold.estimates.models.problem import IntArray, Problem
from scipy import stats

# The chance, over any twelve months of one name, that a month as good as the earlier ones is refused. Two figures a
# month spend half of it; the rest is for what is found without a model.
YEARLY = 0.05
EACH = YEARLY / 2 / (12 * 2)
# How far months lie apart before any has told: of the slope, and of the log of the error; worth so many months.
PRIOR, WORTH = {"slope": 0.08, "spread": 0.3}, 3
MOST_BLOCKS = 24
FEWEST_ROWS, FEWEST_UNITS = 20, 5
# What a slope that is so many times the usual one looks like.
SLOPES = (
    (-0.2, ", and this looks turned"),
    (0.25, ", and this looks like shuffled targets, or features of other rows"),
    (0.4, ", and this looks like features in other units"),
    (2.5, ", and this is another relation"),
    (inf, ", and this looks like a target in other units"),
)


@dataclass(frozen=True)
class Figure:
    """A figure of a month, and its standard error by whole groups."""

    value: float
    se: float


@dataclass(frozen=True)
class Month:
    """The figures of a month's rows, by the predictions of a model that never saw them.

    ``slope`` of what came on what was predicted: 1 as promised, 0 shuffled, -1 turned. ``spread``: log of the mean
    squared error, of classes over the one that their probabilities promise.
    """

    rows: int
    slope: Figure
    spread: Figure


@dataclass(frozen=True)
class Reading:
    """A month's figure, and within what that of a good month lies: the slope, or the error in shares of the usual."""

    value: float
    low: float
    high: float

    @property
    def sound(self) -> bool:
        """Return whether it lies within; what is no number does not."""
        return self.low <= self.value <= self.high


@dataclass(frozen=True)
class Judgement:
    """The verdict on rows that joined: whether to learn from them, and why, in sentences; ``unclear`` if nothing tells.

    ``series``: as metrics of a run, slope and error of each generation's new rows under the champion of its day, with
    the ends of what a good one has. ``score``: of the champion on the new ``rows``, deciding nothing.
    """

    verdict: Literal["sound", "unclear", "refused"] = "sound"
    sentences: list[str] = field(default_factory=list)
    series: dict[str, dict[int, float]] = field(default_factory=dict)
    score: float | None = None
    rows: int = 0


def judge(now: Month, earlier: Sequence[Month], target: str, generation: int = 0) -> Judgement:
    """Return the judgement of a month by a champion's figures of it, beside those of earlier rows that it had not seen.

    Refused where at most one good month in 960 has such a figure; unclear for few rows, or a champion that is too weak.
    """
    usable = [month for month in earlier if isfinite(month.spread.value) and isfinite(month.slope.se)]
    if now.rows < FEWEST_ROWS or not usable:
        what = f"{now.rows:,} new rows" if usable else "no earlier predictions of rows that the champion had not seen"
        return Judgement("unclear", [f"The champion cannot judge the new rows: there are {what}."])
    ends = {name: interval([getattr(month, name) for month in usable], getattr(now, name), PRIOR[name])
            for name in PRIOR}  # fmt: skip
    slope, usual = Reading(now.slope.value, *ends["slope"]), float(np.mean([month.spread.value for month in usable]))
    error = Reading(*(exp(min(value - usual, 700.0)) for value in (now.spread.value, *ends["spread"])))
    figures = {"slope": slope, "error": error}
    series = {
        f"month/{figure}{'' if end == 'value' else f'_{end}'}": {generation: value}
        for figure, reading in figures.items()
        for end, value in asdict(reading).items()
        if isfinite(value)
    }
    if not (slope.sound and error.sound):
        wrong = [_told(name, each, target) for name, each in figures.items() if not each.sound]
        return Judgement("refused", wrong, series)
    if slope.low <= 0:
        sentence = f"The champion is too weak to judge the new rows: the slope of {target} on what it predicts may be "
        sentence += f"{slope.low:.2g} to {slope.high:.2g} ({slope.value:.2g} came), and that of shuffled targets is 0."
        return Judgement("unclear", [sentence], series)
    return Judgement("sound", [_told(name, each, target) for name, each in figures.items()], series)


def _told(name: str, of: Reading, target: str) -> str:
    ends = f"a good month has {of.low:.2g} to {of.high:.2g}"
    if name == "error":
        what = f"the champion's mean squared error on the new rows is {of.value:.3g} times the usual; {ends}"
        word = "" if of.sound else ", and this is too good to be true" if of.value < of.low else ", and this is worse"
    else:
        what = f"the slope of {target} on what the champion predicted is {of.value:.3g}; {ends}"
        near = of.value / ((of.low + of.high) / 2 or 1)
        word = next(word for most, word in SLOPES if near <= most) if not of.sound else ""
    return f"{what[:1].upper()}{what[1:]}{word}."


def month_of(y: Any, predicted: Any, units: Any = None, classes: int = 0) -> Month:
    """Return the figures of some rows: numbers, or codes of classes with a probability each; ``units``: groups."""
    p = np.asarray(predicted, dtype=np.float64).reshape(len(y), -1)
    came: Floats = np.eye(classes)[np.asarray(y)] if classes else np.asarray(y, dtype=np.float64).reshape(-1, 1)
    codes = np.unique(np.arange(len(y)) if units is None else np.asarray(units), return_inverse=True)[1].ravel()
    x, error = p - p.mean(axis=0), np.square(came - p).sum(axis=1)
    promised = (p * (1 - p)).sum(axis=1) if classes else np.ones(len(y))
    promised = promised if promised.mean() > 1e-6 else np.ones(len(y))  # of classes without probabilities
    square = float(np.square(x).sum())
    slope = float((x * came).sum()) / square if square > 0 else 0.0
    off = came - came.mean(axis=0) - slope * x
    ratio = float(error.sum() / promised.sum())
    return Month(
        len(y),
        Figure(slope, _se((x * off).sum(axis=1), codes) / square if square > 0 else inf),
        Figure(log(ratio), _se(error - ratio * promised, codes) / float(error.sum())) if ratio > 0 else Figure(-inf, 0),
    )


def month_in(problem: Problem, rows: IntArray, answered: Answered) -> Month:
    """Return the figures of rows of a problem, by a model's answers for them; those of a group stay together."""
    return month_of(answered.truth, answered.numbers, _units(problem, rows), len(answered.classes))


def earlier_months(problem: Problem, predictions: pd.DataFrame, order: Any, size: int) -> list[Month]:
    """Return the figures of out-of-fold ``predictions``, in blocks of about ``size`` rows like earlier months.

    ``row``: as the problem has it. ``order``: of the problem's rows, in time or by generation. A class of then that no
    row has by now, as after a correction, tells nothing.
    """
    if problem.classes:
        predictions = predictions[predictions[["y", "prediction"]].isin(problem.classes).all(axis=1)]
    rows = predictions["row"].to_numpy()
    parts = blocks(order[rows], size, _units(problem, rows)) if rows.size else []
    return [month_in(problem, rows[part], Answered.of(predictions.iloc[part], problem.classes)) for part in parts]


def _units(problem: Problem, rows: IntArray) -> IntArray:
    return rows if problem.groups is None else problem.groups[rows]


def _se(scores: Floats, codes: Codes) -> float:
    """Return the standard error of a sum of rows' scores, of whole units; of few it is widened as t's is."""
    sums = np.bincount(codes, weights=scores)
    n = sums.size
    return sqrt(float(np.square(sums).sum()) * n / (n - 3)) if n >= FEWEST_UNITS else inf


def blocks(order: Any, size: int, units: Any = None) -> list[Codes]:
    """Return rows parted into 1 to 24 blocks of about ``size``, in ``order`` of time or generation, units whole."""
    units = np.arange(len(order)) if units is None else np.unique(np.asarray(units), return_inverse=True)[1].ravel()
    first = np.full(units.max() + 1, np.iinfo(np.int64).max)
    np.minimum.at(first, units, np.unique(np.asarray(order), return_inverse=True)[1].ravel())
    rows = np.lexsort((units, first[units]))
    n = min(max(len(rows) // max(size, 1), 1), MOST_BLOCKS)
    starts = np.r_[0, np.flatnonzero(np.diff(units[rows])) + 1]  # a block ends where a unit does
    cuts = np.unique(starts[np.searchsorted(starts, np.arange(1, n) * len(rows) / n).clip(max=starts.size - 1)])
    return [part for part in np.split(rows, cuts) if part.size]


def interval(earlier: Sequence[Figure], now: Figure, prior: float) -> tuple[float, float]:
    """Return the ends of a good month's figure, outside of which it lies with a chance of ``EACH``.

    A new month differs from the earlier ones' mean by chance in both, and by how months differ: by the earlier ones,
    less their own errors, and a prior worth 3 months (a scaled inverse chi-square, so Student's t).
    """
    finite = [figure for figure in earlier if isfinite(figure.value) and isfinite(figure.se)]
    values, errors = np.array([figure.value for figure in finite]), np.array([figure.se for figure in finite])
    k = len(finite)
    between = float(np.square(values - values.mean()).sum() - np.square(errors).sum() * (k - 1) / k)
    between = (WORTH * prior**2 + max(between, 0.0)) / (WORTH + k - 1)
    half = sqrt(between * (1 + 1 / k) + now.se**2 + float(np.square(errors).mean()) / k)
    half *= float(stats.t.isf(EACH / 2, WORTH + k - 1))
    return float(values.mean()) - half, float(values.mean()) + half
