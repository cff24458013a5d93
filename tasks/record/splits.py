"""The record of a split, read back too; and what runs say of it: pages, who made them, the data and split they read."""

from __future__ import annotations

import json
import os
import re
import shlex
import sys
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from evenfold.estimates import EvaluationError
from evenfold.manifests import Audit, BalanceReport, Manifest, digest_json, measure, read_manifest, source_of
from evenfold.manifests.audits.sample import types_in
from evenfold.manifests.exchange.export import sides_of
from evenfold.manifests.joined import Joined
from evenfold.manifests.spec import name_like
from evenfold.manifests.store.header import VERSION
from evenfold.manifests.store.stored import in_memory, settle
from evenfold.manifests.store.versions import SHORT_ID, version_in, versions_of
from evenfold.manifests.tables.canonical import listed
from evenfold.manifests.tables.keys import WhichRows
from evenfold.manifests.tables.read import from_anywhere, stamp
from evenfold.reports import Origin, Page, verdict_of
from evenfold.reports.splits.data import split_data
from evenfold.reports.splits.page import split_page
from evenfold.reports.splits.pictures import split_pictures
from evenfold.reports.texts import noted_places, page_note
from evenfold.splitters.errors import SplitError, redacted
from evenfold.splitters.naming import installed
from evenfold.tasks.outcomes import RunRef, SplitRef
from evenfold.tasks.parameters import Data, Memory
from evenfold.tasks.plans import table_of
from evenfold.tasks.record.entries import MOST_FOLDS, SHORT, split_entry, split_key
from evenfold.tasks.record.tracker import CONTENT, NOTE, Tracker, active_run, made_once, tracker_of
from evenfold.tasks.references import OfSplit, manifest_folder
from evenfold.tasks.runtime.home import Home, Settings, data_reference
from evenfold.tasks.runtime.progress import CALLED_WITH
from evenfold.tasks.splits import audit_split
from evenfold.tasks.steps import finished_here, flow_run_tags, is_refreshing, publish, step
from prefect.context import FlowRunContext
from prefect.runtime import flow_run

if TYPE_CHECKING:
    from mlflow.entities import DatasetInput, Run

TRAINING = "workflowType=machine_learning"  # else MLflow opens its page for language models


def run_page(experiment_id: str, run_id: str, below: str = "", server: str = "") -> str:
    """Return the address of a run, or of what lies ``below`` it; without a ``server`` for pages of the same store."""
    return f"{server}#/experiments/{experiment_id}/runs/{run_id}{'/' if below else ''}{below}?{TRAINING}"


def links_of(
    tracker: Tracker, run_id: str, title: str, split: SplitRef, page: str = "report.html", split_run: str = ""
) -> dict[str, str]:
    """Return links to the page of a run, its split's run if that is another, and every run on it, for a description."""
    place, query = tracker.experiment_id, quote(f'tags.split="{split.split_id[:SHORT]}"')
    links = {title: run_page(place, run_id, f"artifacts/{page}")}
    links |= {f"Its split, {split.name} {split.version}": run_page(place, split_run)} if split_run else {}
    return links | {"Every run on this split": f"#/experiments/{place}/runs?searchFilter={query}&{TRAINING}"}


def origin_tags() -> dict[str, str]:
    """Return who made a record and by which command, the flow run that did, and the user's run it was made in."""
    source = {"mlflow.user": Settings.here().person, "mlflow.source.name": command()}
    inside = {"mlflow.parentRunId": run.info.run_id} if (run := active_run(Home.here())) else {}
    return source | {"mlflow.source.type": "LOCAL"} | flow_run_tags() | inside


def command() -> str:
    """Return what was called: the command line, the deployed flow, or the script; passwords in it are left out."""
    if CALLED_WITH:  # not what a script of the user's was called with, which may hold anything
        # Without folders: MLflow's page shows what follows the last slash.
        return re.sub(r"[^\s=']*/", "", redacted(f"evenfold {shlex.join(CALLED_WITH)}"))[:500]
    run, program = FlowRunContext.get(), Path(sys.argv[0]).name
    if run and run.flow_run and run.flow_run.deployment_id:  # for the runtime's deployment.id asks the server each time
        return f"deployment of {flow_run.flow_name}"
    return {"": "python", "-c": "python", "ipykernel_launcher.py": "notebook"}.get(program, program)


