"""The tasks that record a split and an evaluation. Idempotent, never cached, and an outage costs nothing but time."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

import pandas as pd
from evenfold.estimates import FoldScore
from evenfold.manifests import BalanceReport, measure, read_table
from evenfold.reports import Origin, SplitLink, evaluation_html
from evenfold.reports.pictures import pictures_of, scores_figures, split_note
from evenfold.tasks.outcomes import Evaluated, FinalModel, RunRef, SplitRef
from evenfold.tasks.runtime.home import Home
from evenfold.tasks.runtime.step import flow_run_tags, step
from evenfold.tasks.scores import frame_of
from evenfold.tasks.splits import audit_of
from evenfold.tasks.work import Work, kept_study, work_of
from prefect.artifacts import create_markdown_artifact
from prefect.context import TaskRunContext

from .datasets import data_input, split_input
from .entries import (
    EvaluationRecord,
    KeptModel,
    child_entry,
    evaluation_entry,
    run_key,
    split_entry,
    split_key,
    split_tags,
)
from .spool import survives_outage
from .tracker import Tracker, keep_model_of, tracker_of


def balance_of(split: SplitRef) -> BalanceReport:
    """Return how evenly the table's rows were split."""
    manifest = split.manifest()
    return measure(manifest, read_table(split.data, types=manifest.spec.types))


@step(run_name=lambda split, **_: f"record split {split.name}")
def record_split(split: SplitRef, report: BalanceReport | None = None) -> RunRef:
    """Record a split as a run ``split/<name> v<version>`` with its manifest, balance, audit and page."""
    measured = report or balance_of(split)
    run_id = _record_split(split, measured, split.manifest().fingerprint, flow_run_tags())
    if TaskRunContext.get() is not None:
        create_markdown_artifact(
            split_note(split.model_dump(), measured, run_id), key=_artifact_key(f"split {split.name}")
        )
    return _ref(split, run_id)


def _artifact_key(name: str) -> str:
    return re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")


def _ref(split: SplitRef, run_id: str) -> RunRef:
    home = Home.here()
    uri = home.tracking_uri.rstrip("/")
    if not uri.startswith("http") or run_id.startswith("("):
        return RunRef(run_id=run_id)
    return RunRef(run_id=run_id, url=f"{uri}/#/experiments/{Tracker(home, split.name).experiment_id}/runs/{run_id}")


def _recorded_split(split: SplitRef, report: BalanceReport, fingerprint: str, tags: dict[str, str]) -> str:
    tracker = tracker_of(split)
    with tracker.run(split_entry(split, report, tags)) as run_id:
        tracker.client.set_tag(run_id, "evenfold.split_run_id", run_id)
        tracker.keep(run_id, "split", Path(split.uri))
        tracker.keep(run_id, "split/balance.json", report.model_dump(mode="json"))
        told, found = report.model_dump(mode="json"), partial(audit_of, split)
        for name, picture in pictures_of(split.uri, told, split.data, run_id, found).items():
            tracker.keep(run_id, f"split/{name}", picture)
        tracker.reads(run_id, data_input(split, fingerprint, "training"), split_input(split, run_id, report))
    return run_id


_recorded_split.__name__ = "record_split"  # as records that wait for a server name it
_record_split = survives_outage(_recorded_split)


def failure_of(errors: Sequence[str], n_splits: int) -> str:
    """Return why there is no estimate, in a sentence."""
    kinds: dict[str, list[str]] = {}  # the same but for numbers is told once
    for error in errors:
        kinds.setdefault(re.sub(r"\d[\d,.]*", "0", error), []).append(error.removesuffix("."))
    sentences = [alike[0] + (f" ({len(alike) - 1} more alike)" if len(alike) > 1 else "") for alike in kinds.values()]
    return f"{len(errors)} of {max(n_splits, len(errors))} fits failed: {'; '.join(sentences[:3])}."


@step(run_name=lambda split, **_: f"record evaluation on {split.name}")
def record_evaluation(
    split: SplitRef,
    evaluation: Evaluated,
    *,
    split_run_id: str = "",
    run_label: str = "",
    n_cached: int = 0,
    models: dict[str, FinalModel] | None = None,
) -> RunRef:
    """Record an evaluation as a run ``evaluate/<model>`` with estimates, predictions and its page, a child per fold.

    The split is recorded too where it is not yet. Where fits failed and nothing was aggregated, the run is FAILED
    with the reason, and the finished folds are kept. ``run_label``: another makes another run of the same evaluation.
    """
    split_run = split_run_id or Tracker(Home.here(), split.name).find(split_key(split)) or record_split.fn(split).run_id
    work = work_of(split, evaluation.model)
    record = _record_of(evaluation, work, split_run, run_label, n_cached, models or {})
    return _ref(split, _record_evaluation(split, record, flow_run_tags()))


