"""Scores on a terminal: the score first, then the interval, the folds and the training rows; caveats once."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from evenfold.estimates import Comparison, Confusion, Estimate, FoldScore, metric_of
from evenfold.estimates.results import in_percent, warned
from evenfold.flows.outcomes import Evaluation, LaterScore, Segments, Tuning
from evenfold.manifests import read_header
from evenfold.reports.evaluations.importance import importance_words
from evenfold.reports.evaluations.studies import segment_head
from evenfold.reports.evaluations.words import (
    by_level,
    encoding_words,
    headline,
    imputing_words,
    kept_promises,
    last_of,
    look_words,
    notes_of,
    once,
    optimism,
    read_ends,
    resolution,
    written,
)
from evenfold.reports.page import counted, listed
from evenfold.tasks import Retraining

from .console import Words, first_that_fits, lined_up
from .show import amount, show_extension, show_findings, show_other_decision, show_split, show_where

if TYPE_CHECKING:
    from evenfold.tasks.record.leaderboard import Leaderboard

MOST_FOLDS = 10
MOST_CONFUSED = 6


def show_evaluation(console: Words, outcome: Evaluation) -> None:
    """Print an evaluation: every estimate under its own name, what to know of it, and where it is recorded."""
    split = outcome.split
    name = outcome.model.title
    on = "its locked rows" if outcome.look else amount(split, read_header(Path(split.uri)))
    what = f"{on}, {counted(len(outcome.features), 'feature')}"
    console.styled("[bold]{}[/] on [bold]{} {}[/]   {}\n", name, split.name, split.version, what, soft_wrap=True)
    if outcome.estimates:
        console.print(first_that_fits(console, score_tables(outcome.scores, outcome.estimates)))
        console.print()
    show_confusion(console, outcome.confusion)
    for warning in once(words for estimate in outcome.estimates for words in estimate.warnings):
        console.say(f"  {warning}", hang=2, style="yellow")
    for words in filter(None, (
        optimism(outcome.estimates), resolution(outcome.estimates), *by_level(outcome.levels),
        importance_words(outcome.scores, outcome.model.metrics[0]), encoding_words(outcome.encoded),
        imputing_words(outcome.model, outcome.imputed),
    )):  # fmt: skip
        console.say(f"  {words}", hang=2)
    for remark in remarks(outcome.estimates, outcome.balance.target):
        console.say(f"  {remark}", hang=2)
    for sentence in warned(outcome.scores):
        console.say(f"  {sentence}", hang=2)
    if outcome.left_out:
        why = ", ".join(f"{name} ({re.split('[;,] ', reason)[0]})" for name, reason in outcome.left_out.items())
        console.say(f"  {counted(len(outcome.left_out), 'column')} left out: {why}", hang=2)
    show_findings(console, outcome.audit, split)
    _show_look(console, outcome)
    reused = f", {outcome.n_cached:,} of them from the cache" if outcome.n_cached else ""
    show_where(console, outcome.run_id, f", {counted(outcome.n_fits, 'fit')}{reused}, {outcome.seconds:.0f} s")
    if outcome.since:
        console.say(f"  {outcome.since}", hang=2)
    show_other_decision(console, split, outcome.cached)
    if len(outcome.run_id) == 32 and not outcome.look:
        console.say(f"  next: evenfold compare {outcome.run_id[:8]} ANOTHER_RUN, or evenfold list")


def show_segments(console: Words, outcome: Segments) -> None:
    """Print a line for each segment, and below them why others have no score."""
    scored = [each.cells for each in outcome.segments if each.estimate]
    n = counted(len(outcome.segments), "segment")
    console.styled("[bold]{}[/] on [bold]{}[/] by {}   {}\n", outcome.model.title, outcome.name, outcome.by, n)
    console.print("\n".join(lined_up([segment_head(outcome.model.metrics[0]), *scored])), soft_wrap=True)
    console.print()
    for sentence in (each.reason for each in outcome.segments if each.failed):
        console.say(f"  {sentence}", hang=2, style="yellow")
    show_where(console, outcome.run_id, f", {outcome.seconds:.0f} s")


def _show_look(console: Words, outcome: Evaluation) -> None:
    """Print which look at the locked part this is, how many are left, and what its interval is worth."""
    if not outcome.look:
        return
    left = "" if outcome.looks_left is None else f", and {outcome.looks_left or 'none'} left"
    console.say(f"  this is look {outcome.look} at the locked part of {outcome.split.name}{left}; it is recorded")
    level = next((estimate.interval.level for estimate in outcome.estimates if estimate.interval), None)
    if level is not None:
        console.say(f"  {look_words(level)}", hang=2)


def show_confusion(console: Words, confusion: Confusion | None) -> None:
    """Print what was called what, of few classes, and the thresholds that decided; nothing of numbers."""
    if confusion is None:
        return
    if len(confusion.classes) <= MOST_CONFUSED:
        rows = [
            [truth, *(f"{count:,}" for count in counts)]
            for truth, counts in zip(confusion.classes, confusion.counts, strict=True)
        ]
        console.print("\n".join(lined_up([["rows of", *(f"called {label}" for label in confusion.classes)], *rows])),
                      soft_wrap=True)  # fmt: skip
    if confusion.thresholds is not None:
        low, high = (f"{end:.3g}" for end in confusion.thresholds)
        console.say(
            f"  called {confusion.positive} from a probability of {low}{f' to {high}, by fold' if high != low else ''}"
        )
    console.print()


def show_later(console: Words, scored: LaterScore) -> None:
    """Print the scores on later rows beside what was promised, and where they are recorded."""
    name = scored.model.title
    trained = f"trained on {scored.split.name} {scored.split.version}"
    rows_of = f"{scored.rows:,} rows of"
    console.styled("[bold]{}[/] on the {} [bold]{}[/]   {}\n", name, rows_of, scored.name, trained, soft_wrap=True)
    promised = {estimate.metric: estimate for estimate in scored.promised}
    ends = {estimate.metric: _interval(estimate) for estimate in scored.estimates}
    rows = [["", "later rows", "interval", "promised", "interval"]]
    for estimate in scored.estimates:
        before = promised.get(estimate.metric)
        cells = [_score(before, before.value), _interval(before)] if before else ["", ""]
        rows.append([metric_of(estimate.metric).title, _score(estimate, estimate.value), ends[estimate.metric], *cells])
    console.print("\n".join(lined_up(rows)), soft_wrap=True)
    console.print()
    show_confusion(console, scored.confusion)
    for sentence in kept_promises(scored.estimates, scored.promised):
        console.say(f"  {sentence}", hang=2)
    if scored.known_groups is not None:
        group = f"{scored.known_groups:,} of {scored.rows:,} rows are of groups that the model has seen"
        console.say(f"  {group}", hang=2)
    for note in scored.notes:
        console.say(f"  {note}", hang=2)
    show_where(console, scored.run_id)


def score_tables(scores: Sequence[FoldScore], estimates: Sequence[Estimate]) -> Iterator[list[str]]:
    """Yield the estimates in tables of fewer and fewer columns: a row per metric and method, as people read them."""
    methods = list(dict.fromkeys(estimate.method for estimate in estimates))
    head = methods[0] if len(methods) == 1 else "score"
    levels = {in_percent(estimate.interval.level) for estimate in estimates if estimate.interval}
    columns = {
        "": [_title(estimate, methods) for estimate in estimates],
        head: [_score(estimate, estimate.value) for estimate in estimates],
        f"{levels.pop() if len(levels) == 1 else ''} interval".strip(): [_interval(estimate) for estimate in estimates],
        _heading(scores): [_folds(estimate, scores) for estimate in estimates],
        "training rows": ["" if each.apparent is None else _score(each, each.apparent) for each in estimates],
        "baseline": [_score(estimate, estimate.baseline.value) if estimate.baseline else "" for estimate in estimates],
    }
    shown = {name: cells for name, cells in columns.items() if name == "" or any(cells)}
    folds = _heading(scores)
    for without in ((), (folds,), (folds, "training rows"), (folds, "training rows", "baseline")):
        kept = {name: cells for name, cells in shown.items() if name not in without}
        yield lined_up([list(kept), *(list(row) for row in zip(*kept.values(), strict=True))])


def _title(estimate: Estimate, methods: list[str]) -> str:
    title = metric_of(estimate.metric).title
    return f"{title}, {estimate.method}" if len(methods) > 1 else title


def _score(estimate: Estimate, score: float) -> str:
    return written(metric_of(estimate.metric).shown(score), estimate.resolution)


def _interval(estimate: Estimate) -> str:
    if estimate.interval is None:
        return ""
    ends = read_ends(metric_of(estimate.metric), estimate.interval)
    return " to ".join(written(end, estimate.resolution) for end in ends)


def _heading(scores: Sequence[FoldScore]) -> str:
    """Return what stands over the scores of folds: the names, where they are parts."""
    names = [score.name.removesuffix(" part") for score in scores]
    named = 1 < len(names) <= MOST_FOLDS and all(score.name.endswith(" part") for score in scores)
    return " ".join(names) if named else "folds"


def _folds(estimate: Estimate, scores: Sequence[FoldScore]) -> str:
    """Return the score of each fold, or the range of many; nothing where one split is all there is."""
    values = [score.test[estimate.metric] for score in scores if estimate.metric in score.test]
    if len(values) < 2:
        return ""
    if len(values) <= MOST_FOLDS:
        return " ".join(_score(estimate, value) for value in values)
    ends = sorted((min(values), max(values)), key=metric_of(estimate.metric).shown)
    return " to ".join(_score(estimate, end) for end in ends)


def remarks(estimates: Sequence[Estimate], target: str | None = None) -> list[str]:
    """Return what has to be known of the estimates, each sentence once; that sd is a spread is said where sd stands."""
    known = re.compile(r"(.+?: )?(sd is the spread|se = sd|There is no se|There is one split)")
    sentences = [note for note in notes_of(estimates) if not known.match(note)]
    errors = list(
        dict.fromkeys(m.title for estimate in estimates if (m := metric_of(estimate.metric)).unit == "target")
    )
    unit = f"in the unit of {target}, " if target else ""
    named = list(dict.fromkeys(estimate.baseline.name for estimate in estimates if estimate.baseline))
    baseline = f"baseline: {' or '.join(named)} for every row, learnt from the same training rows."
    return [
        *([f"{listed(errors)}: {unit}lower is better."] if errors else []),
        *([baseline] if named else []),
        *sentences,
    ]


def show_tuning(console: Words, outcome: Tuning) -> None:
    """Print the choice and what to expect of it without its luck, then every configuration's score."""
    metric, half, split = metric_of(outcome.metric), (outcome.high - outcome.low) / 2, outcome.split
    tried = counted(len(outcome.configurations), "configuration")
    of = amount(split, read_header(Path(split.uri)))
    console.styled("[bold]{}[/] on [bold]{} {}[/]   {}\n", tried, split.name, split.version, of)
    console.say(f"  take {_params(outcome, outcome.chosen)}", hang=2)
    console.say(f"  {worth_of(outcome)}", hang=2)
    if outcome.nested:
        inside = next(estimate for estimate in outcome.nested.estimates if estimate.metric == outcome.metric)
        winners = ", ".join(f"{number + 1}" for number in outcome.nested.chosen)
        console.say(
            f"  nested: chosen anew inside the training rows of every fold, {' '.join(headline(inside))}: what "
            f"choosing so is worth on new rows; the configurations chosen were {winners}",
            hang=2,
        )
    for note in outcome.notes:
        console.say(f"  {note}", hang=2)
    console.print()
    names = list(outcome.configurations[0])
    rows = [[*names, metric.title, "sd of splits", ""]]
    for number, params in enumerate(outcome.configurations):
        sd = outcome.spreads[number]
        mark = "chosen" if number == outcome.chosen else "best" if number == outcome.best else ""
        value = written(metric.shown(outcome.scores[number]), half)
        rows.append([*(str(params[name]) for name in names), value, "-" if sd is None else written(sd), mark])
    console.print("\n".join(lined_up(rows, left=len(names))), soft_wrap=True)
    console.print()
    show_where(
        console, outcome.run_id, f", {counted(outcome.n_fits, 'fit')}, {outcome.n_cached:,} of them from the cache"
    )
    if outcome.look:
        console.print()
        show_evaluation(console, outcome.look)