def data_input(split: SplitRef, digest: str, context: str) -> DatasetInput:
    """Return the data by our own digest (MLflow's is of 10,000 rows), with all columns or those that the split read."""
    uri, types, source = redacted(split.data), split.stored().types, source_of(split.data)
    if source.n_rows is not None:
        types = dict.fromkeys(source.schema.names, "text") | types_in(source.schema)  # of lists, say, none is known
    return _input(context, Path(uri).name[:500], digest, "local", {"uri": uri}, types, {"rows": split.n_rows})


def log_inputs(
    tracker: Tracker, run_id: str, split: SplitRef, split_run: str, fingerprint: str = "", context: str = "training",
    report: BalanceReport | None = None, audit: Audit | None = None,
) -> None:  # fmt: skip
    """Log the data and the split that a run read; ``fingerprint``: of the data, else of what the split read.

    Of a split MLflow keeps what is told first: by its own record, with its ``report`` and ``audit``.
    """
    manifest, uri = split.stored(), f"evenfold://{split.name}/{split.version}"
    source = {"uri": uri, "split_id": split.split_id, "artifact": f"runs:/{split_run}/split"}
    profile: dict[str, object] = {"rows": split.n_rows, "splits": split.n_splits, "strategy": split.strategy}
    profile |= {"generation": manifest.generation} | ({} if report is None else {"worst": report.worst})
    if audit is not None:
        profile["audit"] = {"verdict": verdict_of(None, audit).word, "passed": len(audit.passed), **audit.counts}
    types = {name: manifest.types[name] for name in manifest.spec.key_names if name in manifest.types}
    types["fold"], name = "int", f"{split.name}@{split.version}"
    folds = _input("split", name, split.split_id, "evenfold_split", source, types, profile)
    data = data_input(split, fingerprint or manifest.fingerprint, context)
    tracker.client.log_inputs(run_id, datasets=[data, folds])


def _input(
    context: str, name: str, digest: str, kind: str, source: object, types: dict[str, str], profile: object
) -> DatasetInput:
    from mlflow.entities import Dataset, DatasetInput, InputTag

    theirs = {"int": "long", "float": "double", "text": "string", "bool": "boolean"}  # all others are times
    columns = [{"name": column, "type": theirs.get(of, "datetime"), "required": False} for column, of in types.items()]
    schema = json.dumps({"mlflow_colspec": columns})
    # A digest is as long as MLflow keeps one.
    dataset = Dataset(name, digest[:32], kind, json.dumps(source), schema, json.dumps(profile))
    return DatasetInput(dataset, [InputTag("mlflow.data.context", context)])


def balance_of(split: SplitRef, memory: str | None = None) -> BalanceReport:
    """Return how evenly the table's rows were split; SplitError where they take more than ``memory``."""
    data = split.data if split.rows == "all" else None  # of the manifest's own rows
    return measure(split.stored(), data, memory=Settings.memory_of(memory))


@step(run_name=lambda split, **_: f"record the split {split.name}")
def record_split(split: SplitRef, report: BalanceReport | None = None, *, memory: Memory = None) -> RunRef:
    """Record a split as a run ``<name> <version> split`` with its manifest, balance, audit and page.

    A complete record of the same file and balance is not made again. Raises EvaluationError for the balance of another
    split, and SplitError for a split that names no table, or whose rows take more than ``memory``.
    """
    table_of(split)  # which says what is no split
    measured = report or balance_of(split, memory)
    if measured.split_id != split.split_id:
        raise EvaluationError(
            f"the balance is of {measured.n_splits:,} splits of {measured.n_rows:,} rows, not of {split.name} "
            f"{split.version} with its {split.n_splits:,} of {split.n_rows:,}; leave it out: it is measured."
        )
    rules = [] if split.gates is None else [dict(split.gates), split.ignore]
    whole = [measured.model_dump(mode="json"), split.uri, str(stamp(split.data)), installed("evenfold"), *rules]
    content = digest_json(whole)

    def write(tracker: Tracker, _: Run | None) -> str:
        with tracker.run(split_entry(split, measured, origin_tags() | {CONTENT: content})) as run_id:
            page = _fill(tracker, run_id, split, measured, Settings.memory_of(memory))
        places, links = noted_places(measured, MOST_FOLDS), {f"Run {run_id} in MLflow": page_on_server(split, run_id)}
        top = f"# {split.name} {split.version}: {split.strategy}\n\n`split_id {split.split_id}`"
        text = f"{top}\n\n{page_note(page, links, places)}"
        publish(f"split-{split.name}", text, f"What the newest split of {split.name} is, and how even.")
        rows = [dict[str, object](zip(places.head, map(str, row), strict=True)) for row in places.rows]
        publish(f"balance-{split.name}", rows, f"Rows of each fold and part, {split.name}.")
        return run_id

    run_id, _ = made_once(split, split_key(split), content, "split/manifest.json", write, is_refreshing())
    return RunRef(run_id=run_id, url=page_on_server(split, run_id))