def _record_of(
    evaluation: Evaluated, work: Work, split_run: str, label: str, n_cached: int, models: dict[str, FinalModel]
) -> EvaluationRecord:
    about: dict[str, Any] = {"model": evaluation.model.canonical(), "seed": work.manifest.spec.seed}
    # Another interval is another conclusion; the usual one leaves the keys of earlier runs as they are.
    asked = {"interval": evaluation.interval, "level": evaluation.level}
    another = asked if asked != {"interval": "auto", "level": 0.95} else {}
    identity = another | {"split_id": evaluation.split.split_id, "fingerprint": evaluation.fingerprint, "label": label}
    partial = {"evenfold.partial": "true"} if evaluation.errors and evaluation.estimates else {}
    estimates = [estimate.to_json() for estimate in evaluation.estimates]
    peaks = {fold.score.name: fold.peak_memory_mb for fold in evaluation.folds}
    failed = evaluation.errors and not evaluation.estimates
    return EvaluationRecord(
        **about,
        key=run_key(kind="evaluate", **about, **identity),
        split_run_id=split_run,
        tags={
            "evenfold.run_label": label,
            "evenfold.n_cached": str(n_cached),
            **partial,
            **{f"evenfold.{name}": str(value) for name, value in asked.items()},
        },
        fingerprint=evaluation.fingerprint,
        estimates=estimates,
        children=[score.to_json() | {"peak_memory_mb": peaks.get(score.name, 0.0)} for score in evaluation.scores],
        artifacts={
            "estimates.json": estimates,
            "features.json": {"used": evaluation.features, "left_out": evaluation.left_out},
            "report.html": _page(evaluation, work),
            **({"levels.json": [asdict(score) for score in evaluation.levels]} if evaluation.levels else {}),
        },
        levels={
            f"by/{_metric_name(score.attribute)}/{_metric_name(score.level)}/{score.metric}": score.value
            for score in evaluation.levels
            if score.value is not None
        },
        tables={
            "predictions.parquet": evaluation.predictions,
            "scores.parquet": [block.scores.path for block in evaluation.draws],
        },
        failure=failure_of(evaluation.errors, evaluation.split.n_splits) if failed else None,
        models={name: KeptModel(file=model.file.path, key=model.key) for name, model in models.items()},
    )


def _metric_name(name: str) -> str:
    """Return a name with the characters alone that MLflow allows in a metric."""
    return re.sub(r"[^\w.\- ]", "_", name)


def _page(evaluation: Evaluated, work: Work) -> str:
    """Return the page about what was evaluated, with the study of the number of folds where one was run."""
    title = f"Evaluation on {work.manifest.name} {work.manifest.version}"
    predictions = frame_of(evaluation.predictions) if evaluation.predictions else None
    scores = evaluation.scores or _scores_of_draws(evaluation)
    study = kept_study(Home.here(), work.problem)
    split, data = evaluation.split, evaluation.split.data
    return evaluation_html(
        work.problem,
        scores,
        evaluation.estimates,
        predictions,
        title,
        study,
        audit=audit_of(split, evaluation.features),
        split=SplitLink(f"{split.name} {split.version}", split.split_id),
        origin=Origin(Path(data).name),
        levels=evaluation.levels,
    )


def _scores_of_draws(evaluation: Evaluated) -> list[FoldScore]:
    """Return the scores of draws, those that are defined, as scores of folds."""
    tables = [pd.read_parquet(block.scores.path).to_dict("records") for block in evaluation.draws]
    return [
        FoldScore(
            name=f"resample {row['draw']}",
            repeat=0,
            fold=row["draw"],
            test={metric: row[metric] for metric in evaluation.model.metrics},
            apparent={},
            **{name: row[name] for name in ("n_train", "n_test", "seconds_fit", "seconds_score")},
        )
        for table in tables
        for row in table
        if row["error"] is None
    ]


def _recorded_evaluation(split: SplitRef, evaluation: EvaluationRecord, tags: dict[str, str]) -> str:
    tracker = tracker_of(split)
    shared = split_tags(split) | {"evenfold.split_run_id": _split_run(tracker, split, evaluation.split_run_id)} | tags
    estimator = evaluation.model["estimator"]
    with tracker.run(evaluation_entry(evaluation, shared)) as run_id:
        for score in evaluation.children:
            with tracker.run(child_entry(evaluation.key, score, shared), parent=run_id) as child:
                keep_model_of(tracker, child, evaluation.models.get(score["name"]), estimator)
        keep_model_of(tracker, run_id, evaluation.models.get("all rows"), estimator)
        for name, value in evaluation.artifacts.items():
            tracker.keep(run_id, name, value)
        if evaluation.estimates:
            for name, picture in scores_figures(evaluation.estimates, evaluation.children).items():
                tracker.keep(run_id, name, picture)
        for name, files in evaluation.tables.items():
            if files:
                tracker.keep_table(run_id, name, frame_of(files))
        judged_on = split_input(split, shared["evenfold.split_run_id"])
        tracker.reads(run_id, data_input(split, evaluation.fingerprint, "training"), judged_on)
        if evaluation.estimates:
            recipe = estimator.rpartition(":")[2]
            tracker.judge(run_id, recipe, judged_on.dataset, {"estimator": estimator, "seed": evaluation.seed})
    if evaluation.failure:
        tracker.fail(run_id, evaluation.failure)
    return run_id


_recorded_evaluation.__name__ = "record_evaluation"
_record_evaluation = survives_outage(_recorded_evaluation)


def _split_run(tracker: Tracker, split: SplitRef, run_id: str) -> str:
    """Return the split's run, which was not known yet while its record waited for the server."""
    waited = run_id.startswith("(")
    return (tracker.find(split_key(split)) or run_id) if waited else run_id
