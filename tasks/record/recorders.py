"""What is written into MLflow, and when it need not be asked whether it is there."""

from __future__ import annotations

import json
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import replace
from functools import partial
from importlib.metadata import version

import pandas as pd
from evenfold.manifests import BalanceReport, digest_json
from evenfold.reports.markdown import balance_table, figures_table, linked, page_note
from evenfold.reports.pictures import split_pages
from evenfold.tasks.audits import audit_of
from evenfold.tasks.outcomes import SplitRef
from evenfold.tasks.runtime.files import write_aside
from evenfold.tasks.runtime.home import Home
from evenfold.tasks.scores import frame_of
from evenfold.tasks.splits import stamp
from evenfold.tasks.steps.step import is_refreshing

from .datasets import data_input, split_input
from .entries import (
    MOST_FOLDS,
    PARTIAL,
    Entry,
    EvaluationRecord,
    child_entry,
    evaluation_entry,
    run_key,
    split_entry,
    split_tags,
)
from .leaderboard import list_evaluations
from .links import run_page, runs_on
from .models.signatures import RECIPE, keep_recipe
from .tracker import CONTENT, NOTE, Tracker, keep_model_of, tracker_of

SEEN = "recorded.json"
SPLIT_FILES = {"report.html", "manifest.json"}


def seen_complete(home: Home, content: str) -> str | None:
    """Return the run that holds a record of ``content``, complete with its files; None where MLflow has to be asked.

    It need not be asked about the home's own store where nothing has been written there since it was seen: a person
    who evaluates the same again waits two seconds less, for MLflow is not even imported.
    """
    store, records = _seen(home)
    run_id, *files = records.get(content, [""])
    fresh = home.tracks_here and not is_refreshing() and store and store == _state_of_store(home)
    return run_id if fresh and run_id and all((home.path / file).is_file() for file in files) else None


def see_complete(split: SplitRef, content: str, run_id: str, files: Iterable[str], split_run: str = "") -> None:
    """Remember that a run which was just written or looked at is complete, and the split's run that it rests on."""
    home = Home.here()
    if not home.tracks_here:
        return
    store, place = _state_of_store(home), f"mlartifacts/{split.name}/{run_id}/artifacts"
    records = {content: [run_id, *(f"{place}/{file}" for file in files)]}
    # Somebody may have deleted it while models were fitted: it is looked at again, after the state was taken.
    run = tracker_of(split).client.get_run(split_run).info if split_run else None
    if run is not None and (run.status, run.lifecycle_stage) == ("FINISHED", "active"):
        records |= {key: seen for key, seen in _seen(home)[1].items() if seen[0] == split_run}
    write_aside(home.path / SEEN, lambda aside: aside.write_text(json.dumps([store, records]), encoding="utf-8"))


def _seen(home: Home) -> tuple[list[int], dict[str, list[str]]]:
    """Return the state of the home's store when it was last looked at, and the records that were complete then."""
    with suppress(OSError, ValueError):
        store, records = json.loads((home.path / SEEN).read_bytes())
        return list(store), dict(records)
    return [], {}


def _state_of_store(home: Home) -> list[int]:
    """Return what changes with whatever is written to the home's own store, and beside it while that is under way."""
    with suppress(OSError):  # of a journal that is gone by now
        states = [file.stat() for file in sorted(home.path.glob("mlflow.db*"))]
        return [number for state in states for number in (state.st_ctime_ns, state.st_size)]
    return []


def split_content(split: SplitRef, report: BalanceReport) -> str:
    """Return the digest of all that a split's record is made of."""
    asked = [] if split.gates is None else [dict(split.gates), split.ignore]
    return digest_json([report.model_dump(mode="json"), split.uri, str(stamp(split.data)), version("evenfold"), *asked])


def write_split(
    split: SplitRef, report: BalanceReport, fingerprint: str, tags: dict[str, str], memory: str = ""
) -> str:
    """Record a split and return its run; a record that is complete and of the same content is not made again."""
    tracker, entry = tracker_of(split), split_entry(split, report, tags)
    content = split_content(split, report)
    known = None if is_refreshing() else tracker.complete(entry.key, content, SPLIT_FILES, "split")
    if known is not None:
        tracker.tell(known, {**tags, "evenfold.record": "split"})  # also one that was withdrawn
        return known
    with tracker.run(entry) as run_id:
        shown = split_pages(
            str(split.folder),
            report,
            split.data,
            run_id,
            memory or None,
            partial(audit_of, split, memory=memory or None),
        )
        tracker.keep(run_id, "split", split.folder)
        list_evaluations(tracker, split, run_id)
        tracker.keep(run_id, "split/balance.json", report.model_dump(mode="json"))
        for name, file in shown.files.items():
            tracker.keep(run_id, f"split/{name}", file)
        reads = split_input(split, run_id, report, shown.audit)
        tracker.reads(run_id, data_input(split, fingerprint, "training"), reads)
        links = {
            "The split's page": run_page(tracker.experiment_id, run_id, "artifacts/split/report.html"),
            "Every run on this split": runs_on(tracker.experiment_id, split.split_id),
        }
        note = page_note(shown.page, links, figures_table(report), balance_table(report))
        tracker.tell(run_id, {"evenfold.split_run_id": run_id, NOTE: note, CONTENT: content})
    return run_id


