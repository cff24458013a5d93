"""The task that records a split. Idempotent, and never cached."""

from __future__ import annotations

from functools import partial

from evenfold.estimates import EvaluationError
from evenfold.manifests import BalanceReport, digest_json, measure
from evenfold.manifests.exchange.export import sides_of
from evenfold.reports.pictures import split_pages
from evenfold.reports.texts import figures_table, page_note, places_table
from evenfold.splitters.importing import installed
from evenfold.tasks.audits import audit_of
from evenfold.tasks.outcomes import RunRef, SplitRef
from evenfold.tasks.parameters import Memory
from evenfold.tasks.plans import stamp, table_of
from evenfold.tasks.runtime.home import Home, Settings
from evenfold.tasks.steps.running import publish
from evenfold.tasks.steps.step import is_refreshing, step

from .entries import MOST_FOLDS, split_entry, split_key
from .links import data_input, origin_tags, run_page, runs_on, server_of, split_input
from .seen import see_complete, seen_complete
from .tracker import CONTENT, NOTE, Tracker, tracker_of

SPLIT_FILES = {"report.html", "manifest.json"}
MOST_SIDES = 20_000_000  # of rows by draws, for a table that is read without evenfold


def balance_of(split: SplitRef, memory: str | None = None) -> BalanceReport:
    """Return how evenly the table's rows were split; SplitError where they take more than ``memory``."""
    data = split.data if split.rows == "all" else None  # of the manifest's own rows
    return measure(split.stored(), data, memory=Settings.memory_of(memory))


@step(run_name=lambda split, **_: f"record the split {split.name}")
def record_split(split: SplitRef, report: BalanceReport | None = None, *, memory: Memory = None) -> RunRef:
    """Record a split as a run ``<name> <version> split`` with its manifest, balance, audit and page.

    A record that is complete, of the same file and the same balance, is not made again. Raises EvaluationError for the
    balance of another split, and SplitError for a split that names no table, or whose rows take more than ``memory``.
    """
    table_of(split)  # which says what is no split
    if report is not None and report.split_id != split.split_id:
        raise EvaluationError(
            f"the balance is of {report.n_splits:,} splits of {report.n_rows:,} rows, and of another split than "
            f"{split.name} {split.version} with its {split.n_splits:,} of {split.n_rows:,}; leave it out, and it is "
            "measured."
        )
    measured = report or balance_of(split, memory)
    limit = Settings.memory_of(memory) or ""
    rules = [] if split.gates is None else [dict(split.gates), split.ignore]
    whole = [measured.model_dump(mode="json"), split.uri, str(stamp(split.data)), installed("evenfold"), *rules]
    content = digest_json(whole)
    run_id = seen_complete(Home.here(), content, is_refreshing())
    if run_id is None:
        run_id = _write_split(split, measured, content, limit)
        see_complete(split, (content,), run_id, (f"split/{name}" for name in SPLIT_FILES))
    return run_ref(split, run_id)


def _write_split(split: SplitRef, report: BalanceReport, content: str, memory: str) -> str:
    """Write the run of a split and return it; a record that is complete and of the same content is not made again."""
    tracker, tags = tracker_of(split), origin_tags()
    entry = split_entry(split, report, tags)
    earlier = None if is_refreshing() else tracker.complete(entry.key, content, SPLIT_FILES, "split")
    if earlier is not None:
        tracker.tell(earlier, {**tags, "evenfold.record": "split"})  # also one that was withdrawn
        return earlier
    with tracker.run(entry) as run_id:
        audited = partial(audit_of, split, memory=memory or None)
        pages = split_pages(str(split.folder), report, split.data, run_id, memory or None, audited)
        tracker.client.log_artifacts(run_id, str(split.folder), "split")
        beside = {"balance.json": report.model_dump(mode="json")} | pages.files
        files = {f"split/{name}": value for name, value in beside.items()}
        if split.kind == "draws" and split.n_rows * split.n_splits <= MOST_SIDES:
            files["sides.parquet"] = sides_of(split.manifest()).to_pandas()
        tracker.keep(run_id, files)
        reads = split_input(split, run_id, report, pages.audit)
        tracker.reads(run_id, data_input(split, split.stored().fingerprint, "training"), reads)
        links = {
            "The split's page": run_page(tracker.experiment_id, run_id, "artifacts/split/report.html"),
            "Every run on this split": runs_on(tracker.experiment_id, split.split_id),
        }
        note = page_note(pages.page, links, figures_table(report), places_table(report))
        tracker.tell(run_id, {"evenfold.split_run_id": run_id, NOTE: note, CONTENT: content})
    run, places = run_ref(split, run_id), places_table(report, MOST_FOLDS)
    top = f"# {split.name} {split.version}: {split.strategy}\n\n`split_id {split.split_id}`"
    text = page_note(pages.page, {f"Run {run_id} in MLflow": run.url}, figures_table(report), places)
    publish(f"split-{split.name}", f"{top}\n\n{text}", f"What the newest split of {split.name} is, and how even.")
    rows = [dict(zip(places.head, row, strict=True)) for row in places.rows]
    publish(f"balance-{split.name}", rows, f"Rows of each fold and part, {split.name}.")
    return run_id


def split_run_of(split: SplitRef) -> str:
    """Return the run that records a split, which is recorded where it is not yet."""
    run = tracker_of(split).find(split_key(split))
    return str(run.info.run_id) if run else record_split.fn(split).run_id


def run_ref(split: SplitRef, run_id: str) -> RunRef:
    """Return a run with its page, where a server is known that shows it."""
    home = Home.here()
    server = server_of(home)
    if not server:
        return RunRef(run_id=run_id)
    return RunRef(run_id=run_id, url=run_page(Tracker(home, split.name).experiment_id, run_id, server=server))


def split_page_from(split: SplitRef, split_run: str) -> str:
    """Return where the split's page lies, seen from that of an evaluation; nothing where no server shows it."""
    home = Home.here()
    if home.tracks_here:  # beside it on disk, where pages are opened from
        return f"../../{split_run}/artifacts/split/report.html"
    server = server_of(home)
    experiment = Tracker(home, split.name).experiment_id
    return run_page(experiment, split_run, "artifacts/split/report.html", server) if server else ""
