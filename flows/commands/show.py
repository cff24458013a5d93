"""What people read on a terminal; on anything else the same words without colour."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from evenfold.estimates import Estimate, metric_of
from evenfold.estimates.results import in_percent
from evenfold.flows.outcomes import Evaluation, ExtendOutcome, SplitOutcome, Tuning
from evenfold.manifests import Audit, BalanceReport, Difference, Exported, Verification, read_header
from evenfold.reports.sentences import model_sentence, split_sentences
from evenfold.tasks import Home, Retraining, SplitRef
from evenfold.tasks.outcomes import NestedChoice
from evenfold.tasks.record.leaderboard import Leaderboard
from evenfold.tasks.runtime.progress import SAY, Say
from pydantic import BaseModel, ConfigDict
from rich.console import Console
from rich.markdown import Markdown
from rich.progress import BarColumn, MofNCompleteColumn, Progress, ProgressColumn, SpinnerColumn, Task, TextColumn
from rich.table import Table
from rich.text import Text

from .console import Words as Words, consoles as consoles, first_that_fits

MOST_FOLD_ROWS = 12


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
    columns = (SpinnerColumn(), TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), Left())
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
    def say(what: str, done: int, of: int) -> None:
        if done in (0, of):
            console.print(f"{what}: {done} of {of}" if of > 1 else f"{what}{' done' if done else ' ...'}")

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


def show_split(console: Console, outcome: SplitOutcome) -> None:
    """Print what a split came to: its identity, its balance, and where it is recorded."""
    show_balance(console, outcome.balance, outcome.split, outcome.cached)
    _show_where(console, outcome.split, outcome.run_id)


def show_balance(console: Console, report: BalanceReport, split: SplitRef, cached: bool) -> None:
    """Print a split's identity and how even it is."""
    locked = read_header(Path(split.uri))["counts"].get("-2", 0)
    what, even = split_sentences(split.model_dump(), report, cached, locked)
    name, _, rest = what.partition(":")
    console.print(f"[bold]{name}[/]:{rest}")
    console.print(f"  {even}")


def show_evaluation(console: Console, outcome: Evaluation) -> None:
    """Print an evaluation: every fold, every estimate under its own name, and where it is recorded."""
    from evenfold.reports.evaluations.words import optimism, resolution  # pages are loaded when a result is shown

    show_balance(console, outcome.balance, outcome.split, outcome.cached)
    fitted = model_sentence(str(outcome.model.estimator), len(outcome.features), outcome.n_fits, outcome.n_cached)
    console.print(f"  {fitted}")
    if outcome.left_out:
        console.print(f"  left out: {', '.join(outcome.left_out)} (reasons: features.json)", markup=False)
    if outcome.look:
        console.print(f"  this is look {outcome.look} at the locked part of {outcome.split.name}; it is recorded")
    if 1 < len(outcome.scores) <= MOST_FOLD_ROWS:
        metrics = list(outcome.scores[0].test)
        tables = (_fold_table(outcome, metrics[:n]) for n in range(len(metrics), 0, -1))
        console.print(first_that_fits(console, tables))
    console.print(first_that_fits(console, _estimate_tables(outcome.estimates)))
    console.print("  sd: spread of the splits' scores (n-1), no interval; apparent: score on training rows.")
    if line := _baselines(outcome.estimates):
        console.print(line)
    for warning in dict.fromkeys(words for each in outcome.estimates for words in each.warnings):
        console.print(f"  {warning}", style=_STYLES["warning"], markup=False)
    for words in (optimism(outcome.estimates), resolution(outcome.estimates)):
        if words:
            console.print(f"  {words}")
    for remark in _remarks(outcome.estimates):
        console.print(f"  {remark}")
    _show_where(console, outcome.split, outcome.run_id)


def show_extension(console: Console, outcome: ExtendOutcome) -> None:
    """Print what an extension came to: rows that joined and left, and that none moved."""
    show_balance(console, outcome.balance, outcome.split, cached=False)
    console.print(
        f"  {outcome.added:,} rows added, {outcome.deleted:,} deleted, {outcome.returned:,} back, "
        f"{outcome.quarantined:,} quarantined, {outcome.moved} moved"
    )
    for note in outcome.notes:
        console.print(f"  {note}", markup=False)
    _show_where(console, outcome.split, outcome.run_id)


def show_tuning(console: Console, outcome: Tuning) -> None:
    """Print every configuration's score, the choice, and what the winner is worth without its luck."""
    names = list(outcome.configurations[0])
    table = Table(*names, outcome.metric, "sd", "", box=None)
    for number, params in enumerate(outcome.configurations):
        mark = "chosen" if number == outcome.chosen else "best mean" if number == outcome.best else ""
        values = (_number(outcome.scores[number]), _number(outcome.spreads[number]))
        table.add_row(*(str(params[name]) for name in names), *values, mark)
    console.print(table)
    console.print(
        f"  the best of {len(outcome.configurations)} scored {outcome.naive:.4f}, rows pooled, where it was chosen; "
        f"expect {outcome.value:.4f}, {in_percent(outcome.level)} [{outcome.low:.4f}, {outcome.high:.4f}] "
        "(bias-corrected)"
    )
    if outcome.nested:
        _show_nested(console, outcome.nested, outcome.metric)
    console.print(f"  {outcome.n_fits:,} fits, {outcome.n_cached:,} of them from the cache")
    _show_where(console, outcome.split, outcome.run_id)
    if outcome.look:
        show_evaluation(console, outcome.look)


