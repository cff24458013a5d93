"""What people read on a terminal; on anything else the same words without colour."""

from __future__ import annotations

import shlex
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from math import floor, log10
from pathlib import Path
from typing import Any

from evenfold.flows.outcomes import ExtendOutcome, SplitOutcome
from evenfold.manifests import Audit, BalanceReport, Difference, Exported, Finding, Header, Verification, read_header
from evenfold.manifests.figures import RowsBalance
from evenfold.manifests.membership import LOCKED
from evenfold.manifests.store.header import WAITING
from evenfold.manifests.tables.addresses import is_address
from evenfold.manifests.tables.canonical import verb
from evenfold.reports.page import counted, listed
from evenfold.reports.splits.gaps import target_gap
from evenfold.splitters.base import ONE_OF
from evenfold.tasks import Home, SplitRef
from evenfold.tasks.runtime.progress import SAY, Say
from evenfold.tasks.splits import moved_modules
from pydantic import BaseModel, ConfigDict
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, ProgressColumn, SpinnerColumn, Task, TextColumn
from rich.text import Text

from .console import Words as Words, consoles as consoles, lined_up

MOST_PLACES, MOST_FINDINGS = 13, 3
QUICK = 2.0  # seconds; a step that is done sooner needs no line


class Left(ProgressColumn):
    """The time left, where it can be told, or else the time gone by."""

    def render(self, task: Task) -> Text:
        """Return it as a text."""
        if task.time_remaining is not None and not task.finished:
            return Text(f"{_clock(task.time_remaining)} left", style="progress.remaining")
        gone = task.finished_time if task.finished else task.elapsed
        return Text(_clock(gone or 0.0), style="progress.elapsed")


def _clock(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes}:{rest:02d}"


@contextmanager
def progress(console: Console) -> Iterator[None]:
    """Show what is under way inside the block: a live bar on a terminal, plain lines elsewhere."""
    if not console.is_terminal:
        with _listening(_lines(console)):
            yield
        return
    columns = (
        SpinnerColumn(),
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        MofNCompleteColumn(),
        Left(),
    )
    with Progress(*columns, console=console, transient=True) as bar, _listening(_bars(bar)):
        yield


@contextmanager
def _listening(say: Say) -> Iterator[None]:
    token = SAY.set(say)
    try:
        yield
    finally:
        SAY.reset(token)


def _lines(console: Console) -> Say:
    """Return what prints a line when a step ends, with its seconds; of short ones nothing."""
    begun: dict[str, float] = {}

    def say(what: str, done: int, of: int) -> None:
        started = begun.setdefault(what, time.monotonic())
        seconds = time.monotonic() - started
        if done == of and seconds >= QUICK:
            console.print(f"{what}: {f'{of:,}, ' if of > 1 else ''}{seconds:.0f} s")
        if done == of:
            begun.pop(what, None)

    return say


def _bars(bar: Progress) -> Say:
    known: dict[str, Any] = {}
    guard = threading.Lock()

    def say(what: str, done: int, of: int) -> None:
        with guard:
            if what not in known:
                known[what] = bar.add_task(what, total=of or None)
            bar.update(known[what], completed=done, total=of or None)

    return say


def show_split(console: Words, outcome: SplitOutcome) -> None:
    """Print what a split came to: how even it is, what its audit found, and where it is recorded."""
    show_balance(console, outcome.balance, outcome.split, outcome.cached)
    show_findings(console, outcome.audit, outcome.split)
    show_where(console, outcome.run_id)
    if outcome.balance.target and not outcome.split.data.startswith(str(Home.here().data)):
        file = shlex.quote(from_here(outcome.split.data))
        console.print(f"  next: evenfold evaluate {file} --manifest {outcome.split.name}", soft_wrap=True)


def show_balance(console: Words, report: BalanceReport, split: SplitRef, cached: bool) -> None:
    """Print what a split is called, how even it is, and its identity."""
    header = read_header(Path(split.uri))
    console.styled("[bold]{} {}[/]   {}   ({})\n", split.name, split.version, amount(split, header), split.strategy)
    rows = _places(report, header)
    if rows and len(rows[0]) <= MOST_PLACES:
        console.print("\n".join(lined_up(rows)) + "\n", soft_wrap=True)
    console.say(f"  {_worst(report)}", hang=2)
    console.say(f"  id {split.split_id[:12]}, {'decided before' if cached else 'decided now'}")
    show_other_decision(console, split, cached)


DECIDING = (
    "columns",
    "types",
    "strategy",
    "params",
    "seed",
    "group_mode",
    "missing_target",
    "holdout",
    "key_encoding",
    "on_new_rows",
)


