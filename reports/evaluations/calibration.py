"""Whether probabilities mean what they say, which of them the threshold counts as a yes: a section of the page."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from evenfold.estimates.intervals.rows import wilson
from evenfold.estimates.models.confusion import thresholds
from evenfold.estimates.models.problem import Problem
from evenfold.estimates.results import in_percent
from evenfold.reports.charts import N_COLOURS, Picture
from evenfold.reports.page import Block, Folded, Section, Table, counted, number
from numpy.typing import NDArray
from scipy import stats

BINS = 10
Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Reliability:
    """Of each bin of probability that has weight: number, rows, weight, mean prediction and share of the class."""

    name: str
    bins: NDArray[np.int64]
    rows: NDArray[np.int64]
    weight: Floats
    predicted: Floats
    observed: Floats

    @classmethod
    def of(cls, name: str, probability: Floats, hit: NDArray[Any], weight: Floats) -> Reliability:
        """Return the reliability of probabilities in ten bins of equal width; means are weighted. O(n)."""
        at = np.minimum((probability * BINS).astype(np.int64), BINS - 1)
        rows, whole = np.bincount(at, minlength=BINS), np.bincount(at, weights=weight, minlength=BINS)
        used = np.flatnonzero(whole > 0)
        predicted = np.bincount(at, weights=weight * probability, minlength=BINS)[used] / whole[used]
        observed = np.bincount(at, weights=weight * hit, minlength=BINS)[used] / whole[used]
        return cls(name, used, rows[used], whole[used].astype(np.float64), predicted, observed)

    @property
    def off(self) -> float:
        """How far a prediction is from what was observed, on average over the rows by their weights (0 to 1)."""
        return float(np.average(np.abs(self.predicted - self.observed), weights=self.weight))

    def interval(self, level: float = 0.95) -> tuple[Floats, Floats]:
        """Return Wilson's interval of each bin's share, for rows that are independent of one another."""
        quantile = float(stats.norm.ppf(0.5 + level / 2))
        ends = [wilson(share, n, quantile) for share, n in zip(self.observed, self.rows, strict=True)]
        low, high = np.array(ends).T
        return low, high


def calibration_section(problem: Problem, predictions: pd.DataFrame | None, level: float = 0.95) -> list[Section]:
    """Return the pictures and figures of the pooled out-of-fold probabilities; nothing where there are none."""
    if predictions is None or not problem.classes or len(problem.classes) > N_COLOURS:
        return []
    if any(f"proba_{label}" not in predictions for label in problem.classes):
        return []
    positive = (problem.positive,) if len(problem.classes) == 2 else problem.classes
    weight = predictions["weight"].to_numpy(dtype=np.float64) if "weight" in predictions else np.ones(len(predictions))
    curves = [
        Reliability.of(
            str(label), predictions[f"proba_{label}"].to_numpy(dtype=np.float64),
            (predictions["y"] == label).to_numpy(), weight,
        )
        for label in positive
    ]  # fmt: skip
    limits = thresholds(problem, predictions) if len(positive) == 1 else None
    picture = reliability_picture(curves, limits, len(predictions), level)
    blocks: list[Block] = [picture]
    if limits is not None:
        blocks.append(_counts(curves[0], limits))
    return [Section("calibration", picture.title, [*blocks, Folded("Every bin in figures", [_table(curves)])])]


def reliability_picture(
    curves: list[Reliability], limits: tuple[float, float] | None, n: int, level: float = 0.95
) -> Picture:
    """Draw observed frequencies over predicted probabilities, with what chance would give around each point."""
    one = len(curves) == 1
    what = f"predicted probability of {curves[0].name}" if one else "predicted probability of the class"
    share = f"observed share of {curves[0].name}" if one else "observed share of the class"
    off = max(curve.off for curve in curves)
    picture = Picture(
        f"Probabilities are off by {100 * off:.1f} points on average" + ("" if one else " for the worst class"),
        what, share, (0, 1), (0, 1), height=320,
        caption=f"{n:,} out-of-fold predictions in ten bins. Below the dashed line the model promises too much, above "
        f"it too little. Upright lines: {in_percent(level)} of what so many independent rows would give.",
    )  # fmt: skip
    picture.line([(0, 0), (1, 1)], "limit")
    picture.name("observed as predicted", "limit", "line")
    if limits is not None:
        _mark(picture, limits)
    for colour, curve in enumerate(curves):
        for low, high, x in zip(*curve.interval(level), curve.predicted, strict=True):
            picture.line([(x, low), (x, high)], colour)
        hints = [
            (x, y, f"{curve.name}: {counted(rows, 'row')}, predicted {x:.3f}, observed {y:.3f}")
            for x, y, rows in zip(
                *(each.tolist() for each in (curve.predicted, curve.observed, curve.rows)), strict=True
            )
        ]
        picture.series(hints, colour, f"{curve.name}, off by {100 * curve.off:.1f} points on average")
    return picture


def _mark(picture: Picture, limits: tuple[float, float]) -> None:
    low, high = limits
    bottom, top = picture.y_range
    if high > low:
        picture.area([(low, bottom), (high, bottom)], [(low, top), (high, top)], "band")
        picture.name(f"threshold of the folds, about {low:.2f} to {high:.2f}", "band")
        return
    picture.line([(low, bottom), (low, top)], "whole")
    picture.name(f"threshold {low:.3f}", "whole", "line")


def _counts(curve: Reliability, limits: tuple[float, float]) -> Picture:
    picture = Picture(
        "How often each probability is predicted", f"predicted probability of {curve.name}", "rows", (0, 1),
        (0, float(curve.rows.max()) * 1.08), height=180,
        caption=f"Rows to the right of the threshold are called {curve.name}.",
    )  # fmt: skip
    for at, rows in zip(curve.bins.tolist(), curve.rows.tolist(), strict=True):
        left = at / BINS
        picture.bar(
            left + 0.004, left + 1 / BINS - 0.004, 0, rows, 0, f"{left:.1f} to {left + 0.1:.1f}: {counted(rows, 'row')}"
        )
    _mark(picture, limits)
    return picture


def _table(curves: list[Reliability]) -> Table:
    if len(curves) > 1:
        rows = [[curve.name, number(int(curve.rows.sum())), number(curve.off)] for curve in curves]
        return Table("Calibration", rows, ["class", "rows", "off on average"])
    columns = zip(curves[0].predicted.tolist(), curves[0].observed.tolist(), curves[0].rows.tolist(), strict=True)
    cells = [[number(predicted), number(observed), number(rows)] for predicted, observed, rows in columns]
    return Table("Calibration", cells, ["mean predicted probability", "observed frequency", "rows"])
