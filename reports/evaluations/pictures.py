"""The pictures of an evaluation: score strips, histograms of draws, importance of features, calibration."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from evenfold.estimates.intervals.methods import wilson
from evenfold.estimates.metrics.registry import metric_of
from evenfold.estimates.models.problem import Problem
from evenfold.estimates.results import Estimate, FoldScore, importance_table, in_percent, thresholds
from evenfold.reports.charts import N_COLOURS, Picture, around, cut
from evenfold.reports.evaluations.words import direction, headline, score_text
from evenfold.reports.page import Section, Table, number
from evenfold.splitters.errors import amount
from numpy.typing import NDArray
from scipy import stats

MOST_DOTS, MOST_BINS = 200, 30


def score_pictures(scores: Sequence[FoldScore], estimates: Sequence[Estimate]) -> dict[str, Picture]:
    """Return a picture per metric: a strip of the folds' scores, or of draws a histogram."""
    pictures = {}
    for metric in dict.fromkeys(estimate.metric for estimate in estimates):
        about = [estimate for estimate in estimates if estimate.metric == metric]
        drawn = any(estimate.method in ("out-of-bag", ".632", ".632+") for estimate in about)
        pictures[metric] = _histogram(metric, scores, about) if drawn else _strip(metric, scores, about)
    return pictures


def pictured(name: str, pictures: Iterable[Picture]) -> list[Section]:
    """Return a section for each picture under the picture's title; their ids are the name with a number."""
    return [Section(f"{name}-{i}", picture.title, [picture]) for i, picture in enumerate(pictures)]


MONTHS = {
    "slope": ("predicted: the slope", "slope (1 as promised, 0 unrelated, -1 turned)"),
    "error": ("promised: the error", "squared error, times the usual"),
}


def month_pictures(series: Mapping[str, Mapping[int, float]]) -> list[Picture]:
    """Return a picture for each figure of the new rows of each generation, in the band of what a good one has."""
    pictures = []
    for name, (title, label) in MONTHS.items():
        values, low, high = (dict(series.get(f"month/{name}{end}", {})) for end in ("", "_low", "_high"))
        steps = sorted(values)
        if not steps:
            continue
        ends = [end[step] for end in (low, high) for step in steps if step in end]
        picture = Picture(
            f"What came against what the champion {title}", "generation of the split", label,
            (steps[0] - 0.6, steps[-1] + 0.6), around([*values.values(), *ends]),
            x_ticks=[(step, str(step)) for step in steps],
            caption="The bars are where a good month lies, by the rows before it; the dots are the months that came.",
        )  # fmt: skip
        for step in steps:
            if step in low and step in high:
                hint = f"{score_text(low[step])} to {score_text(high[step])}"
                picture.bar(step - 0.35, step + 0.35, low[step], high[step], "band", hint)
        picture.dots([(step, values[step], score_text(values[step])) for step in steps], 0, 5)
        pictures.append(picture)
    return pictures


def _title(about: Sequence[Estimate]) -> str:
    title, value, interval = headline(about[-1])
    level = f" ({in_percent(about[-1].interval.level)} interval)" if about[-1].interval else ""
    return f"{title} {value} {interval}{level}".replace("  ", " ").strip()


def _strip(metric: str, scores: Sequence[FoldScore], about: Sequence[Estimate]) -> Picture:
    """Draw the folds as dots on one axis: training rows above test rows, and the estimate with its interval."""
    reading = metric_of(metric)
    drawn = scores[:MOST_DOTS]
    test = [(score, reading.shown(score.test[metric])) for score in drawn if metric in score.test]
    training = [(score, reading.shown(score.apparent[metric])) for score in drawn if metric in score.apparent]
    intervals = [estimate.interval.read(reading) for estimate in about if estimate.interval]
    values = [value for _, value in [*test, *training]] + [reading.shown(about[0].value)]
    values += [end for interval in intervals for end in (interval.low, interval.high)]
    rows = ["training", "test", "estimate"] if training else ["test", "estimate"]
    at = {name: len(rows) - i - 0.5 for i, name in enumerate(rows)}
    picture = Picture(
        _title(about), f"{reading.title} ({direction(reading)})", "", around(values), (0, len(rows)),
        height=70 + 30 * len(rows), y_ticks=[(y, name) for name, y in at.items()], caption=cut(len(drawn), len(scores)),
    )  # fmt: skip
    for places, row, css in ((training, "training", "hollow"), (test, "test", 0)):
        hints = [(value, at[row], f"{score.name}, {row} rows: {score_text(value)}") for score, value in places]
        picture.dots([hint for hint in hints if np.isfinite(hint[0])], css, 4.5)
    for estimate in about:
        y, value = at["estimate"], reading.shown(estimate.value)
        if estimate.interval is not None:
            interval = estimate.interval.read(reading)
            hint = f"{in_percent(interval.level)} interval ({interval.method})"
            picture.bar(interval.low, interval.high, y - 0.22, y + 0.22, "band", hint)
        picture.line([(value, y - 0.36), (value, y + 0.36)], "whole", f"{estimate.method} {score_text(value)}")
    return picture


