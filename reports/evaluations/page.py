"""An evaluation on one page: the score first, what to know of it, pictures; every fold and settings at the end."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd
from evenfold.estimates.levels import LevelScore
from evenfold.estimates.metrics.registry import metric_of
from evenfold.estimates.models.problem import Problem
from evenfold.estimates.results import Confusion, Estimate, FoldScore, importance_table, in_percent, warned
from evenfold.manifests.audits.findings import Audit
from evenfold.reports.charts import cut, shortened
from evenfold.reports.page import Origin, Page, Paragraph, Remark, Section, Table, Tile, Verdict, facts, number, remarks
from evenfold.reports.splits.page import remarks_of, verdict_of
from evenfold.splitters.errors import amount, listed, verb
from markupsafe import Markup

from . import words
from .pictures import calibration_section, importance_rows, importance_section, pictured, score_pictures

MOST_ROWS, MOST_SHOWN = 100, 10
TOLD_APART = {"estimator", "params", "task", "features", "exclude", "metrics"}  # of a model's settings


@dataclass(frozen=True)
class SplitLink:
    """The split under an evaluation: its name with version, its identity, and the address of its page."""

    name: str
    split_id: str
    address: str = ""

    def block(self) -> Markup:
        """Return a line that leads to the split's page, where there is one."""
        name = Markup.escape(f"{self.name}, split {self.split_id[:12]}")
        link = Markup('<a href="{}">{}</a>').format(self.address, name) if self.address else name
        return Markup("<p>Rests on {}.</p>").format(link)


def evaluation_page(
    problem: Problem, scores: Sequence[FoldScore], estimates: Sequence[Estimate],
    predictions: pd.DataFrame | None = None, title: str = "Evaluation", audit: Audit | None = None,
    split: SplitLink | None = None, origin: Origin | None = None, levels: Sequence[LevelScore] = (),
    n_missing: int = 0, states: Mapping[str, str] | None = None, confusion: Confusion | None = None,
) -> Page:  # fmt: skip
    """Return the page about an evaluation. O(rows + splits).

    ``predictions``: the rows of predictions.parquet, for confusion matrix and calibration; bootstraps have none, and
    the ``confusion`` of their apparent score. ``audit``: of the split, decides the verdict. ``n_missing``: the splits
    without a score. ``states``: where each split's fit came from, by its name. Every figure stands in a
    ``<data value>`` at full precision, equal to estimates.json.
    """
    used, unit = importance_table(scores), words.unit_of(scores)
    lacking = f"{amount(n_missing, unit)} {verb(n_missing, 'is', 'are')} missing"
    partial = f"Partial: {lacking}, and the scores are of {amount(len(scores), unit)} alone."
    missing = [partial] if n_missing else []
    of = (problem.n, "row"), (len(scores), unit), (len(problem.features), "feature")
    verdict = judged(audit, [*missing, *warnings_of(estimates)])
    return Page(
        title=title,
        verdict=verdict,
        lead=f"{problem.model.title} on {', '.join(amount(*each) for each in of)}.{words.why_good(estimates, verdict)}",
        tiles=score_tiles(estimates),
        findings=[*remarks("warning", missing), *_remarks(audit, scores, estimates)],
        sections=[
            *pictured("metric", score_pictures(scores, estimates).values()),
            *importance_section(used, problem.model.metrics[0]),
            *_by_level(levels),
            *confusion_section(confusion if predictions is None else Confusion.of(problem, predictions)),
            *calibration_section(problem, predictions, estimates),
        ],
        details=_details(problem, scores, estimates, split, used, states or {}),
        footer=(origin or Origin()).words(amount(problem.n, "row"), f"split {split.split_id[:12]}" if split else ""),
    )


def _remarks(audit: Audit | None, scores: Sequence[FoldScore], estimates: Sequence[Estimate]) -> list[Remark]:
    """Return the findings: those on the split that the score rests on, then on the estimates."""
    notes = (words.resolution(estimates), *warned([score.warnings for score in scores]))
    return [*remarks_of(audit), *remarks_on(estimates), *remarks("note", notes)]


def judged(audit: Audit | None, warnings: Sequence[Any]) -> Verdict:
    """Return the verdict on the split, which deserves a look as well where there is a warning of the evaluation."""
    split = verdict_of(None, audit)
    return Verdict.LOOK if split is Verdict.GOOD and warnings else split


def beside_promises(
    page: Page, estimates: Sequence[Estimate], promised: Sequence[Estimate], notes: Sequence[str] = ()
) -> Page:
    """Return the page of a score on later rows: what was promised stands beside it, and the lead says what was kept."""
    findings = [*warnings_of(estimates), *remarks("note", notes)]
    lead, tiles = " ".join(words.kept_promises(estimates, promised)), score_tiles(estimates, promised)
    return replace(page, verdict=Verdict.NONE, lead=lead, tiles=tiles, findings=findings)