def _fill(tracker: Tracker, run_id: str, split: SplitRef, report: BalanceReport, memory: str | None) -> Page:
    """Keep in the run of a split its manifest, what lies beside it, and its data; return its page."""
    manifest = in_memory(split.stored(), memory)
    # One that grew by a batch lacks its older rows: the balance has no target, and nothing of rows can be shown.
    is_complete = report.target is not None or (manifest.spec.columns.target is None and manifest.generation == 0)
    audit = finished_here(audit_split, split, memory=memory).value if is_complete else None
    seen = split_data(manifest, report, Joined.of(manifest, split.data) if is_complete else None)
    page = split_page(seen, audit, Origin(Path(split.data).name, run_id))
    links = links_of(tracker, run_id, "The split's page", split, "split/report.html")
    note = page_note(page, links, noted_places(report))
    tracker.tell(run_id, {"evenfold.split_run_id": run_id, NOTE: note})
    files: dict[str, object] = {"split/balance.json": report.model_dump(mode="json"), "split/report.html": page.html()}
    files |= {f"split/{name}.svg": picture.file() for name, picture in split_pictures(seen).items()}
    if audit is not None:
        files["split/audit.json"] = audit.model_dump(mode="json")
    if split.kind == "draws" and split.n_rows * split.n_splits <= 20_000_000:  # read without evenfold
        files["sides.parquet"] = sides_of(split.manifest()).to_pandas()
    tracker.client.log_artifacts(run_id, str(split.folder), "split")
    tracker.keep(run_id, files)
    log_inputs(tracker, run_id, split, run_id, report=report, audit=audit)
    return page


def split_run_of(split: SplitRef) -> str:
    """Return the run that records a split, which is recorded where it is not yet, or where that broke off."""
    run = tracker_of(split).find(split_key(split))
    return str(run.info.run_id) if run and run.info.status == "FINISHED" else record_split.fn(split).run_id


def page_on_server(on: SplitRef | str, run_id: str, below: str = "") -> str:
    """Return the address of a run on a split or in an experiment, or of what is ``below``; nothing without a server."""
    server = Home.here().tracking_uri.rstrip("/")
    if not server.startswith("http"):
        return ""
    return run_page(on if isinstance(on, str) else tracker_of(on).experiment_id, run_id, below, f"{server}/")


