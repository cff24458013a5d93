"""The tasks that record a split and an evaluation. Idempotent, and never cached."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import asdict, replace
from importlib.metadata import version
from pathlib import Path
from typing import TypeVar

import pandas as pd
from evenfold.estimates import EvaluationError, FoldScore, LevelScore
from evenfold.manifests import BalanceReport, digest_json, held_manifest, measure
from evenfold.manifests.tables.addresses import is_address
from evenfold.reports import Origin, Page, SplitLink, evaluation_page
from evenfold.reports.markdown import (
    balance_rows,
    estimate_table,
    page_note,
    split_report,
)
from evenfold.reports.pictures import scores_figures
from evenfold.tasks.audits import audit_of
from evenfold.tasks.fits import require_final
from evenfold.tasks.outcomes import Evaluated, FinalModel, RunRef, SplitRef
from evenfold.tasks.parameters import Memory
from evenfold.tasks.runtime.home import Home
from evenfold.tasks.runtime.redaction import redacted
from evenfold.tasks.runtime.settings import Settings
from evenfold.tasks.scores import frame_of
from evenfold.tasks.splits import stamp, table_of
from evenfold.tasks.steps.step import is_refreshing, step
from evenfold.tasks.steps.telling import materialized, publish
from evenfold.tasks.studies import kept_study
from evenfold.tasks.work import Work, work_of

from .entries import (
    MOST_FOLDS,
    PARTIAL,
    EvaluationRecord,
    FoldRecord,
    code_tags,
    confusion_metrics,
    importance_artifact,
    named_apart,
    run_key,
    split_key,
    unless_usual,
    with_code,
)
from .links import origin_tags, run_page, server_of
from .models.signatures import RECIPE
from .reading import recipe_json
from .recorders import SPLIT_FILES, see_complete, seen_complete, split_content, write_evaluation, write_split
from .tracker import CONTENT, Tracker, tracker_of

T = TypeVar("T")
EVALUATION_FILES = {"estimates.json", "report.html", RECIPE}


def balance_of(split: SplitRef, memory: str | None = None) -> BalanceReport:
    """Return how evenly the table's rows were split; SplitError where they take more than ``memory``."""
    limit = Settings.memory_of(memory)
    return measure(held_manifest(split.folder, limit), split.data, memory=limit)


@step(run_name=lambda split, **_: f"record the split {split.name}")
def record_split(split: SplitRef, report: BalanceReport | None = None, *, memory: Memory = None) -> RunRef:
    """Record a split as a run ``<name> <version> split`` with its manifest, balance, audit and page.

    A record that is complete, of the same file and the same balance, is not made again. Raises EvaluationError for the
    balance of another split, and SplitError for a split that names no table, or whose rows take more than ``memory``.
    """
    data = table_of(split)
    if report is not None and report.split_id != split.split_id:
        raise EvaluationError(
            f"the balance is of {report.n_splits:,} splits of {report.n_rows:,} rows, and of another split than "
            f"{split.name} {split.version} with its {split.n_splits:,} of {split.n_rows:,}; leave it out, and it is "
            "measured."
        )
    measured = report or balance_of(split, memory)
    limit = Settings.memory_of(memory) or ""
    content = split_content(split, measured)
    run_id = seen_complete(Home.here(), content)
    if run_id is None:
        run_id = write_split(split, measured, split.stored().fingerprint, origin_tags(), limit)
        see_complete(split, content, run_id, (f"split/{name}" for name in SPLIT_FILES))
    run = _ref(split, run_id)
    text = f"{split_report(split.model_dump(), measured)}\n\n{_where(run, 'The split in MLflow')}"
    publish(f"split-{split.name}", text, f"What the newest split of {split.name} is, and how even.")
    publish(f"balance-{split.name}", balance_rows(measured)[:MOST_FOLDS], f"Rows of each fold and part, {split.name}.")
    worst = {name: round(value, 6) for name, value in measured.worst.items()}
    materialized(
        f"evenfold://{split.name}/{split.version}",
        redacted(data) if is_address(data) else Path(data).absolute().as_uri(),
        f"{split.name} {split.version}",
        run.url,
        {"split_id": split.split_id, "rows": split.n_rows, "splits": split.n_splits, "worst": worst},
    )
    return run