def _by_level(levels: Sequence[LevelScore]) -> list[Section]:
    """Return a section for each attribute: the score of each of its levels, with its interval."""
    sections: list[Section] = []
    for attribute in dict.fromkeys(score.attribute for score in levels):
        own, rows = [score for score in levels if score.attribute == attribute], dict[str, list[Any]]()
        for score in own:
            row, metric = rows.setdefault(score.level, [score.level, number(score.n_rows)]), metric_of(score.metric)
            cell: Any = "undefined"
            if score.value is not None:
                text = " ".join(words.score_and_interval(metric, score.value, score.interval)).strip()
                cell = number(metric.shown(score.value), text)
            row.append(cell)
        metrics = dict.fromkeys(score.metric for score in own)
        head = [attribute, "tested rows", *(metric_of(metric).title for metric in metrics)]
        reasons = "; ".join(dict.fromkeys(score.reason for score in own if score.reason))
        table = Table(f"Scores by {attribute}", [*rows.values()], head, reasons)
        sections.append(Section(f"by-{len(sections)}", f"By {attribute}", [table]))
    return sections


def score_tiles(estimates: Sequence[Estimate], promised: Sequence[Estimate] = ()) -> list[Tile]:
    """Return a tile for the last estimate of each metric: value, interval, what was ``promised``, scores beside it."""
    before = {each.metric: f"promised {' '.join(filter(None, words.headline(each)[1:]))}" for each in promised}
    tiles = []
    for estimate in words.last_of(estimates):
        reading, beside = metric_of(estimate.metric), estimate.baseline
        notes, half = [before.get(estimate.metric)], estimate.resolution  # whose digits all figures of a tile have
        if estimate.apparent is not None:
            notes.append(f"{words.score_text(reading.shown(estimate.apparent), half)} on training rows")
        if beside is not None:
            notes.append(f"{words.score_text(reading.shown(beside.value), half)} by predicting {beside.name}")
        method = f" ({estimate.method})" if estimate.method != "cross-validation" else ""
        tiles.append(Tile(*words.labelled(estimate, method), "; ".join(filter(None, notes))))
    return tiles


def remarks_on(estimates: Sequence[Estimate]) -> list[Remark]:
    """Return the findings on scores: warnings of the model, and how far training rows flatter it."""
    return [*warnings_of(estimates), *remarks("note", [words.optimism(estimates)])]


def warnings_of(estimates: Sequence[Estimate]) -> list[Remark]:
    """Return the warnings of the model, which come before its scores, each sentence once."""
    return remarks("warning", words.merged_sentences(each for estimate in estimates for each in estimate.warnings))


def summary_page(
    title: str, lead: str, scores: Sequence[FoldScore], estimates: Sequence[Estimate], audit: Audit | None = None,
    confusion: Confusion | None = None, notes: Sequence[str] = (), states: Mapping[str, str] | None = None,
    levels: Sequence[LevelScore] = (),
) -> Page:  # fmt: skip
    """Return the top of an evaluation's page, as a notebook and a terminal show it, with up to ten splits."""
    sections = pictured("metric", [*score_pictures(scores, estimates).values()][:1])
    sections += [Section("estimates", "Every estimate", [words.scores_table(estimates)])]
    if 1 < len(scores) <= MOST_SHOWN:
        sections.append(Section("splits", f"Every {words.unit_of(scores)}", [_splits(scores, states or {})]))
    sections += [*_by_level(levels), *confusion_section(confusion)]
    findings = [*_remarks(audit, scores, estimates), *remarks("note", notes)]
    verdict = judged(audit, warnings_of(estimates)) if audit else Verdict.NONE
    return Page(title, verdict, lead + words.why_good(estimates, verdict), score_tiles(estimates), findings, sections)


def confusion_section(confusion: Confusion | None) -> list[Section]:
    """Return the section of the confusion matrix; nothing of numbers."""
    if confusion is None:
        return []
    counts = np.array(confusion.counts)
    held, called, right = counts.sum(axis=1), counts.sum(axis=0), np.diagonal(counts)
    with np.errstate(invalid="ignore"):
        recalls, precisions = right / held, right / called  # NaN of a class that has no row, or is never said
    names, n = [shortened(name, 120.0) for name in confusion.classes], int(held.sum())
    rows = [
        [name, *map(number, confusion.counts[i]), number(int(held[i])),
         *("-" if np.isnan(share) else f"{share:.0%}" for share in (recalls[i], precisions[i]))]
        for i, name in enumerate(names)
    ]  # fmt: skip
    varied = np.unique(recalls[~np.isnan(recalls)]).size > 1
    least = f"; {confusion.classes[int(np.nanargmin(recalls))]} is found least often" if varied else ""
    of = "predictions of training rows" if confusion.apparent else "predictions"
    title = f"{right.sum() / max(n, 1):.0%} of {amount(n, 'prediction', of)} are correct{least}"
    head = ["true class", *(f"called {name}" for name in names), "predictions", "found (recall)", "right (precision)"]
    where = "Of the model of all rows" if confusion.apparent else "All test sets together"
    note = f"{where}; the stronger the colour, the larger the share of the true class."
    if confusion.thresholds is not None:
        low, high = (f"{end:.3g}" for end in confusion.thresholds)
        ends = f"{low} to {high}, by fold" if high != low else low
        note += f" Called {confusion.positive} from a probability of {ends}."
    shares = np.rint(100 * counts / np.maximum(held, 1)[:, None]).astype(int).tolist()
    return [Section("confusion", title, [Table("Confusion matrix", rows, head, note, shares=shares)])]


