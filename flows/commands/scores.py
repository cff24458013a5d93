"""What flows came to on a terminal: its page, then what a person does with it next."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from evenfold.estimates import metric_of
from evenfold.flows.outcomes import Evaluation, LaterScore, Segments, Tuning
from evenfold.reports.evaluations.words import written
from evenfold.reports.page import counted
from evenfold.tasks import Retraining

from .console import Words, lined_up
from .show import show_extension, show_other_decision, show_page, show_split, show_where

if TYPE_CHECKING:
    from evenfold.tasks.record.leaderboard import Leaderboard


def show_evaluation(console: Words, outcome: Evaluation | Segments) -> None:
    """Print an evaluation: every estimate under its own name, what to know of it, and where it is recorded."""
    if isinstance(outcome, Segments):
        return show_recorded(console, outcome)
    show_page(console, replace(outcome.as_page(), tiles=()))
    reused = f", {outcome.n_cached:,} of them from the cache" if outcome.n_cached else ""
    show_where(console, outcome.run_id, f", {counted(outcome.n_fits, 'fit')}{reused}, {outcome.seconds:.0f} s")
    if outcome.since:
        console.say(f"  {outcome.since}", hang=2)
    show_other_decision(console, outcome.split, outcome.cached)
    if len(outcome.run_id) == 32 and not outcome.look:
        console.say(f"  next: evenfold compare {outcome.run_id[:8]} ANOTHER_RUN, or evenfold list")


def show_recorded(console: Words, outcome: Segments | LaterScore) -> None:
    """Print a page and where it is recorded."""
    show_page(console, outcome.as_page())
    show_where(console, outcome.run_id)


def show_tuning(console: Words, outcome: Tuning) -> None:
    """Print the choice and what to expect of it without its luck, then every configuration's score."""
    show_page(console, outcome.as_page(), "figures")
    fits = f", {counted(outcome.n_fits, 'fit')}, {outcome.n_cached:,} of them from the cache"
    show_where(console, outcome.run_id, fits)
    if outcome.look:
        console.print()
        show_evaluation(console, outcome.look)


def show_leaderboard(console: Words, board: Leaderboard) -> None:
    """Print who was judged on a split, the best first, as people read scores."""
    reading = metric_of(board.metric)
    console.styled("[bold]{}[/]   split {}, by {}\n", board.split, board.split_id[:12], reading.title)
    rows = [["", "model", reading.title, "interval", "run"]]
    for place, judgement in enumerate(board.judgements, start=1):
        ends = sorted(reading.shown(end) for end in (judgement.low, judgement.high) if end is not None)
        half = (ends[1] - ends[0]) / 2 if len(ends) == 2 else None
        interval = " to ".join(written(end, half) for end in ends) if half is not None else "-"
        title = f"{judgement.model} {judgement.params.get('params', '')}".strip()
        rows.append([str(place), title, written(reading.shown(judgement.value), half), interval, judgement.run_id[:8]])
    console.print("\n".join(lined_up(rows, left=2)), soft_wrap=True)
    if others := [name for name in board.metrics if name != board.metric]:
        console.say(f"  also scored by {', '.join(others)}: --metric")


def show_retraining(console: Words, outcome: Retraining) -> None:
    """Print what a retraining decided and why, what joined the split, the audit, and the scores of what serves."""
    show_page(console, outcome.as_page())
    if outcome.reused:
        console.say("  nothing has changed since this was decided, so nothing was done")
    if version := outcome.registered:
        console.say(f"  registry: {version.uri} {'is champion' if version.champion else 'is kept beside the champion'}")
    show_where(console, outcome.run_id)


SHOWN = {
    "split": show_split,
    "evaluate": show_evaluation,
    "plan": lambda console, planned: console.say(planned.summary),
    "tune": show_tuning,
    "extend": show_extension,
    "retrain": show_retraining,
}