def worth_of(outcome: Tuning) -> str:
    """Return what to expect of the chosen configuration, and what choosing did to its score, in a sentence."""
    metric, half = metric_of(outcome.metric), (outcome.high - outcome.low) / 2
    low, high = sorted((metric.shown(outcome.low), metric.shown(outcome.high)))
    value, scored = (written(metric.shown(v), half) for v in (outcome.value, outcome.scores[outcome.chosen]))
    interval = f"{in_percent(outcome.level)} interval {written(low, half)} to {written(high, half)}"
    flattered = ", which flatters it" if outcome.scores[outcome.chosen] > outcome.value else ""
    chosen = f"it scored {scored} where it was chosen{flattered}" if len(outcome.scores) > 1 else "nothing was chosen"
    return f"expect {metric.title} {value}, {interval}; {chosen}"


def _params(outcome: Tuning, number: int) -> str:
    return ", ".join(f"{name} = {value}" for name, value in outcome.configurations[number].items())


def show_comparisons(console: Words, comparisons: Sequence[Comparison], names: tuple[str, str]) -> None:
    """Print two models on the same rows, a metric a line, then what was found in words."""
    a, b = names
    first = comparisons[0]
    often = f", in {counted(first.repeats, 'repeat')} of the folds" if first.repeats > 1 else ""
    same = f"the same {counted(first.n_rows, 'row')}, tested by both{often}"
    console.styled("A [bold]{}[/]   B [bold]{}[/]   {}\n", a, b, same)
    level = next((f"{in_percent(comparison.interval.level)} " for comparison in comparisons if comparison.interval), "")
    rows = [["", "A", "B", "B - A", f"{level}interval", "better"]]
    for comparison in comparisons:
        metric = metric_of(comparison.metric)
        interval = comparison.interval
        half = (interval.high - interval.low) / 2 if interval else None
        ends = sorted((metric.shown(interval.low), metric.shown(interval.high))) if interval else []
        better = {"better": "B", "worse": "A", "equivalent": "neither"}.get(comparison.verdict, "cannot be told")
        move = metric.shown(comparison.difference)
        rows.append([
            metric.title, *(written(metric.shown(value), half) for value in (comparison.a, comparison.b)),
            ("+" if move > 0 else "") + written(move, half), " to ".join(written(end, half) for end in ends), better,
        ])  # fmt: skip
    console.print("\n".join(lined_up(rows)), soft_wrap=True)
    console.print()
    notes = once(note for comparison in comparisons for note in comparison.notes)
    for sentence in dict.fromkeys([*(comparison.words for comparison in comparisons), *notes]):
        console.say(f"  {sentence}", hang=2)


