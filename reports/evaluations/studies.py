"""Studies of the split itself, each with a sentence that decides: the number of folds, and stratifying."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
from evenfold.estimates.metrics.registry import metric_of
from evenfold.estimates.models.problem import Problem
from evenfold.estimates.studies import ratio_ends
from evenfold.reports.charts import Picture, around, ends
from evenfold.reports.page import Origin, Page, Paragraph, Remark, Section, Table, Verdict, counted, number

from .words import direction, written

FOLD_FIGURES = ("mean", "sd", "pooled")
MOST_RATIO = 2.0  # longer bars are cut: one wild estimate would hide all others
RATIOS = {"hold_out": "one hold-out fold", "fold_mean": "mean over folds", "pooled": "all predictions pooled"}
SHORT = {"one hold-out fold": "hold-out", "mean over folds": "mean", "all predictions pooled": "pooled"}
MEANING = (
    "More folds mean more training rows and fewer test rows: the pooled score rises or stays, and the spread of single "
    "folds grows. That spread is not a sign of overfitting."
)
VARIANCE = (
    "A ratio below 1 means that an estimate changes less from one partition to the next; it says nothing of how near "
    "it is to the truth."
)


def study_page(problem: Problem, study: pd.DataFrame) -> Page:
    """Return the page about what ``fold_count_study`` or ``stratification_study`` found."""
    pictures = study_pictures(study)
    if "way" in study:
        rows = [
            [str(row["metric"]), str(row["way"]), *(figure for name in RATIOS for figure in _with_ends(row, name))]
            for row in study.to_dict("records")
        ]
        head = ["metric", "way", *(column for name in RATIOS.values() for column in (name, "95 %"))]
        title, meaning = "Ways of stratifying", VARIANCE
        details = Section("ratios", "Every ratio", [Table("Variance beside random folds", rows, head)])
    else:
        rows = [
            [str(row["metric"]), number(int(row["n_splits"])), *(number(row[name]) for name in FOLD_FIGURES)]
            for row in study.to_dict("records")
        ]
        title, meaning = "The number of folds", MEANING
        table = Table(title, rows, ["metric", "folds", *FOLD_FIGURES])
        details = Section("fold-count", "Mean, spread and pooled score", [table])
    sections = [
        Section(f"metric-{i}", picture.title, [picture, *([Paragraph(meaning, "soft")] if i == 0 else [])])
        for i, picture in enumerate(pictures)
    ]
    lead = " ".join(f"{picture.title}." for picture in pictures) or "Nothing was tried."
    footer = [f"{problem.model.estimator}, {counted(problem.n, 'row')}, {problem.task}", *Origin().words()]
    return Page(title, Verdict.NONE, lead, sections=sections, details=[details], footer=footer)


def study_pictures(study: pd.DataFrame) -> list[Picture]:
    """Return a picture per metric: a curve over the numbers of folds, or the variances beside those of random folds."""
    draw = _ratios if "way" in study else _curve
    return [draw(str(metric), part) for metric, part in study.groupby("metric", sort=False)]


def segments_page(name: str, metric: str, scored: Sequence[Sequence[str]], failed: Sequence[str]) -> Page:
    """Return the page about one recipe on many segments: a row of cells each, and why others have no score."""
    n, findings = len(scored) + len(failed), [Remark("warning", sentence) for sentence in failed]
    lead = f"{counted(len(scored), 'segment')} of {n:,} scored, each on a split of its own."
    verdict = Verdict.LOOK if failed else Verdict.NONE
    head = ["segment", "rows", metric_of(metric).title, "interval", "audit", "split"]
    table = Table("Every segment", scored, head)
    sections = [Section("segments", "Every segment", [table])] if scored else []
    return Page(name, verdict, lead, findings=findings, sections=sections, footer=Origin().words())


def _with_ends(row: Mapping[Any, Any], name: str) -> list[Any]:
    low, high = ratio_ends(float(row[name]), int(row["partitions"]))
    return [number(row[name]), "" if row["way"] == "random" or np.isnan(low) else f"{low:.2f} to {high:.2f}"]


def _curve(metric: str, part: pd.DataFrame) -> Picture:
    reading = metric_of(metric)
    k, mean, sd, pooled = (part[name].to_numpy(dtype=np.float64) for name in ("n_splits", "mean", "sd", "pooled"))
    mean, pooled = (-mean, -pooled) if reading.lower_is_better else (mean, pooled)
    low, high = mean - np.nan_to_num(sd), mean + np.nan_to_num(sd)
    defined, meant = ~np.isnan(pooled), ~np.isnan(mean)  # folds of one row have no R2 of their own
    picture = Picture(
        fold_count_words(metric, part), "folds", f"{reading.title} ({direction(reading)})", ends(k),
        around(np.concatenate([low, high, pooled]).tolist(), 0.06),
        x_ticks=[(at, f"{at:.0f}") for at in k.tolist()],
    )  # fmt: skip
    if meant.any():
        points = [(x, y, f"{x:.0f} folds: mean {written(y)}") for x, y in zip(k[meant], mean[meant], strict=True)]
        picture.area(zip(k[meant], low[meant], strict=True), zip(k[meant], high[meant], strict=True), "band")
        picture.series(points, 0, "mean over folds")
        picture.name("spread of single folds (sd)", "band")
    if defined.any():
        of_folds = zip(k[defined], pooled[defined], strict=True)
        picture.series(
            [(x, y, f"{x:.0f} folds: pooled {written(y)}") for x, y in of_folds], 1, "all predictions pooled"
        )
    return picture


def fold_count_words(metric: str, part: pd.DataFrame) -> str:
    """Return the sentence that decides: whether more folds move the score by more than its own standard error.

    Compared is the pooled score, else the mean, with sd/sqrt(folds) at the fewest folds.
    """
    reading = metric_of(metric)
    ordered = part.sort_values("n_splits")
    values = ordered["pooled"].astype(float).fillna(ordered["mean"].astype(float)).to_numpy()
    k = ordered["n_splits"].to_numpy()
    error = float(ordered["sd"].astype(float).iloc[0]) / float(k[0]) ** 0.5
    moved = values - values[0]
    first, last = int(k[0]), int(k[-1])
    if len(k) < 2 or not np.isfinite(error):
        return f"{reading.title} with {first} folds: {written(reading.shown(values[0]))}"
    if np.abs(moved).max() <= error:
        move = (
            f"{reading.title} moves by {written(float(np.abs(moved).max()))}, less than its error of {written(error)}"
        )
        return f"{first} folds will do: from {first} to {last} {move}"
    enough = int(k[np.flatnonzero(np.abs(values - values[-1]) <= error)[0]])
    gain = written(reading.shown(float(moved[-1])))
    return f"Take {enough} folds or more: from {first} to {last}, {reading.title} changes by {gain}"


def _ratios(metric: str, part: pd.DataFrame) -> Picture:
    ways = part[part["way"] != "random"]
    lines = [
        (str(row["way"]), RATIOS[name], float(row[name]), *ratio_ends(float(row[name]), int(row["partitions"])))
        for row in ways.to_dict("records")
        for name in RATIOS
        if not np.isnan(row[name])
    ]
    picture = Picture(
        strategy_words(metric, part), "variance, random folds = 1 (95 %)",  # ▸: longer than is drawn
        metric_of(metric).title, (0, MOST_RATIO + 0.4), (-len(lines) + 0.4, 0.6), height=80 + 22 * len(lines),
        y_ticks=[(-i, f"{way}, {SHORT[estimate]}") for i, (way, estimate, *_) in enumerate(lines)],
    )  # fmt: skip
    for i, (way, estimate, ratio, low, high) in enumerate(lines):
        width = min(ratio, MOST_RATIO)
        picture.bar(0, width, -i - 0.36, -i + 0.36, i // len(RATIOS), f"{way}, {estimate}: {ratio:.2f}")
        if low == low:
            picture.line([(min(low, MOST_RATIO), -i), (min(high, MOST_RATIO), -i)], "axis", f"{low:.2f} to {high:.2f}")
        picture.text(MOST_RATIO + 0.02, -i, f" {ratio:.2f}{' ▸' if ratio > MOST_RATIO else ''}", "start")
    picture.across("limit", x=1)
    return picture


def strategy_words(metric: str, part: pd.DataFrame) -> str:
    """Return the sentence that decides: which way makes the mean over folds steadiest, and by how much."""
    ways = part[part["way"] != "random"].set_index("way")["fold_mean"].astype(float)
    title, partitions = metric_of(metric).title, int(part["partitions"].iloc[0])
    if ways.empty or not np.isfinite(ways).any():
        return f"{title}: no way but random folds was tried"
    best, ratio = str(ways.idxmin()), float(ways.min())
    low, high = ratio_ends(ratio, partitions)
    sentence = f"{ratio:.2f} ({low:.2f} to {high:.2f}) of the variance of random ones"
    if high < 1:
        return f"{title}: take {best} folds; their mean has {sentence}"
    if ratio < 1:
        return f"{title}: {partitions} partitions cannot tell; the mean of {best} folds has {sentence}"
    return f"{title}: random folds will do; the steadiest other way, {best}, has {sentence}"