def show_other_decision(console: Words, split: SplitRef, cached: bool) -> None:
    """Print why a split of a known name got a new major version: what was asked otherwise before."""
    major, _, minor = split.version.partition(".")
    before = Path(split.uri).parent / f"{int(major) - 1}.0"
    if cached or minor != "0" or not (before / "manifest.json").is_file():
        return
    now, then = read_header(Path(split.uri)), read_header(before)
    asked = [name for name in DECIDING if now["spec"].get(name) != then["spec"].get(name)]
    same_columns = not {"columns", "types", "strategy"} & {*asked}  # other columns have another fingerprint
    data = ["the data"] if same_columns and now["fingerprint"] != then["fingerprint"] else []
    codes = [str(header["algorithm"]["version"]).partition("+")[2] for header in (then, now)]
    code = moved_modules(split.name, *codes) or ["the strategy's code"] if codes[0] != codes[1] else []
    if differences := [*data, *asked, *code]:
        was = f"{'was' if differences in (['strategy'], code[:1]) else 'were'} different for {before.name}"
        words = f"  {split.version} because {listed(differences)} {was}, which stays; --name keeps them apart"
        console.say(words, hang=2)


def amount(split: SplitRef, header: Header) -> str:
    """Return how many rows in use are in how many folds, draws or parts, and what stays together."""
    counts, parts = header.get("counts", {}), header.get("parts", [])
    # Of more folds than are counted, all rows that there ever were.
    rows = counted(sum(rows for code, rows in counts.items() if int(code) >= LOCKED) or split.n_rows, "row")
    if parts:
        shares = (f"{part['name']} {counts.get(str(part['code']), 0):,}" for part in parts)
        return f"{rows}: {', '.join(shares)}"
    group = _group_of(header)
    whole = f" by {group}" if group else ""
    locked = f", {counted(counts['-2'], 'row')} locked away" if counts.get("-2") else ""
    crossed = counts.get("-3") if header.get("spec", {}).get("group_mode") == "cross" else 0
    out = f", {counted(crossed, 'row')} left out" if crossed else ""
    waiting = sum(file["rows"] for file in header.get("files", []) if file["path"] == WAITING)
    later = f", {counted(waiting, 'more row')} {verb(waiting, 'waits', 'wait')} for a target" if waiting else ""
    return f"{rows} in {counted(split.n_splits, ONE_OF[split.kind])}{whole}{locked}{out}{later}"


def _group_of(header: Header) -> str:
    """Return the column whose rows stay together, or several; nothing where there is none."""
    columns = header.get("spec", {}).get("columns", {})
    named = columns.get("group") or columns.get("entities") or []
    return listed([named] if isinstance(named, str) else named)


def _places(report: BalanceReport, header: Header) -> list[list[str]]:
    """Return a table of the folds or parts: rows, groups, and the mean of the target or its rarest class."""
    parts = {part["code"]: part["name"] for part in header.get("parts", [])}
    tested = [parts[code] for code in sorted(parts) if code >= 0]
    titles = tested if len(tested) == len(report.folds) else [str(fold.split) for fold in report.folds]
    places: list[tuple[str, RowsBalance]] = list(zip(titles, report.folds, strict=True))
    places += [(part.name, part) for part in report.parts]
    places.sort(key=lambda place: list(parts.values()).index(place[0]) if place[0] in parts.values() else -1)
    rows = [["part" if parts else "fold", *(title for title, _ in places)]]
    rows.append(["rows", *(f"{place.rows:,}" for _, place in places)])
    group = _group_of(header)
    if group and all(place.groups is not None for _, place in places):
        rows.append([group, *(f"{place.groups:,}" for _, place in places)])
    means = [place.mean for _, place in places]
    if known := [abs(mean) for mean in means if mean is not None]:
        digits = max(3 - floor(log10(max(known) or 1.0)), 0)
        shape = f",.{digits}f" if digits <= 8 else ".4g"
        rows.append([f"mean {report.target}", *("-" if mean is None else f"{mean:{shape}}" for mean in means)])
    if report.shares and report.classes:
        rare = min(range(len(report.shares)), key=report.shares.__getitem__)
        rows.append([report.classes[rare], *(f"{place.rows_of(rare):,}" for _, place in places)])
    return rows


def _worst(report: BalanceReport) -> str:
    gap = target_gap(report) if report.folds and report.n_rows else None
    random = f" (95 % of random ones: {gap.bound})" if gap is not None else ""
    shown = [(figure, value) for figure, value, _ in report.shown() if figure.sentence]
    return "; ".join(figure.said(value) + (random if figure.of_target else "") for figure, value in shown)


def show_findings(console: Words, audit: Audit | None, split: SplitRef) -> None:
    """Print in one line what an audit came to, and each error and warning in a sentence."""
    if audit is None:
        return
    console.say(f"  audit: {_kinds(audit)}")
    loud = [finding for finding in audit.findings if finding.severity != "note"]
    for finding in loud[:MOST_FINDINGS]:
        mark = "FAILED" if finding.gate == "failed" else finding.severity
        console.say(f"    {mark}: {finding.message}", hang=len(mark) + 2, style=_STYLES[finding.severity])
    if len(loud) > MOST_FINDINGS or len(loud) < len(audit.findings):
        file = shlex.quote(from_here(split.data))
        console.say(f"    all of them: evenfold audit {split.name} {file}")