def write_evaluation(split: SplitRef, evaluation: EvaluationRecord, tags: dict[str, str]) -> str:
    """Record an evaluation and return its run, which is found by its key."""
    tracker, split_run = tracker_of(split), evaluation.split_run_id
    shared = split_tags(split) | {"evenfold.split_run_id": split_run} | tags
    if PARTIAL in evaluation.tags and _is_whole(tracker, evaluation.key):
        evaluation = replace(evaluation, key=run_key(kind="partial", of=evaluation.key))
    with tracker.run(evaluation_entry(evaluation, split, shared)) as run_id:
        tracker.reads(run_id, data_input(split, evaluation.fingerprint, "training"), split_input(split, split_run))
        _keep_folds(tracker, run_id, split, evaluation)
        keep_model_of(tracker, run_id, evaluation.models.get("all rows"), evaluation.model["estimator"])
        tables = {name: files for name, files in evaluation.tables.items() if files}
        digests = {name: tracker.keep_table(run_id, name, frame_of(files)) for name, files in tables.items()}
        for name, value in evaluation.artifacts.items():
            if name == RECIPE:
                keep_recipe(tracker, run_id, value, sha256=digests)
            else:
                tracker.keep(run_id, name, value)
        if evaluation.note:
            links = {
                "The evaluation's page": run_page(tracker.experiment_id, run_id, "artifacts/report.html"),
                f"Its split, {split.name} {split.version}": run_page(tracker.experiment_id, split_run),
                "Every run on this split": runs_on(tracker.experiment_id, split.split_id),
            }
            lead, _, rest = evaluation.note.partition("\n\n")  # the links were not known when it was written
            tracker.tell(run_id, {NOTE: f"{lead}\n\n{linked(links)}\n\n{rest}"})
    list_evaluations(tracker, split, split_run)
    if evaluation.failure:
        tracker.fail(run_id, evaluation.failure)
    return run_id


def _is_whole(tracker: Tracker, key: str) -> bool:
    """Return whether the run that ``key`` names is complete and of every split: what is partial is not put over it."""
    known = tracker.find(key)
    run = tracker.client.get_run(known) if known else None
    return run is not None and run.info.status == "FINISHED" and PARTIAL not in run.data.tags


def _keep_folds(tracker: Tracker, run_id: str, split: SplitRef, evaluation: EvaluationRecord) -> None:
    """Give each of up to 100 folds a run below the evaluation's; of more, keep one table of their scores."""
    if split.kind == "draws" or not evaluation.children:
        return
    if len(evaluation.children) > MOST_FOLDS:
        flat = [{name: getattr(score, name) for name in ("name", "repeat", "fold", "n_train", "n_test", "seconds_fit")}
                | score.test | {f"apparent {name}": value for name, value in score.apparent.items()}
                for score in evaluation.children]  # fmt: skip
        tracker.keep_table(run_id, "scores.parquet", pd.DataFrame(flat))
        return
    for score in evaluation.children:
        with tracker.run(child_entry(evaluation, split, score), parent=run_id) as child:
            keep_model_of(tracker, child, evaluation.models.get(score.name), evaluation.model["estimator"])


def record_finding(
    experiment: str,
    name: str,
    kind: str,
    about: dict[str, str],
    page: str,
    note: str,
    tables: dict[str, object],
    tags: dict[str, str],
    metrics: dict[str, float],
) -> str:
    """Record a page as a run of its own and return its id; the same ``kind`` and ``about`` find the same run."""
    tracker = Tracker(Home.here(), experiment)
    entry = Entry(
        key=run_key(kind=kind, name=name, **about),
        name=name,
        tags=tags | {"evenfold.record": kind},
        params=about,
        metrics=metrics,
    )
    with tracker.run(entry) as run_id:
        tracker.keep(run_id, "report.html", page)
        for file, value in tables.items():
            tracker.keep(run_id, file, value)
        link = run_page(tracker.experiment_id, run_id, "artifacts/report.html")
        tracker.tell(run_id, {NOTE: f"{note}\n\n{linked({'The page': link})}"})
    return run_id
