"""Text for a terminal; on anything else the same words without colour."""

from __future__ import annotations

import shlex
from dataclasses import replace
from functools import singledispatch
from pathlib import Path
from typing import Any

from evenfold.estimates import metric_of
from evenfold.flows.outcomes import Evaluation, ExtendOutcome, Planned, SplitOutcome, Tuning
from evenfold.manifests import Audit, StoredManifest
from evenfold.reports import audit_page
from evenfold.reports.evaluations.decisions import audit_advice
from evenfold.reports.evaluations.words import score_and_ends
from evenfold.reports.terminal import Words
from evenfold.reports.texts import top_of_split
from evenfold.splitters.errors import amount
from evenfold.tasks import Home, SplitRef
from evenfold.tasks.plans import decided_otherwise
from evenfold.tasks.record.reading import Leaderboard


@singledispatch
def show(outcome: Any, console: Words) -> None:
    """Print the page of a result, and where it is recorded; an evaluation's figures stand in its table."""
    page = outcome.as_page()
    console.show(replace(page, tiles=()) if isinstance(outcome, Evaluation) else page, "figures")
    show_where(console, outcome.run_id)
    if isinstance(outcome, (Evaluation, Tuning)):
        cached = f", {outcome.n_cached:,} of them from the cache" if outcome.n_cached else ""
        took = f", {outcome.seconds:.0f} s" if isinstance(outcome, Evaluation) else ""
        console.say(f"  {amount(outcome.n_fits, 'fit')}{cached}{took}")
    # What became of a retraining; which code of the user's has changed, where an evaluation was made anew for that.
    for sentence in filter(None, (*getattr(outcome, "beside", ()), getattr(outcome, "since", ""))):
        console.say(f"  {sentence}")
    if isinstance(outcome, Evaluation):
        show_other_decision(console, outcome.split, outcome.cached)
        if len(outcome.run_id) == 32 and not outcome.look:
            console.say(f"  next: evenfold compare {outcome.run_id[:8]} ANOTHER_RUN, or evenfold list")
    elif isinstance(outcome, Tuning) and outcome.look:
        console.say("")
        show(outcome.look, console)


@show.register
def show_plan(outcome: Planned, console: Words) -> None:
    """Print the steps that would be taken."""
    console.say(outcome.summary)


@show.register(SplitOutcome)
@show.register(ExtendOutcome)
def show_split(outcome: SplitOutcome | ExtendOutcome, console: Words) -> None:
    """Print the page of a split, or of its extension, where it is recorded, and what is next."""
    split, report, cached = outcome.split, outcome.balance, outcome.cached
    page = top_of_split(split.manifest(), report, getattr(outcome, "audit", None))
    console.show(page, *(["folds"] if len(report.folds) <= 12 else []))
    if isinstance(outcome, ExtendOutcome):
        left = f"{outcome.deleted:,} deleted, {outcome.returned:,} back, {outcome.quarantined:,} quarantined"
        for sentence in [f"{outcome.added:,} rows added, {left}, {outcome.moved} moved", *outcome.notes]:
            console.say(f"  {sentence}")
    console.say(f"  id {split.split_id[:12]}, decided {'before' if cached else 'now'}")
    show_other_decision(console, split, cached)
    show_where(console, outcome.run_id)
    # What was passed as a frame has no file of its own, and of a batch the target is not measured.
    if report.target is not None and not split.data.startswith(str(Home.here().data)):
        console.say(f"  next: evenfold evaluate {shlex.quote(from_here(split.data))} --manifest {split.name}")


def show_other_decision(console: Words, split: SplitRef, cached: bool) -> None:
    """Print why a split of a known name got a new major version: what was asked otherwise before."""
    major, _, minor = split.version.partition(".")
    before = Path(split.uri).parent / f"{int(major) - 1}.0"
    if not cached and minor == "0" and (before / "manifest.json").is_file():
        apart = "; ".join(decided_otherwise(StoredManifest(before), split.stored()))
        console.say(f"  {split.version}, for {apart}; {before.name} stays, and --name keeps them apart")


def show_where(console: Words, run_id: str) -> None:
    """Print the run, and its page where it lies on this machine: whole, so that a terminal makes it a link."""
    console.say(f"  run {run_id[:8] if len(run_id) == 32 else run_id}")
    for page in sorted((Home.here().path / "mlartifacts").glob(f"*/{run_id}/artifacts/**/report.html"))[:1]:
        console.print(f"  page {from_here(page)}", style=f"link {page.as_uri()}", soft_wrap=True)


def from_here(place: str | Path) -> str:
    """Return a path as it is written from the working directory, an address as it is."""
    return str(place).removeprefix(f"{Path.cwd()}/")


@show.register
def show_audit(audit: Audit, console: Words) -> None:
    """Print what an audit came to, and how what is no fault is ignored."""
    console.show(audit_page(audit))
    for sentence in audit_advice(audit):
        console.say(f"  {sentence}")


@show.register
def show_leaderboard(board: Leaderboard, console: Words) -> None:
    """Print who was judged on a split, the best first, as people read scores."""
    reading = metric_of(board.metric)
    console.say(f"{board.split}, by {board.split_id[:12]}: {reading.title}\n", "bold")
    rows = [["", "model", reading.title, "interval", "run"]]
    for place, each in enumerate(board.judgements, start=1):
        title = f"{each.model} {each.params.get('params', '')}".strip()
        rows.append([str(place), title, *score_and_ends(reading, each.value, each.low, each.high), each.run_id[:8]])
    console.tell(rows, left=2)
    if others := [name for name in board.metrics if name != board.metric]:
        console.say(f"  also scored by {', '.join(others)}: --metric")