def show_extension(console: Words, outcome: ExtendOutcome) -> None:
    """Print what an extension came to: rows that joined and left, and that none moved."""
    show_balance(console, outcome.balance, outcome.split, outcome.split.reused)
    console.print(
        f"  {outcome.added:,} rows added, {outcome.deleted:,} deleted, {outcome.returned:,} back, "
        f"{outcome.quarantined:,} quarantined, {outcome.moved} moved"
    )
    for note in outcome.notes:
        console.print(f"  {note}")
    show_where(console, outcome.run_id)


def show_where(console: Words, run_id: str, more: str = "") -> None:
    """Print the run, and the page where it lies on this machine: whole, so that a terminal makes it a link."""
    pages = sorted((Home.here().path / "mlartifacts").glob(f"*/{run_id}/artifacts/**/report.html"))
    short = run_id[:8] if len(run_id) == 32 else run_id
    console.say(f"  run {short}{more}")
    for page in pages[:1]:
        console.print(f"  page {from_here(page)}", soft_wrap=True, style=f"link {page.as_uri()}")


def from_here(place: str | Path) -> str:
    """Return a path as it is written from the working directory, an address as it is."""
    if is_address(place):
        return str(place)
    path = Path(place)
    return str(path.relative_to(Path.cwd()) if path.is_relative_to(Path.cwd()) else path)


_STYLES = {"error": "bold red", "warning": "yellow", "note": ""}


class Joined(BaseModel):
    """Rows that were written for one side of one split, or without a fold all of them, parted by their folds."""

    model_config = ConfigDict(frozen=True)

    path: str
    rows: int
    fold: int | None
    repeat: int
    role: str | None


def show_audit(console: Words, made: Audit) -> None:
    """Print what an audit came to, every finding with its remedy, errors first, and which checks had nothing to see."""
    beside = f"; text and times beside them: {', '.join(made.beside)}" if made.beside else ""
    features = (", ".join(made.features) or "none") + beside
    rows = counted(made.n_rows, "row")
    console.styled("[bold]{} {}[/]   {}   {}, features: {}\n", made.name, made.version, _kinds(made), rows, features)
    for finding in made.findings:
        mark = "FAILED" if finding.gate == "failed" else finding.severity
        console.say(f"  {mark:8} {finding.message} {_called(finding)}", hang=9, style=_STYLES[finding.severity])
    for ignored in made.ignored:
        console.say(f"  ignored  {ignored.message} {_called(ignored)} Reason: {ignored.reason}", hang=9)
    if made.findings or made.ignored:
        console.print()
    silent = next((finding for finding in made.findings if finding.code and finding.severity != "note"), None)
    if silent:
        console.say(
            f"  No fault here? Ignore it and say why, in three words or more: --ignore {silent.code}='...'", hang=2
        )
    if made.not_asked:
        reasons = "; ".join(dict.fromkeys(made.not_asked.values()))
        console.say(f"  {counted(len(made.not_asked), 'check')} had nothing to check: {reasons}.", hang=2)
    if made.off:
        console.say(f"  off: {', '.join(made.off)}")


def _called(finding: Finding) -> str:
    return f"[{f'{finding.code} {finding.check}'.strip()}]"


def _kinds(audit: Audit) -> str:
    """Return how many checks failed, warned, noted something and passed."""
    counts = [(len(audit.failed), "failed")]
    for severity, word in (("warning", "warning"), ("note", "note")):
        counts.append((sum(finding.severity == severity for finding in audit.findings), word))
    amounts = [f"{n} {word}" if word == "failed" else counted(n, word) for n, word in counts if n]
    return ", ".join([*amounts, counted(len(audit.passed), "check") + " passed"])


def show_verification(console: Words, found: Verification) -> None:
    """Print what is damaged, or what was proved."""
    _say(console, f"{found.folder}: {'intact' if found.intact else 'damaged'}")
    for damage in found.damages:
        console.print(f"  damaged  {damage.message}", style=_STYLES["error"])
    for line in found.proved:
        _say(console, f"  proved   {line}")
    for line in found.not_proved:
        _say(console, f"  not proved: {line}")


def show_difference(console: Words, found: Difference) -> None:
    """Print which rows went where and which fields differ."""
    _say(console, f"{found.a} -> {found.b}: {'the same split' if found.same else 'another split'}")
    for line in found.sentences:
        _say(console, f"  {line}")


def show_export(console: Words, made: Exported) -> None:
    """Print what was written and how it is read."""
    _say(console, f"{made.path}: {made.rows:,} rows; {made.note}")


def show_join(console: Words, made: Joined) -> None:
    """Print what was written."""
    of = f" of repeat {made.repeat}" if made.repeat else ""
    if made.fold is None:
        _say(console, f"{made.path}: {counted(made.rows, 'row')}, parted by the folds{of} (fold=<code>/rows.parquet)")
        return
    _say(console, f"{made.path}: the {made.rows:,} rows that fold {made.fold}{of} has for {made.role}")


def _say(console: Words, text: str) -> None:
    console.print(text)
