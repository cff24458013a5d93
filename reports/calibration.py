"""Whether probabilities mean what they say, and which of them the threshold takes for a yes: a section of the page."""

from __future__ import annotations

from dataclasses import dataclass
from html import escape
from typing import Any

import numpy as np
import pandas as pd
from evenfold.estimates.models.problem import Problem
from numpy.typing import NDArray

from .charts import N_COLOURS, Picture
from .page import number, table

BINS = 10
Z = 1.96
Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Reliability:
    """Of each bin of predicted probability that has rows: rows, mean prediction, and share of rows of the class."""

    name: str
    rows: NDArray[np.int64]
    said: Floats
    came: Floats

    @classmethod
    def of(cls, name: str, probability: Floats, hit: NDArray[Any], weight: Floats) -> Reliability:
        """Return the reliability of probabilities in ten bins of equal width; means are weighted. O(n)."""
        at = np.minimum((probability * BINS).astype(np.int64), BINS - 1)
        rows, whole = np.bincount(at, minlength=BINS), np.bincount(at, weights=weight, minlength=BINS)
        used = np.flatnonzero(whole > 0)
        said = np.bincount(at, weights=weight * probability, minlength=BINS)[used] / whole[used]
        came = np.bincount(at, weights=weight * hit, minlength=BINS)[used] / whole[used]
        return cls(name, rows[used], said, came)

    @property
    def off(self) -> float:
        """How far a prediction is from what came, on average over the rows (0 to 1)."""
        return float(np.average(np.abs(self.said - self.came), weights=self.rows))

    def interval(self) -> tuple[Floats, Floats]:
        """Return Wilson's 95 % interval of each bin's share, for rows that are independent of one another."""
        n = self.rows
        middle = (self.came + Z**2 / (2 * n)) / (1 + Z**2 / n)
        half = Z / (1 + Z**2 / n) * np.sqrt(self.came * (1 - self.came) / n + Z**2 / (4 * n**2))
        return middle - half, middle + half


def calibration_section(problem: Problem, predictions: pd.DataFrame | None) -> str:
    """Return the pictures and figures of the pooled out-of-fold probabilities; nothing where there are none."""
    if predictions is None or not problem.classes or len(problem.classes) > N_COLOURS:
        return ""
    if any(f"proba_{label}" not in predictions for label in problem.classes):
        return ""
    positive = problem.classes[-1:] if len(problem.classes) == 2 else problem.classes
    found = [_of_class(label, predictions) for label in positive]
    if len(positive) > 1:
        return _reliability(found, None, len(predictions)) + _table(found)
    limits = thresholds(problem, predictions)
    return _reliability(found, limits, len(predictions)) + _counts(found[0], limits) + _table(found)


def _of_class(label: Any, predictions: pd.DataFrame) -> Reliability:
    weight = predictions["weight"].to_numpy(dtype=np.float64) if "weight" in predictions else np.ones(len(predictions))
    probability = predictions[f"proba_{label}"].to_numpy(dtype=np.float64)
    hit = (predictions["y"] == label).to_numpy()
    return Reliability.of(str(label), probability, hit, weight)


def thresholds(problem: Problem, predictions: pd.DataFrame) -> tuple[float, float]:
    """Return the lowest and the highest threshold over the folds.

    As given, or, where each fold has its own, midway between the largest probability called a no and the least called
    a yes: what the predictions tell of it.
    """
    given = problem.model.threshold
    if given is None or isinstance(given, float):
        return (given or 0.5,) * 2
    label = problem.classes[1]
    yes = predictions["prediction"] == label
    said = predictions[f"proba_{label}"]
    by = [predictions["repeat"], predictions["fold"]]
    # Where a fold calls none a yes, or none a no, the threshold is somewhere beyond: taken as the end of the scale.
    least, most = said.where(yes).groupby(by).min().fillna(1.0), said.mask(yes).groupby(by).max().fillna(0.0)
    middle = (least + most) / 2
    return float(middle.min()), float(middle.max())


def _reliability(found: list[Reliability], limits: tuple[float, float] | None, n: int) -> str:
    one = len(found) == 1
    what = f"predicted probability of {found[0].name}" if one else "predicted probability of the class"
    share = f"rows that are {found[0].name}" if one else "rows of the class"
    picture = Picture(
        "Do probabilities mean what they say?", f"{what} (0 to 1)", f"{share} (share, 0 to 1)", (0, 1), (0, 1),
        height=320,
    )  # fmt: skip
    picture.line([(0, 0), (1, 1)], "limit")
    picture.name("as said", "limit", "line")
    if limits is not None:
        _mark(picture, limits)
    for colour, each in enumerate(found):
        for low, high, x in zip(*each.interval(), each.said, strict=True):
            picture.line([(x, low), (x, high)], colour)
        picture.line(zip(each.said, each.came, strict=True), colour)
        told = [
            (x, y, f"{each.name}: {rows:,} rows, said {x:.3f}, came {y:.3f}")
            for x, y, rows in zip(each.said.tolist(), each.came.tolist(), each.rows.tolist(), strict=True)
        ]
        picture.dots(told, colour, 4)
        picture.name(f"{each.name}, off by {each.off:.3f} on average", colour)
    return picture.figure(
        f"{n:,} out-of-fold predictions in ten bins of probability. Below the dashed line the model promises too much, "
        "above it too little. Upright lines: 95 % of what so many independent rows would give."
    )


def _mark(picture: Picture, limits: tuple[float, float]) -> None:
    low, high = limits
    bottom, top = picture.y_range
    if high > low:
        picture.area([(low, bottom), (high, bottom)], [(low, top), (high, top)], "band")
        picture.name(f"threshold of the folds, about {low:.2f} to {high:.2f}", "band")
        return
    picture.line([(low, bottom), (low, top)], "whole")
    picture.name(f"threshold {low:.3f}", "whole", "line")


def _counts(found: Reliability, limits: tuple[float, float]) -> str:
    picture = Picture(
        "How often each probability is said", f"predicted probability of {found.name} (0 to 1)", "rows (rows)", (0, 1),
        (0, float(found.rows.max()) * 1.08), height=180,
    )  # fmt: skip
    for said, rows in zip(found.said.tolist(), found.rows.tolist(), strict=True):
        left = min(int(said * BINS), BINS - 1) / BINS
        picture.bar(left + 0.004, left + 1 / BINS - 0.004, 0, rows, 4, f"{left:.1f} to {left + 0.1:.1f}: {rows:,} rows")
    _mark(picture, limits)
    return picture.figure(f"Rows to the right of the threshold are called {found.name}.")


def _table(found: list[Reliability]) -> str:
    if len(found) > 1:
        rows = [[escape(each.name), number(int(each.rows.sum())), number(each.off)] for each in found]
        return table(["class", "rows", "off on average"], rows)
    each = found[0]
    rows = [
        [number(float(x)), number(float(y)), number(int(n))]
        for x, y, n in zip(each.said, each.came, each.rows, strict=True)
    ]
    return table(["said on average", "came", "rows"], rows)