def _details(
    problem: Problem, scores: Sequence[FoldScore], estimates: Sequence[Estimate], split: SplitLink | None,
    used: pd.DataFrame, states: Mapping[str, str],
) -> list[Section]:  # fmt: skip
    intervals = [estimate.interval for estimate in estimates if estimate.interval]
    methods = dict.fromkeys((in_percent(interval.level), interval.method) for interval in intervals)
    about = [*(f"{level} intervals: {method}." for level, method in methods), *words.notes_of(estimates)]
    model = problem.model
    params = ", ".join(f"{name} = {value}" for name, value in model.params.items()) or "defaults"
    other = {name: value for name, value in model.canonical().items() if name not in TOLD_APART}
    settings = {"estimator": model.estimator, "parameters": params, "task": problem.task}
    settings |= {name: value if isinstance(value, str) else json.dumps(value) for name, value in other.items()}
    importances = f"Importance of {amount(len(used), 'feature')}"
    left, read = [*problem.left_out.items()], [", ".join(problem.features), words.encoding_words(problem.encodings)]
    features = f"Features ({len(problem.features)})" + (f", {amount(len(left), 'column')} left out" if left else "")
    unread = [facts("Left out", left)] if left else []
    return [
        Section("estimates", "Every estimate in figures", [estimates_table(estimates)]),
        Section("notes", f"About these numbers ({len(about)})", [*map(Paragraph, about or ["Nothing."])]),
        Section("splits", f"Every {words.unit_of(scores)} ({len(scores):,})", [_splits(scores, states)]),
        Section("features", features, [*map(Paragraph, filter(None, read)), *unread]),
        *([Section("importances", importances, [importance_rows(used)])] if len(used) else []),
        Section("model", "What was trained", [facts("What was trained", [*settings.items()])]),
        *([Section("split", f"Split {split.name}", [split.block()])] if split else []),
    ]


FIGURES = ("method", "value", "mean of folds", "sd", "se", "training rows", "gap", "interval from", "to", "baseline",
           "better by", "from", "to")  # fmt: skip


def estimates_table(estimates: Sequence[Estimate]) -> Table:
    """Return every estimate at full precision: a column each, so that a narrow page shows them all."""
    rows = [[title, *cells] for title, *cells in zip(FIGURES, *map(_figures, estimates), strict=True)]
    scorers = listed(dict.fromkeys(estimate.metric for estimate in estimates))
    note = (
        f"As scikit-learn's scorers have it ({scorers}): higher is better, errors are negative. sd: spread of the "
        "splits' scores, no interval; gap: training rows - value; baseline: the score without a model, and what the "
        "value is better by, with its interval."
    )
    return Table("Every estimate", rows, ["", *(metric_of(estimate.metric).title for estimate in estimates)], note)


def _figures(estimate: Estimate) -> list[Any]:
    figures = [estimate.value, estimate.fold_mean, estimate.sd, estimate.se, estimate.apparent, estimate.gap]
    beside = estimate.baseline
    both = estimate.interval, beside and beside.interval
    first, second = ((of.low, of.high) if of else (None, None) for of in both)
    without = (beside.value, beside.difference) if beside else (None, None)
    return [estimate.method, *map(number, [*figures, *first, *without, *second])]


def _splits(scores: Sequence[FoldScore], states: Mapping[str, str]) -> Table:
    drawn = scores[:MOST_ROWS]
    readings = {metric: metric_of(metric) for score in drawn for metric in score.test}
    rows = []
    for score in drawn:
        of_both = ((values.get(name), readings[name]) for values in (score.test, score.apparent) for name in readings)
        cells = (number(value, None if value is None else words.score_text(of.shown(value))) for value, of in of_both)
        rows.append([score.name, number(score.n_train), number(score.n_test), *cells])
    titles = [reading.title for reading in readings.values()]
    head = [words.unit_of(scores), "train rows", "test rows", *titles, *(f"{title} in training" for title in titles)]
    if states:
        of = {row[0]: row for row in rows}  # splits that failed have none
        empty, first = [""] * (len(head) - 1), [*states.items()][:MOST_ROWS]
        rows = [[*of.get(name, [name, *empty]), state] for name, state in first]
        head.append("fit")
    return Table(f"Every {words.unit_of(scores)}", rows, head, cut(len(rows), max(len(scores), len(states))))