def _histogram(metric: str, scores: Sequence[FoldScore], about: Sequence[Estimate]) -> Picture:
    """Draw how often the draws scored what, and the estimates as lines that are labelled where they stand."""
    reading = metric_of(metric)
    values = [reading.shown(score.test[metric]) for score in scores if score.test.get(metric) is not None]
    test = np.array([value for value in values if np.isfinite(value)])
    lines = [(estimate.method, reading.shown(estimate.value)) for estimate in about]
    lines += [("training rows", reading.shown(e.apparent)) for e in about[:1] if e.apparent is not None]
    low, high = around([*test.tolist(), *(value for _, value in lines)])
    counts, edges = np.histogram(test, bins=min(MOST_BINS, max(5, test.size // 5)), range=(low, high))
    top = float(counts.max()) * 1.12
    picture = Picture(
        _title(about), f"{reading.title} on the rows out of the bag ({direction(reading)})", "draws", (low, high),
        (-top * 0.16 * len(lines), top), height=220 + 22 * len(lines),
        y_ticks=[(tick, f"{tick:,.0f}") for tick in (0.0, float(counts.max()))],
        caption=f"Of {amount(test.size, 'draw')}. Training rows: the model of all rows on the rows that it has seen.",
    )  # fmt: skip
    for count, left, right in zip(counts.tolist(), edges[:-1], edges[1:], strict=True):
        picture.bar(left, right, 0, count, 0, f"{score_text(left)} to {score_text(right)}: {amount(count, 'draw')}")
    for place, (words, value) in enumerate(lines):
        y = -top * 0.16 * (place + 0.6)
        picture.line([(value, y), (value, top)], "whole" if place == len(about) - 1 else "limit")
        right = value < (low + high) / 2
        picture.text(value, y, f" {words} {score_text(value)} ", "start" if right else "end")
    return picture


MOST_DRAWN, MOST_NAMED = 12, 3


def importance_section(used: pd.DataFrame, name: str) -> list[Section]:
    """Return the picture of the features' importance by metric ``name``: each feature's mean, least and most."""
    if used.empty:
        return []
    drawn, more = used.head(MOST_DRAWN), len(used) - MOST_DRAWN
    places = {feature: len(drawn) - i - 0.5 for i, feature in enumerate(drawn["feature"])}
    caption = (
        f"Dots are means over {amount(int(drawn['folds'].max()), 'fold')}, bars reach from the least to the most of "
        "them. Measured on rows of the test folds, whose values changed places at random; features that say the same "
        f"share what they are worth.{f' {more:,} more are in the table below.' if more > 0 else ''}"
    )
    first = drawn.iloc[0]
    title = f"No feature matters on the test rows: {metric_of(name).title} stays as it is without any of them"
    if first["mean"] > 0:
        by = score_text(first["mean"], first["sd"])
        title = f"{first['feature']} matters most: {_moves(name)} by {by} where its values change places"
    picture = Picture(
        title, f"how far {_moves(name)}", "", around([0.0, *drawn["least"], *drawn["most"]]), (0, len(drawn)),
        height=60 + 24 * len(drawn), y_ticks=[(y, feature) for feature, y in places.items()], caption=caption,
    )  # fmt: skip
    for _, row in drawn.iterrows():
        y, ends = places[row["feature"]], f"{score_text(row['least'])} to {score_text(row['most'])}"
        hint = f"{row['feature']}: {score_text(row['mean'])}, in folds {ends}"
        picture.bar(row["least"], row["most"], y - 0.18, y + 0.18, "band", hint)
        picture.dots([(row["mean"], y, hint)], 0, 4.5)
    picture.across("whole", x=0.0, hint="no change")
    return [Section("importance", title, [picture])]


def importance_rows(used: pd.DataFrame) -> Table:
    """Return the importance of every feature in figures."""
    figures = ["mean", "sd", "least", "most", "folds"]
    rows = [[row["feature"], *(number(row[name]) for name in figures)] for _, row in used.iterrows()]
    note = "sd: spread (n - 1) over folds that share training rows, no interval."
    return Table("Importance of the features", rows, ["feature", *figures], note)


def importance_words(scores: Sequence[FoldScore], name: str) -> str:
    """Return one sentence: the features that matter most, and by how much; nothing where that was not measured."""
    table = importance_table(scores)
    top = table[table["mean"] > 0].head(MOST_NAMED)
    if table.empty:
        return ""
    if top.empty:
        return "Importance: no feature's values matter on the test rows."
    features = ", ".join(f"{row['feature']} {score_text(row['mean'], row['sd'])}" for _, row in top.iterrows())
    return f"Importance: {_moves(name)} by this much where a feature's values change places: {features}."


def _moves(name: str) -> str:
    metric = metric_of(name)
    return f"{metric.title} {'rises' if metric.lower_is_better else 'falls'}"


BINS = 10
Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Reliability:
    """Each bin of probability that has weight: its rows, weight, mean prediction and share of the class.

    ``repeats``: how often each row is among them; it is one row all the same.
    """

    name: str
    rows: NDArray[np.int64]
    weight: Floats
    predicted: Floats
    observed: Floats
    repeats: int = 1

    @classmethod
    def of(cls, name: str, probability: Floats, hit: NDArray[Any], weight: Floats, repeats: int = 1) -> Reliability:
        """Return the reliability of probabilities in ten bins of equal width; means are weighted. O(n)."""
        at = np.minimum((probability * BINS).astype(np.int64), BINS - 1)
        rows, whole = np.bincount(at, minlength=BINS), np.bincount(at, weights=weight, minlength=BINS)
        used = np.flatnonzero(whole > 0)
        predicted = np.bincount(at, weights=weight * probability, minlength=BINS)[used] / whole[used]
        observed = np.bincount(at, weights=weight * hit, minlength=BINS)[used] / whole[used]
        return cls(name, rows[used], whole[used].astype(np.float64), predicted, observed, repeats)

    @property
    def off(self) -> float:
        """The distance of a prediction from what was observed, on average over the rows by their weights (0 to 1)."""
        return float(np.average(np.abs(self.predicted - self.observed), weights=self.weight))

    def interval(self, level: float = 0.95) -> Floats:
        """Return the ends, low and high, of Wilson's interval of each bin's share, for rows that are independent."""
        quantile = float(stats.norm.ppf(0.5 + level / 2))
        bins = zip(self.observed, self.rows / self.repeats, strict=True)
        return np.array([wilson(*each, quantile) for each in bins]).T


def calibration_section(
    problem: Problem, predictions: pd.DataFrame | None, estimates: Sequence[Estimate] = ()
) -> list[Section]:
    """Return the pictures and figures of the pooled out-of-fold probabilities; nothing where there are none."""
    few = 0 < len(problem.classes) <= N_COLOURS
    if predictions is None or not few or any(f"proba_{label}" not in predictions for label in problem.classes):
        return []
    positive = (problem.positive,) if len(problem.classes) == 2 else problem.classes
    weight = predictions["weight"].to_numpy(dtype=np.float64) if "weight" in predictions else np.ones(len(predictions))
    of = {label: predictions[f"proba_{label}"].to_numpy(dtype=np.float64) for label in positive}
    hits = (predictions["y"].to_numpy() == label for label in positive)
    repeats = predictions["repeat"].nunique()
    curves = [Reliability.of(str(label), of[label], hit, weight, repeats)
              for label, hit in zip(positive, hits, strict=True)]  # fmt: skip
    limits = thresholds(problem, predictions) if len(positive) == 1 else None
    level = next((estimate.interval.level for estimate in estimates if estimate.interval), 0.95)
    picture = reliability_picture(curves, limits, len(predictions), level)
    head = ["class", "rows", "off on average"]
    rows: list[list[Any]] = [[each.name, number(int(each.rows.sum())), number(each.off)] for each in curves]
    if len(curves) == 1:
        head = ["mean predicted probability", "observed frequency", "rows"]
        bins = (curves[0].predicted, curves[0].observed, curves[0].rows)
        rows = [[*map(number, row)] for row in zip(*(each.tolist() for each in bins), strict=True)]
    table = Section("", "Every bin in figures", [Table("Calibration", rows, head)])
    return [Section("calibration", picture.title, [picture, table])]


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
    low, high = limits or (0.0, 0.0)
    if low < high:
        picture.area([(low, 0), (high, 0)], [(low, 1), (high, 1)], "band")
        picture.name(f"threshold of the folds, about {low:.2f} to {high:.2f}", "band")
    elif limits is not None:
        picture.line([(low, 0), (low, 1)], "whole")
        picture.name(f"threshold {low:.3f}", "whole", "line")
    for colour, curve in enumerate(curves):
        for low, high, x in zip(*curve.interval(level), curve.predicted, strict=True):
            picture.line([(x, low), (x, high)], colour)
        bins = zip(*(each.tolist() for each in (curve.predicted, curve.observed, curve.rows)), strict=True)
        hints = [(x, y, f"{curve.name}: {amount(n, 'row')}, predicted {x:.3f}, observed {y:.3f}") for x, y, n in bins]
        picture.series(hints, colour, f"{curve.name}, off by {100 * curve.off:.1f} points on average")
    return picture