def read_split(reference: Any, home: Home | None = None) -> Manifest:
    """Return the manifest of ``reference``: ``name@1.1``, a name for its newest, or how a split_id or plan_id begins.

    A folder, a manifest, and what tasks and flows return of a split are taken as they are. A name is looked for below
    the home first, then in MLflow, whose artifacts are downloaded to the home's own splits, and proved by the split_id.
    Raises SplitError where there is none, and for what names several splits that the home has not.
    """
    home = home or Home.here()
    if not isinstance(reference, str) or os.path.exists(os.path.join(reference, "manifest.json")):
        return reference if isinstance(reference, Manifest) else read_manifest(reference)
    name, at, version = reference.partition("@")
    is_name = name == name_like(name)
    here = versions_of(home.splits, name) if is_name else {}
    if version in here:
        return read_manifest(here[version])
    if not here:
        home.require_record()
    runs = _recorded(home, "spec", f"{name}@") if is_name else []
    versions = sorted({*here, *(_spec_in(run).rpartition("@")[2] for run in runs)}, key=version_in)
    wanted = version if at or not versions else versions[-1]
    if wanted in here:
        return read_manifest(here[wanted])
    runs = [run for run in runs if _spec_in(run) == f"{name}@{wanted}"]
    if not runs and len(reference) >= 8 and SHORT_ID.fullmatch(reference):
        runs = [run for tag in ("split_id", "plan_id") for run in _recorded(home, tag, reference)]
    if not runs:
        instead = f"; {name} has {listed(versions)}" if versions else ""
        raise SplitError(f"there is no split {reference!r} in {home.tracking_uri} or below {home.splits}{instead}.")
    splits = {run.data.tags["evenfold.split_id"]: run for run in reversed(runs)}
    if len(splits) > 1:
        names = listed(sorted(f"{_spec_in(run)} {split_id[:16]}" for split_id, run in splits.items()))
        raise SplitError(
            f"{reference[:16]} names {len(splits)} splits in {home.tracking_uri} ({names}), of several projects, or "
            "decided with parts in other orders or by other code; load one by its split_id."
        )
    return _download(runs[0], home)


@step(run_name=lambda reference, **_: f"load {reference}")
def load_split(
    reference: Manifest | SplitRef | OfSplit | str, data: Data | None = None, rows: WhichRows = "all"
) -> SplitRef:
    """Find a split that any project recorded in MLflow, download its manifest, check it, and return what names it.

    ``reference``: as in ``read_split``. ``data``: the table that models read. SplitError where there is none, and where
    the data lack rows of it or hold others; with ``rows="known"`` these are left out, and a warning counts them.
    """
    manifest = read_manifest(manifest_folder(reference)) if isinstance(reference, Manifest) else read_split(reference)
    path = "" if data is None else from_anywhere(data_reference(data, Home.here()))
    if path:
        manifest.positions(path, rows)
    return SplitRef.of(manifest, path, True).model_copy(update={"rows": rows})


def _recorded(home: Home, tag: str, start: str) -> list[Run]:
    """Return the runs that record splits of which a tag begins so, the newest first; to LIKE, _ is any letter."""
    if not home.is_recorded:  # looking makes no store
        return []
    runs = Tracker(home).runs(f"tags.`evenfold.{tag}` LIKE '{start}%' AND tags.`evenfold.record` = 'split'")
    return [run for run in runs if run.data.tags[f"evenfold.{tag}"].startswith(start) and _spec_in(run)]


def _spec_in(run: Run) -> str:
    """Return NAME@VERSION of a run's split, a folder's name; empty where its tags, which others may edit, have none."""
    spec = str(run.data.tags.get("evenfold.spec", ""))
    name, _, version = spec.partition("@")
    is_name, is_id = name == name_like(name), re.fullmatch("[0-9a-f]{64}", run.data.tags.get("evenfold.split_id", ""))
    return spec if name and is_name and is_id and VERSION.fullmatch(version) else ""


def _download(run: Run, home: Home) -> Manifest:
    """Return the split that a run holds, in its place once it was proved to be of that id, name and version."""
    split_id, (name, _, version) = run.data.tags["evenfold.split_id"], _spec_in(run).partition("@")
    # Where this home has another split of that name and version, or a damaged one, what is loaded lies apart.
    for place in (home.splits / name / version, home.path / "fetched" / split_id / name / version):
        with suppress(ValueError, OSError):
            if (held := read_manifest(place)).split_id == split_id:
                return held
        if not place.exists():
            break
    place.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=place.parent) as folder:
        fetched, whole = Tracker(home).fetch(run.info.run_id, "split", Path(folder)), False
        with suppress(ValueError, OSError):
            manifest = read_manifest(fetched)
            whole = (manifest.split_id, manifest.name, manifest.version) == (split_id, name, version)
        if not whole:
            raise SplitError(
                f"what MLflow keeps in run {run.info.run_id} is not the split {split_id[:16]} that it was recorded as; "
                "its artifacts were changed."
            )
        settle(fetched, place)
    return read_manifest(place)
