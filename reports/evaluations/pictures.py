"""The pictures of an evaluation: score strips, and histograms of draws."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from evenfold.estimates.metrics.registry import metric_of
from evenfold.estimates.results import Estimate, FoldScore, in_percent
from evenfold.reports.charts import Picture, around, cut
from evenfold.reports.page import counted

from .words import direction, headline, read_ends, written

MOST_DOTS, MOST_BINS = 200, 30
METHODS = ("out-of-bag", ".632", ".632+")


def score_pictures(scores: Sequence[FoldScore], estimates: Sequence[Estimate]) -> dict[str, Picture]:
    """Return a picture per metric: a strip of the folds' scores, or of draws a histogram."""
    pictures = {}
    for metric in dict.fromkeys(estimate.metric for estimate in estimates):
        about = [estimate for estimate in estimates if estimate.metric == metric]
        drawn = any(estimate.method in METHODS for estimate in about)
        pictures[metric] = _histogram(metric, scores, about) if drawn else _strip(metric, scores, about)
    return pictures


MONTHS = {
    "slope": (
        "What came against what the champion predicted: the slope",
        "slope (1 as promised, 0 unrelated, -1 turned)",
    ),
    "error": ("What came against what the champion promised: the error", "squared error, times the usual"),
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
            title, "generation of the split", label, (steps[0] - 0.6, steps[-1] + 0.6),
            around([*values.values(), *ends]), x_ticks=[(step, str(step)) for step in steps],
            caption="The bars are where a good month lies, by the rows before it; the dots are the months that came.",
        )  # fmt: skip
        for step in steps:
            if step in low and step in high:
                hint = f"{written(low[step])} to {written(high[step])}"
                picture.bar(step - 0.35, step + 0.35, low[step], high[step], "band", hint)
        picture.dots([(step, values[step], written(values[step])) for step in steps], 0, 5)
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
    intervals = [end for estimate in about if estimate.interval for end in read_ends(reading, estimate.interval)]
    values = [value for _, value in [*test, *training]] + intervals + [reading.shown(about[0].value)]
    rows = ["training", "test", "estimate"] if training else ["test", "estimate"]
    at = {name: len(rows) - i - 0.5 for i, name in enumerate(rows)}
    picture = Picture(
        _title(about), f"{reading.title} ({direction(reading)})", "", around(values), (0, len(rows)),
        height=70 + 30 * len(rows), y_ticks=[(y, name) for name, y in at.items()], caption=cut(len(drawn), len(scores)),
    )  # fmt: skip
    for places, row, css in ((training, "training", "hollow"), (test, "test", 0)):
        hints = [(value, at[row], f"{score.name}, {row} rows: {written(value)}") for score, value in places]
        picture.dots([hint for hint in hints if np.isfinite(hint[0])], css, 4.5)
    for estimate in about:
        y, value = at["estimate"], reading.shown(estimate.value)
        if estimate.interval is not None:
            low, high = read_ends(reading, estimate.interval)
            hint = f"{in_percent(estimate.interval.level)} interval ({estimate.interval.method})"
            picture.bar(low, high, y - 0.22, y + 0.22, "band", hint)
        picture.line([(value, y - 0.36), (value, y + 0.36)], "whole", f"{estimate.method} {written(value)}")
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
        caption=f"Of {counted(test.size, 'draw')}. Training rows: the model of all rows on the rows that it has seen.",
    )  # fmt: skip
    for count, left, right in zip(counts.tolist(), edges[:-1], edges[1:], strict=True):
        picture.bar(left, right, 0, count, 0, f"{written(left)} to {written(right)}: {counted(count, 'draw')}")
    for number, (words, value) in enumerate(lines):
        y = -top * 0.16 * (number + 0.6)
        picture.line([(value, y), (value, top)], "whole" if number == len(about) - 1 else "limit")
        right = value < (low + high) / 2
        picture.text(value, y, f" {words} {written(value)} ", "start" if right else "end")
    return picture