def _show_nested(console: Console, nested: NestedChoice, metric: str) -> None:
    inside = next(estimate for estimate in nested.estimates if estimate.metric == metric)
    made = inside.interval
    ends = f", {in_percent(made.level)} [{made.low:.4f}, {made.high:.4f}]" if made else ""
    winners = ", ".join(f"{number + 1}" for number in nested.chosen)
    console.print(
        f"  nested: chosen anew inside the training rows of every fold, {inside.value:.4f}{ends}: what choosing so is "
        f"worth on new rows; the configurations chosen were {winners}"
    )


def show_retraining(console: Console, outcome: Retraining) -> None:
    """Print the report of a retraining."""
    console.print(Markdown(outcome.report), soft_wrap=False)  # the console's own soft wrap would cut its lines


def _fold_table(outcome: Evaluation, metrics: list[str]) -> Table:
    left = len(outcome.scores[0].test) - len(metrics)
    caption = f"and {left} more metric{'s' if left > 1 else ''}: report.html" if left else None
    table = Table("split", "train", "test", *metrics, f"apparent {metrics[0]}", box=None, caption=caption)
    for column in table.columns[1:]:
        column.justify = "right"
    for score in outcome.scores:
        values = [_number(score.test[name]) for name in metrics] + [_number(score.apparent[metrics[0]])]
        table.add_row(score.name, f"{score.n_train:,}", f"{score.n_test:,}", *values)
    return table


def _estimate_tables(estimates: list[Estimate]) -> Iterator[Table]:
    """Yield the estimates in tables of fewer and fewer columns."""
    beside = ("baseline",) if any(each.baseline for each in estimates) else ()
    for more in (("sd", "fold_mean", "apparent"), ("sd", "apparent"), ("sd",), ()):
        names = (*beside, *more)
        yield _estimate_table(estimates, names, short=False)
        if len({each.method for each in estimates}) == 1:
            yield _estimate_table(estimates, names, short=True)


def _estimate_table(estimates: list[Estimate], names: tuple[str, ...], short: bool) -> Table:
    """Return a row per estimate; ``short``: the one method of all stands at the head of the values."""
    head = ["metric", estimates[0].method] if short and estimates else ["metric", "method", "value"]
    level = next((f"{in_percent(each.interval.level)} " for each in estimates if each.interval), "")
    table = Table(*head, f"{level}interval", *names, box=None)
    for column in table.columns[len(head) - 1 :]:
        column.justify = "right"
    for each in estimates:
        low_high = f"[{_number(each.interval.low)}, {_number(each.interval.high)}]" if each.interval else "-"
        values = (_number(_figure(each, name)) for name in names)
        table.add_row(each.metric, *([] if short else [each.method]), _number(each.value), low_high, *values)
    return table


def _figure(estimate: Estimate, name: str) -> float | None:
    if name == "baseline":
        return None if estimate.baseline is None else estimate.baseline.value
    value: float | None = getattr(estimate, name)
    return value


def _baselines(estimates: list[Estimate]) -> str:
    """Return what the baselines are, in a line."""
    names = list(dict.fromkeys(each.baseline.name for each in estimates if each.baseline))
    return f"  baseline: {' or '.join(names)} for every row, learnt from the same training rows." if names else ""


def _remarks(estimates: list[Estimate]) -> list[str]:
    """Return what has to be known of the estimates, each sentence once; that sd is a spread is said in any case."""
    metrics_of: dict[str, list[str]] = {}
    for each in estimates:
        for note in (*each.notes, *(each.interval.notes if each.interval else ())):
            metrics_of.setdefault(note, []).append(each.metric)
    known = ("sd is the spread", "se = sd", "There is no se")
    return [_of(metrics, note, estimates) for note, metrics in metrics_of.items() if not note.startswith(known)]


def _of(metrics: list[str], note: str, estimates: list[Estimate]) -> str:
    """Return a note after the metrics that it is about, where these are not all and it does not name its own."""
    named = list(dict.fromkeys(metrics))
    alone = len(named) < len({each.metric for each in estimates}) and named[0] not in note
    return f"{', '.join(named)}: {note}" if alone else note


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.4f}" if abs(value) < 100 else f"{value:,.1f}"