def show_leaderboard(console: Words, found: Leaderboard) -> None:
    """Print who was judged on a split, the best first, as people read scores."""
    reading = metric_of(found.metric)
    console.styled("[bold]{}[/]   split {}, by {}\n", found.split, found.split_id[:12], reading.title)
    rows = [["", "model", reading.title, "interval", "run"]]
    for place, judgement in enumerate(found.judgements, start=1):
        ends = sorted(reading.shown(end) for end in (judgement.low, judgement.high) if end is not None)
        half = (ends[1] - ends[0]) / 2 if len(ends) == 2 else None
        interval = " to ".join(written(end, half) for end in ends) if half is not None else "-"
        named = f"{judgement.model} {judgement.params.get('params', '')}".strip()
        rows.append([str(place), named, written(reading.shown(judgement.value), half), interval, judgement.run_id[:8]])
    console.print("\n".join(lined_up(rows, left=2)), soft_wrap=True)
    if others := [name for name in found.metrics if name != found.metric]:
        console.say(f"  also scored by {', '.join(others)}: --metric")


def show_retraining(console: Words, outcome: Retraining) -> None:
    """Print what a retraining decided and why, what joined the split, the audit, and the scores of what serves."""
    split, made, growth = outcome.split, outcome.registered, outcome.growth
    name = made.name if made else split.name
    state = (
        f"version {made.version} {'is champion' if made.champion else 'is kept beside the champion'}" if made else ""
    )
    serves = f"{outcome.model.title} " if outcome.model else ""
    of = amount(split, read_header(Path(split.uri)))
    console.styled("[bold]{}[/]   {}   {}\n", name, state or "nothing new was registered", of)
    moved = (
        f"{growth.added:,} rows joined, {growth.moved:,} moved, {growth.deleted:,} deleted, "
        f"{growth.quarantined:,} quarantined"
    )
    if outcome.reused:
        console.say("  nothing has changed since this was decided, so nothing was done\n")
    facts = [("decision", f"{outcome.decision.why}."), ("", outcome.compared)]
    facts += [("split", f"{split.name} {split.version}: {moved}"), *(("", note) for note in growth.notes)]
    facts += [("score", f"{serves}{line.strip()}") for line in _scores_of(outcome.estimates)]
    facts += [("month", sentence) for sentence in [*outcome.judged.sentences, outcome.before]]
    for title, words in facts:
        if words:
            console.say(f"  {title:9} {words}", hang=10)
    show_findings(console, outcome.audit, split)
    if made:
        console.say(f"  registry  {made.uri}")
    show_where(console, outcome.run_id)


def _scores_of(estimates: Sequence[Estimate]) -> list[str]:
    cells = [
        f"{metric_of(e.metric).title} {_score(e, e.value)}" + (f" ({_interval(e)})" if e.interval else "")
        for e in last_of(estimates)
    ]
    return ["   ".join(cells)] if cells else []


SHOWN = {
    "split": show_split,
    "evaluate": lambda console, outcome: (
        show_segments(console, outcome) if isinstance(outcome, Segments) else show_evaluation(console, outcome)
    ),
    "plan": lambda console, planned: console.say(planned.summary),
    "tune": show_tuning,
    "extend": show_extension,
    "retrain": show_retraining,
}
