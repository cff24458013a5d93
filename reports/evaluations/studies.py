"""Pages of studies, each with a sentence that decides: the number of folds, stratifying, segments, configurations."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Any

import numpy as np
import pandas as pd
from evenfold.estimates.metrics.record import Metric
from evenfold.estimates.metrics.registry import metric_of
from evenfold.estimates.models.problem import Problem
from evenfold.estimates.results import Estimate, Interval, in_percent
from evenfold.estimates.selection import Choice
from evenfold.estimates.studies import ratio_ends
from evenfold.reports.charts import Picture, around, ends, named, ticks
from evenfold.reports.page import Origin, Page, Paragraph, Section, Table, Tile, Verdict, number, remarks
from evenfold.splitters.errors import amount

from .words import direction, headline, labelled, score_and_interval, score_text

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
        rows = []
        for row in study.to_dict("records"):
            rows.append([metric_of(row["metric"]).title, row["way"]])
            for name in RATIOS:
                low, high = ratio_ends(float(row[name]), int(row["partitions"]))
                interval = "" if row["way"] == "random" or np.isnan(low) else f"{low:.2f} to {high:.2f}"
                rows[-1] += [number(row[name]), interval]
        head = ["metric", "way", *(column for name in RATIOS.values() for column in (name, "95 %"))]
        title, meaning = "Ways of stratifying", VARIANCE
        details = Section("ratios", "Every ratio", [Table("Variance beside random folds", rows, head)])
    else:
        rows = []
        for row in study.to_dict("records"):
            reading = metric_of(row["metric"])
            figures = (row[name] if name == "sd" else reading.shown(row[name]) for name in FOLD_FIGURES)
            rows.append([reading.title, number(int(row["n_splits"])), *map(number, figures)])
        title, meaning = "The number of folds", MEANING
        table = Table(title, rows, ["metric", "folds", *FOLD_FIGURES])
        details = Section("fold-count", "Mean, spread and pooled score", [table])
    sections = [
        Section(f"metric-{i}", picture.title, [picture, *([Paragraph(meaning, "soft")] if i == 0 else [])])
        for i, picture in enumerate(pictures)
    ]
    lead = " ".join(f"{picture.title}." for picture in pictures) or "Nothing was tried."
    footer = Origin().words(f"{problem.model.estimator}, {amount(problem.n, 'row')}, {problem.task}")
    return Page(title, Verdict.NONE, lead, sections=sections, details=[details], footer=footer)


def study_pictures(study: pd.DataFrame) -> list[Picture]:
    """Return a picture per metric: a curve over the numbers of folds, or the variances beside those of random folds."""
    draw = _ratios if "way" in study else _curve
    return [draw(str(metric), part) for metric, part in study.groupby("metric", sort=False)]


@dataclass(frozen=True)
class Segment:
    """The scores of a recipe on the rows of one value of a column, or why they ``failed``; ``audit``: in a word."""

    segment: str
    rows: int
    estimate: Estimate | None = None
    audit: str = ""
    split_id: str = ""
    failed: str = ""

    @property
    def reason(self) -> str:
        """Why it has no score, after what it is called."""
        return f"{self.segment}: {self.failed}" if self.segment else self.failed


def segments_page(name: str, metric: str, segments: Sequence[Segment]) -> Page:
    """Return the page about one recipe on many segments: a row each, and why others have no score."""
    failed, scored = [each.reason for each in segments if each.failed], []
    for each in segments:
        if each.estimate:
            _, value, interval = headline(each.estimate)
            scored.append([each.segment, f"{each.rows:,}", value, interval or "-", each.audit, each.split_id[:12]])
    lead = f"{amount(len(scored), 'segment')} of {len(segments):,} scored, each on a split of its own."
    verdict = Verdict.LOOK if failed else Verdict.NONE
    head = ["segment", "rows", metric_of(metric).title, "interval", "audit", "split"]
    table = Table("Every segment", scored, head)
    sections = [Section("segments", "Every segment", [table])] if scored else []
    return Page(name, verdict, lead, findings=remarks("warning", failed), sections=sections, footer=Origin().words())


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
        points = [(x, y, f"{x:.0f} folds: mean {score_text(y)}") for x, y in zip(k[meant], mean[meant], strict=True)]
        picture.area(zip(k[meant], low[meant], strict=True), zip(k[meant], high[meant], strict=True), "band")
        picture.series(points, 0, "mean over folds")
        picture.name("spread of single folds (sd)", "band")
    if defined.any():
        of_folds = zip(k[defined], pooled[defined], strict=True)
        points = [(x, y, f"{x:.0f} folds: pooled {score_text(y)}") for x, y in of_folds]
        picture.series(points, 1, "all predictions pooled")
    return picture


def fold_count_words(metric: str, part: pd.DataFrame) -> str:
    """Return the sentence that decides: whether more folds move the score by more than its error at the fewest."""
    reading = metric_of(metric)
    ordered = part.sort_values("n_splits")
    values = ordered["pooled"].astype(float).fillna(ordered["mean"].astype(float)).to_numpy()
    k = ordered["n_splits"].to_numpy()
    error = float(ordered["sd"].astype(float).iloc[0]) / float(k[0]) ** 0.5
    moved = values - values[0]
    first, last = int(k[0]), int(k[-1])
    if len(k) < 2 or not np.isfinite(error):
        return f"{reading.title} with {first} folds: {score_text(reading.shown(values[0]))}"
    most = float(np.abs(moved).max())
    if most <= error:
        move = f"{reading.title} moves by {score_text(most)}, less than its error of {score_text(error)}"
        return f"{first} folds will do: from {first} to {last} {move}"
    enough = int(k[np.flatnonzero(np.r_[True, np.abs(values - values[-1]) > error])[-1]])  # all more are as good
    gain = score_text(reading.shown(float(moved[-1])))
    return f"Take {enough} folds or more: from {first} to {last}, {reading.title} changes by {gain}"


def _ratios(metric: str, part: pd.DataFrame) -> Picture:
    ways = part[part["way"] != "random"]
    lines = [
        (str(row["way"]), RATIOS[name], float(row[name]), *ratio_ends(float(row[name]), int(row["partitions"])))
        for row in ways.to_dict("records") for name in RATIOS if not np.isnan(row[name])
    ]  # fmt: skip
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


@dataclass(frozen=True)
class _Try:
    params: Mapping[str, Any]
    score: float
    sd: float | None
    chosen: bool

    @property
    def words(self) -> str:
        values = (f"{name} = {json.dumps(value, default=str)}" for name, value in self.params.items())
        return ", ".join(values) or "defaults"


def tuning_page(
    metric: str, configurations: Sequence[Mapping[str, Any]], scores: Sequence[float], spreads: Sequence[float | None],
    choice: Choice, origin: Origin | None = None, nested: Estimate | None = None, what: str = "",
) -> Page:  # fmt: skip
    """Return the page about a choice among configurations of ``what``; ``spreads`` are the sds over splits.

    ``scores``: of all predictions together, of draws their mean. ``nested``: the score of choosing anew in every fold.
    """
    reading, figures = metric_of(metric), zip(configurations, scores, spreads, strict=True)
    tried = [_Try(*each, i == choice.chosen) for i, each in enumerate(figures)]
    best_first = sorted(tried, key=lambda each: -each.score)
    picture = _configurations_picture(reading, best_first[:60], _race(scores, spreads, choice))
    rows = [
        [each.words + (" (chosen)" if each.chosen else ""), number(each.score), number(each.sd)] for each in best_first
    ]
    head = ["configuration", f"{reading.title}, as scikit-learn scores", "sd over splits"]
    best = "" if choice.chosen == choice.best else f"{tried[choice.best].words} has the best score."
    anew = [Tile(*labelled(nested, " of choosing anew in every fold"), "nested tuning")] if nested else []
    return Page(
        title=f"Tuning {what}".strip(),
        verdict=Verdict.NONE,
        lead=f"Take {tried[choice.chosen].words}.",
        tiles=[*anew, *_tiles_of_choice(reading, choice, len(scores))],
        findings=remarks("note", [best, *choice.notes]),
        sections=[Section("configurations", picture.title, [picture]), *_search(reading, tried)],
        details=[Section("figures", f"Every configuration ({len(scores):,})",
                         [Table("Every configuration", rows, head)])],
        footer=(origin or Origin()).words(),
    )  # fmt: skip


def _tiles_of_choice(reading: Metric, choice: Choice, n_tried: int) -> list[Tile]:
    half, luck = (choice.high - choice.low) / 2, choice.naive - choice.value
    value, ends = score_and_interval(reading, choice.value, Interval(choice.low, choice.high, choice.level, ""))
    expected = f"{reading.title} to expect {in_percent(choice.level)} {ends}"
    if n_tried == 1:
        return [Tile(value, expected, "one configuration: nothing was chosen")]
    flattered = f"too good by {score_text(luck, half)}" if luck > 0 else "no luck was found in it"
    as_scored = score_text(reading.shown(choice.naive), half)
    return [
        Tile(value, expected, f"{'corrected' if luck else 'nothing is taken off'} for having been chosen"),
        Tile(as_scored, f"{reading.title} of the chosen one, as it scored", flattered),
        Tile(f"{n_tried:,}", "configurations tried", "each on every split"),
    ]


def _configurations_picture(reading: Metric, tried: Sequence[_Try], title: str) -> Picture:
    ends = [reading.shown(each.score + side * (each.sd or 0.0)) for each in tried for side in (-1, 1)]
    above, names = "", [each.words for each in tried]
    if len(tried[0].params) > 1:  # their names stand there once
        above = ", ".join(tried[0].params)
        names = [", ".join(json.dumps(value, default=str) for value in each.params.values()) for each in tried]
    picture = Picture(
        title, f"{reading.title} ({direction(reading)}), and the sd of the splits", above,
        around(ends), (-len(tried) + 0.4, 0.6), height=64 + 22 * len(tried),
        y_ticks=[(-i, name) for i, name in enumerate(names)],
    )  # fmt: skip
    for i, each in enumerate(tried):
        value, sd = reading.shown(each.score), each.sd or 0.0
        picture.line([(value - sd, -i), (value + sd, -i)], "axis")
        picture.dots([(value, -i, f"{each.words}: {score_text(value)}")], 1 if each.chosen else 0)
    picture.name("chosen", 1, "dot")
    return picture


def _race(scores: Sequence[float], spreads: Sequence[float | None], choice: Choice) -> str:
    """Return how far ahead the best is, by its sd over the splits where that is known."""
    if len(scores) == 1:
        return "One configuration was tried, so nothing was chosen"
    sd = spreads[choice.best]
    near = sum(score >= scores[choice.best] - (sd or 0.0) for score in scores)
    if near > 1:
        where = "that score as well as the best" if sd is None else "within one sd of the best"
        return f"A close race: {amount(near, 'configuration')} of {len(scores):,} {where}"
    apart = "; how far splits scatter is not known" if sd is None else " by more than its sd"
    return f"One configuration is ahead of all others{apart}"


def _search(reading: Metric, tried: Sequence[_Try]) -> list[Section]:
    """Return the picture of the score of each try in the order tried, and of the best so far; none of very few."""
    if len(tried) < 3:
        return []
    best_so_far = [*accumulate((each.score for each in tried), max)]
    first = best_so_far.index(best_so_far[-1])
    after = len(tried) - 1 - first
    nothing = f"the {after:,} after it brought nothing better" if after > 1 else "a longer search may find a better one"
    values = [reading.shown(each.score) for each in tried]
    picture = Picture(
        f"The best came with try {first + 1:,} of {len(tried):,}; {nothing}",
        "try", f"{reading.title} ({direction(reading)})", (0.5, len(tried) + 0.5), around(values),
        x_ticks=named(ticks(1, len(tried), whole=True)),
    )  # fmt: skip
    steps = [(i + side, reading.shown(best)) for i, best in enumerate(best_so_far, start=1) for side in (-0.5, 0.5)]
    picture.line(steps, 1)
    of_tries = enumerate(zip(tried, values, strict=True), start=1)
    picture.dots([(i, value, f"try {i}, {each.words}: {score_text(value)}") for i, (each, value) in of_tries], 0)
    picture.name("one try", 0, "dot")
    picture.name("best so far", 1, "line")
    return [Section("search", picture.title, [picture])]