def _show_where(console: Console, split: SplitRef, run_id: str) -> None:
    home = Home.here()
    pages = (home.path / "mlartifacts").glob(f"*/{run_id}/artifacts/**/report.html")
    page = "".join(f"  page     {_from_here(each)}\n" for each in pages)
    manifest = _from_here(Path(split.uri))
    console.print(
        f"  manifest {manifest}\n{page}  MLflow run {run_id}; to look at it:\n    {ui_command(home)}",
        markup=False,
        soft_wrap=True,
    )


def ui_command(home: Home) -> str:
    """Return the exact command that opens MLflow's pages on what was recorded."""
    mlflow = _from_here(Path(sys.prefix) / "bin" / "mlflow")
    store = f"sqlite:///{_from_here(home.path / 'mlflow.db')}" if home.tracks_here else home.tracking_uri
    return f"{mlflow} ui --backend-store-uri {store} --port 5000   # then http://127.0.0.1:5000"


def _from_here(path: Path) -> str:
    return str(path.relative_to(Path.cwd()) if path.is_relative_to(Path.cwd()) else path)


def show_leaderboard(console: Console, found: Leaderboard) -> None:
    """Print who was judged on a split, the best first, as people read scores."""
    reading = metric_of(found.metric)
    console.print(f"[bold]{found.split}[/]: split_id {found.split_id[:16]}, {reading.title}")
    table = Table("", "model", reading.title, "interval", "run", box=None)
    for place, each in enumerate(found.judgements, start=1):
        ends = sorted(reading.shown(end) for end in (each.low, each.high) if end is not None)
        interval = f"[{_number(ends[0])}, {_number(ends[1])}]" if len(ends) == 2 else "-"
        named = f"{each.model} {each.params.get('params', '')}".strip()
        table.add_row(str(place), named, _number(reading.shown(each.value)), interval, each.run_id)
    console.print(table)
    others = [name for name in found.metrics if name != found.metric]
    if others:
        console.print(f"  also scored by {', '.join(others)}: --metric", markup=False)


_STYLES = {"error": "bold red", "warning": "yellow", "note": ""}


class Joined(BaseModel):
    """Rows that were written for one side of one split."""

    model_config = ConfigDict(frozen=True)

    path: str
    rows: int
    fold: int
    repeat: int
    role: str


class Imported(BaseModel):
    """A manifest that was made of folds decided elsewhere."""

    model_config = ConfigDict(frozen=True, extra="allow")

    name: str
    version: str
    strategy: str
    n_rows: int
    n_splits: int
    split_id: str
    uri: str


def show_audit(console: Console, made: Audit) -> None:
    """Print every finding, errors first, then how many checks passed and which were not asked."""
    features = ", ".join(made.features) or "none"
    _say(console, f"{made.name} {made.version}: {made.n_rows:,} rows; features: {features}")
    for each in made.findings:
        mark = "failed " if each.gate == "failed" else each.severity
        console.print(f"  {mark:8} {each.check}: {each.message}", style=_STYLES[each.severity], markup=False)
    for each in made.ignored:
        _say(console, f"  ignored  {each.code} {each.check}: {each.message} Reason: {each.reason}")
    _say(console, f"  {len(made.passed)} checks passed{'' if made.findings else ', nothing was found'}")
    for name, reason in made.not_asked.items():
        _say(console, f"  not asked {name}: {reason}")
    if made.off:
        _say(console, f"  off: {', '.join(made.off)}")


def show_verification(console: Console, found: Verification) -> None:
    """Print what is damaged, or what was proved."""
    _say(console, f"{found.folder}: {'intact' if found.intact else 'damaged'}")
    for damage in found.damages:
        console.print(f"  damaged  {damage.message}", style=_STYLES["error"], markup=False)
    for line in found.proved:
        _say(console, f"  proved   {line}")
    for line in found.not_proved:
        _say(console, f"  not proved: {line}")


def show_difference(console: Console, found: Difference) -> None:
    """Print which rows went where and which fields differ."""
    _say(console, f"{found.a} -> {found.b}: {'the same split' if found.same else 'another split'}")
    for line in found.sentences:
        _say(console, f"  {line}")


def show_export(console: Console, made: Exported) -> None:
    """Print what was written and how it is read."""
    _say(console, f"{made.path}: {made.rows:,} rows; {made.note}")


def show_join(console: Console, made: Joined) -> None:
    """Print what was written."""
    of = f" of repeat {made.repeat}" if made.repeat else ""
    _say(console, f"{made.path}: the {made.rows:,} rows that fold {made.fold}{of} has for {made.role}")


def show_import(console: Console, made: Imported) -> None:
    """Print the identity of the manifest and where it lies."""
    _say(console, f"{made.name} {made.version}: {made.strategy}, {made.n_rows:,} rows, {made.n_splits:,} splits")
    _say(console, f"  split_id {made.split_id[:16]}\n  manifest {made.uri}")


def _say(console: Console, text: str) -> None:
    console.print(text, markup=False)


SHOWN = {
    "split": show_split,
    "evaluate": show_evaluation,
    "tune": show_tuning,
    "extend": show_extension,
    "retrain": show_retraining,
}