def _where(run: RunRef, words: str) -> str:
    """Return a link to a run, or its id where no server is known that shows it."""
    return f"[{words}]({run.url})" if run.url else f"{words}: run `{run.run_id}`"


def _ref(split: SplitRef, run_id: str) -> RunRef:
    home = Home.here()
    server = server_of(home)
    if not server:
        return RunRef(run_id=run_id)
    return RunRef(run_id=run_id, url=run_page(Tracker(home, split.name).experiment_id, run_id, server=server))


def failure_of(errors: Sequence[str], n_splits: int) -> str:
    """Return why there is no estimate, in a sentence."""
    kinds: dict[str, list[str]] = {}  # the same but for numbers is told once
    for error in errors:
        kinds.setdefault(re.sub(r"\d[\d,.]*", "0", error), []).append(error.removesuffix("."))
    sentences = [alike[0] + (f" ({len(alike) - 1} more alike)" if len(alike) > 1 else "") for alike in kinds.values()]
    return f"{len(errors)} of {max(n_splits, len(errors))} fits failed: {'; '.join(sentences[:3])}."


@step(run_name=lambda split, **_: f"record the evaluation on {split.name}")
def record_evaluation(
    split: SplitRef,
    evaluation: Evaluated,
    *,
    split_run_id: str = "",
    run_label: str = "",
    n_cached: int = 0,
    models: dict[str, FinalModel] | None = None,
) -> RunRef:
    """Record an evaluation as a run ``<model> @ <split>`` with estimates, predictions and its page.

    Up to 100 folds have a child run and a light model each, whose metrics name the split. The split is recorded too
    where it is not yet. Where fits failed and nothing was aggregated, the run is FAILED with the reason, and the
    finished folds are kept; an estimate of some of the splits is partial, and is put over none of all of them, but in a
    run of its own. ``run_label``: another makes another run of the same evaluation. A record that is complete
    and of the same content is not made again.
    Raises EvaluationError where the evaluation is of another split, or a model (by the name of its split, or "all
    rows") is not that of the evaluation's recipe on these rows.
    """
    _require_together(split, evaluation, models or {})
    split_run = split_run_id or Tracker(Home.here(), split.name).find(split_key(split)) or record_split.fn(split).run_id
    work = work_of(split, evaluation.model)
    content = _content_of(evaluation, work, split_run, models or {})
    labelled = digest_json([content, run_label])
    known, since = seen_complete(Home.here(), labelled), ""
    if known is None:
        known = None if is_refreshing() else _complete(evaluation, work, run_label, content)
        if known is None:
            same, code = _identity_of(evaluation, work, run_label)[0], evaluation.model.code
            since = tracker_of(split).since(same, code) if code else ""
            record = _record_of(evaluation, work, split_run, run_label, n_cached, content, models or {})
            known = write_evaluation(split, record, origin_tags())
        else:
            tracker_of(split).tell(known, origin_tags() | _told_tags(work, run_label, n_cached))
        if evaluation.estimates:
            see_complete(split, labelled, known, EVALUATION_FILES, split_run)
    run, recipe = _ref(split, known).model_copy(update={"since": since}), evaluation.model.title
    if evaluation.estimates:
        scores = f"# {recipe} @ {split.name} {split.version}\n\n{estimate_table(evaluation.estimates)}"
        about = f"Scores of the newest evaluation on {split.name}."
        publish(f"estimate-{split.name}", f"{scores}\n\n{_where(run, 'The evaluation in MLflow')}", about)
    return run


def _require_together(split: SplitRef, evaluation: Evaluated, models: dict[str, FinalModel]) -> None:
    table_of(split)  # which says what is no split
    if not isinstance(evaluation, Evaluated):
        raise EvaluationError(
            f"a value of type {type(evaluation).__name__} is no evaluation; pass what aggregate returns."
        )
    its = evaluation.split
    if (its.split_id, its.plan_id) != (split.split_id, split.plan_id):
        raise EvaluationError(
            f"the evaluation is of {its.name} {its.version}, and {split.name} {split.version} is another split; record "
            "it on its own: record_evaluation(evaluation.split, evaluation)."
        )
    if not models:
        return
    work = work_of(split, evaluation.model)
    numbers: dict[str, int | None] = {"all rows": None} | {
        work.manifest.membership.split_title(i): i for i in split.splits()
    }
    for name, model in models.items():
        if name not in numbers:
            raise EvaluationError(
                f"there is no {name!r} to keep a model of; name them 'all rows' or as splits are called: "
                f"{work.manifest.membership.split_title(0)!r} and so on."
            )
        require_final(work, model, name, [numbers[name]])


def _content_of(evaluation: Evaluated, work: Work, split_run: str, models: dict[str, FinalModel]) -> str:
    """Return the digest of all that a record is made of, but for what differs from time to time."""
    split, study = evaluation.split, kept_study(Home.here(), work.problem)
    study_json = "" if study is None else study.to_json()
    place = [split.uri, split.data, str(stamp(split.data)), split_run, sorted(models), version("evenfold")]
    return digest_json([evaluation.model_dump_json(exclude={"split"}), place, study_json])


def _complete(evaluation: Evaluated, work: Work, label: str, content: str) -> str | None:
    """Return the run of a record that is complete and of this content; None where there is none."""
    if not evaluation.estimates:
        return None
    key = _key_of(evaluation, work, label)
    return tracker_of(evaluation.split).complete(key, content, EVALUATION_FILES, "")


def _key_of(evaluation: Evaluated, work: Work, label: str) -> str:
    return with_code(_identity_of(evaluation, work, label)[0], evaluation.model.code)


def _identity_of(evaluation: Evaluated, work: Work, label: str) -> tuple[str, dict[str, object]]:
    """Return the key of an evaluation's run, whatever the user's code, and the interval where it is not the usual."""
    another = unless_usual(evaluation.interval, evaluation.level)
    key = run_key(
        kind="evaluate", model=evaluation.model.canonical(), seed=work.manifest.spec.seed,
        split_id=evaluation.split.split_id, fingerprint=evaluation.fingerprint, label=label, **another,
    )  # fmt: skip
    return key, another


def _told_tags(work: Work, label: str, n_cached: int) -> dict[str, str]:
    stratified = "true" if work.manifest.splitter.needs.y != "ignored" else ""
    ordered = "true" if work.in_time_order else ""
    tags = {"evenfold.run_label": label, "evenfold.n_cached": n_cached}
    tags |= {"evenfold.stratified": stratified, "evenfold.ordered": ordered}
    return {name: str(value) for name, value in tags.items() if value}


def _artifacts(evaluation: Evaluated) -> dict[str, object]:
    levels = [asdict(score) for score in evaluation.levels]
    features = {name: getattr(evaluation, name) for name in ("encoded", "imputed", "left_out")}
    return {
        "estimates.json": [estimate.to_json() for estimate in evaluation.estimates],
        "features.json": {"used": evaluation.features} | features,
        **importance_artifact(evaluation.scores),
        RECIPE: recipe_json(evaluation.split, evaluation.model, evaluation.estimates),
        **({"levels.json": levels} if levels else {}),
    }


def _record_of(
    evaluation: Evaluated,
    work: Work,
    split_run: str,
    label: str,
    n_cached: int,
    content: str,
    models: dict[str, FinalModel],
) -> EvaluationRecord:
    same, another = _identity_of(evaluation, work, label)
    partial = {PARTIAL: "true"} if evaluation.errors and evaluation.estimates else {}
    scores = evaluation.scores or _scores_of_draws(evaluation)
    page = _page(evaluation, work, scores, split_report_from(evaluation.split, split_run))
    pictures = scores_figures(evaluation.estimates, scores) if evaluation.estimates else {}
    failed = evaluation.errors and not evaluation.estimates
    failure = failure_of(evaluation.errors, evaluation.split.n_splits) if failed else None
    return EvaluationRecord(
        key=_key_of(evaluation, work, label),
        model=evaluation.model.canonical(),
        seed=work.manifest.spec.seed,
        split_run_id=split_run,
        tags=_told_tags(work, label, n_cached)
        | partial
        | code_tags(same, evaluation.model.code)
        | ({} if failure else {CONTENT: content})
        | {f"evenfold.{name}": str(value) for name, value in another.items()},
        fingerprint=evaluation.fingerprint,
        estimates=evaluation.estimates,
        children=_children(evaluation, work, scores),
        artifacts=_artifacts(evaluation) | {"report.html": page.html()} | pictures,
        levels=_level_metrics(evaluation.levels) | confusion_metrics(evaluation.confusion),
        note=page_note(replace(page, tiles=()), {}, estimate_table(evaluation.estimates)) if not failure else "",
        tables={
            "predictions.parquet": evaluation.predictions,
            "scores.parquet": [block.predictions.path for block in evaluation.draws],
        },
        failure=failure,
        models=models,
    )


def _children(evaluation: Evaluated, work: Work, scores: Sequence[FoldScore]) -> list[FoldRecord]:
    peaks = {fit.score.name: fit.peak_memory_mb for fit in evaluation.fits if isinstance(fit.i, int)}
    return [
        FoldRecord(**vars(score), peak_memory_mb=peaks.get(score.name, 0.0), split=number)
        for number, score in _numbered(evaluation, work, scores)
    ]


def _numbered(evaluation: Evaluated, work: Work, scores: Sequence[FoldScore]) -> list[tuple[int, FoldScore]]:
    """Return the score of each split with its number, which is the same where others failed; of few draws as well."""
    if evaluation.draws:
        few = work.manifest.n_splits <= MOST_FOLDS
        return [(score.fold, score) for score in scores] if few else []
    place = {work.manifest.membership.split_name(i): i for i in range(work.manifest.n_splits)}
    return [(place[score.repeat, score.fold], score) for score in scores]


def split_report_from(split: SplitRef, split_run: str) -> str:
    """Return where the split's page lies, seen from that of an evaluation; nothing where no server shows it."""
    home = Home.here()
    if home.tracks_here:  # beside it on disk, where pages are opened from
        return f"../../{split_run}/artifacts/split/report.html"
    server = server_of(home)
    experiment = Tracker(home, split.name).experiment_id
    return run_page(experiment, split_run, "artifacts/split/report.html", server) if server else ""


def _level_metrics(levels: Sequence[LevelScore]) -> dict[str, float]:
    attributes = named_apart(dict.fromkeys(score.attribute for score in levels))
    names = {
        attribute: named_apart(dict.fromkeys(score.level for score in levels if score.attribute == attribute))
        for attribute in attributes
    }
    return {
        f"by/{attributes[score.attribute]}/{names[score.attribute][score.level]}/{score.metric}": score.value
        for score in levels
        if score.value is not None
    }


def _page(evaluation: Evaluated, work: Work, scores: Sequence[FoldScore], of_split: str) -> Page:
    """Return the page about what was evaluated, with the study of the number of folds where one was run."""
    title = f"Evaluation on {work.manifest.name} {work.manifest.version}"
    predictions = frame_of(evaluation.predictions) if evaluation.predictions else None
    study = kept_study(Home.here(), work.problem)
    split, data = evaluation.split, evaluation.split.data
    return evaluation_page(
        work.problem,
        scores,
        evaluation.estimates,
        predictions,
        title,
        study,
        audit=audit_of(split, evaluation.features),
        split=SplitLink(f"{split.name} {split.version}", split.split_id, of_split),
        origin=Origin(Path(data).name),
        levels=evaluation.levels,
        n_missing=split.n_splits - len(evaluation.scores) - sum(len(range(*block.i)) for block in evaluation.draws),
    )


def _scores_of_draws(evaluation: Evaluated) -> list[FoldScore]:
    """Return the scores of draws, those that are defined, as scores of folds."""
    tables = [pd.read_parquet(block.predictions.path).to_dict("records") for block in evaluation.draws]
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
