"""The task that records an evaluation. Idempotent, and never cached."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from importlib.metadata import version
from pathlib import Path

import pandas as pd
from evenfold.estimates import EvaluationError, FoldScore, LevelScore, importance_table
from evenfold.manifests import digest_json
from evenfold.reports import Origin, Page, SplitLink, evaluation_page
from evenfold.reports.markdown import (
    estimate_table,
    page_note,
)
from evenfold.reports.pictures import scores_figures
from evenfold.tasks.audits import audit_of
from evenfold.tasks.fits import require_final
from evenfold.tasks.outcomes import Evaluated, FinalModel, RunRef, SplitRef
from evenfold.tasks.runtime.home import Home
from evenfold.tasks.scores import frame_of
from evenfold.tasks.splits import stamp, table_of
from evenfold.tasks.steps.step import is_refreshing, step
from evenfold.tasks.steps.telling import publish
from evenfold.tasks.studies import kept_study
from evenfold.tasks.work import Work, work_of

from .datasets import data_input, split_input
from .entries import (
    MOST_FOLDS,
    PARTIAL,
    Entry,
    code_tags,
    confusion_metrics,
    estimate_metrics,
    judged,
    named_apart,
    run_key,
    short_tags,
    split_tags,
    unless_usual,
    with_code,
)
from .leaderboard import list_evaluations
from .links import origin_tags, run_page, runs_on
from .models.signatures import RECIPE, keep_recipe
from .reading import recipe_json
from .seen import see_complete, seen_complete
from .splits import run_ref, split_page_from, split_run_of, where
from .tracker import CONTENT, NOTE, Tracker, tracker_of

EVALUATION_FILES = {"estimates.json", "report.html", RECIPE}


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
    split_run = split_run_id or split_run_of(split)
    work = work_of(split, evaluation.model)
    record = _Record(evaluation, work, split_run, run_label, n_cached, models or {})
    labelled, since = digest_json([record.content, run_label]), ""
    known = seen_complete(Home.here(), labelled)
    if known is None:
        tracker, again = tracker_of(split), is_refreshing() or not evaluation.estimates
        known = None if again else tracker.complete(record.key, record.content, EVALUATION_FILES, "")
        if known is None:
            code = evaluation.model.code
            since = tracker.since(record.same, code) if code else ""
            known = record.write(tracker)
        else:
            tracker.tell(known, origin_tags() | record.tags)
        if evaluation.estimates:
            see_complete(split, labelled, known, EVALUATION_FILES, split_run)
    run, recipe = run_ref(split, known).model_copy(update={"since": since}), evaluation.model.title
    if evaluation.estimates:
        scores = f"# {recipe} @ {split.name} {split.version}\n\n{estimate_table(evaluation.estimates)}"
        about = f"Scores of the newest evaluation on {split.name}."
        publish(f"estimate-{split.name}", f"{scores}\n\n{where(run, 'The evaluation in MLflow')}", about)
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


@dataclass(frozen=True)
class _Record:
    """An evaluation, and what its run holds; ``models``: by the name of their run."""

    evaluation: Evaluated
    work: Work
    split_run: str
    label: str
    n_cached: int
    models: dict[str, FinalModel]

    @cached_property
    def content(self) -> str:
        """The digest of all that it is made of, but for what differs from time to time."""
        split, study = self.evaluation.split, kept_study(Home.here(), self.work.problem)
        study_json = "" if study is None else study.to_json()
        place = [split.uri, split.data, str(stamp(split.data)), self.split_run, sorted(self.models)]
        return digest_json([self.evaluation.model_dump_json(exclude={"split"}), place, version("evenfold"), study_json])

    @property
    def another(self) -> dict[str, object]:
        """The interval, where it is not the usual one."""
        return unless_usual(self.evaluation.interval, self.evaluation.level)

    @cached_property
    def same(self) -> str:
        """The key of its run, whatever the user's code."""
        made = self.evaluation
        return run_key(
            kind="evaluate", model=made.model.canonical(), seed=self.work.manifest.spec.seed,
            split_id=made.split.split_id, fingerprint=made.fingerprint, label=self.label, **self.another,
        )  # fmt: skip

    @property
    def key(self) -> str:
        """The key of its run."""
        return with_code(self.same, self.evaluation.model.code)

    @property
    def estimator(self) -> str:
        """The import path of the model."""
        return str(self.evaluation.model.canonical()["estimator"])

    @property
    def recipe(self) -> str:
        """What people call the model: the name of its class."""
        return self.estimator.rpartition(":")[2]

    @property
    def tags(self) -> dict[str, str]:
        """What is told of it each time."""
        stratified = "true" if self.work.manifest.splitter.needs.y != "ignored" else ""
        ordered = "true" if self.work.in_time_order else ""
        tags = {"evenfold.run_label": self.label, "evenfold.n_cached": self.n_cached}
        tags |= {"evenfold.stratified": stratified, "evenfold.ordered": ordered}
        return {name: str(value) for name, value in tags.items() if value}

    @cached_property
    def scores(self) -> list[FoldScore]:
        """The score of each fold or draw."""
        return self.evaluation.scores or _scores_of_draws(self.evaluation)

    @cached_property
    def numbers(self) -> list[int]:
        """The number of the split of each score, which is the same where others failed."""
        if self.evaluation.draws:
            return [score.fold for score in self.scores]
        place = {self.work.manifest.membership.split_name(i): i for i in range(self.work.manifest.n_splits)}
        return [place[score.repeat, score.fold] for score in self.scores]

    def write(self, tracker: Tracker) -> str:
        """Write its run and return it."""
        made, split, key = self.evaluation, self.evaluation.split, self.key
        partial = {PARTIAL: "true"} if made.errors and made.estimates else {}
        if partial and _is_whole(tracker, key):
            key = run_key(kind="partial", of=key)
        failure = failure_of(made.errors, split.n_splits) if made.errors and not made.estimates else ""
        page = _page(made, self.work, self.scores, split_page_from(split, self.split_run))
        artifacts = _artifacts(made) | {"report.html": page.html()}
        artifacts |= scores_figures(made.estimates, self.scores) if made.estimates else {}
        with tracker.run(self._entry(key, partial | ({} if failure else {CONTENT: self.content}))) as run_id:
            tracker.reads(run_id, data_input(split, made.fingerprint, "training"), split_input(split, self.split_run))
            if made.scores:
                self._write_folds(tracker, run_id, key)
            tracker.keep_model_of(run_id, self.models.get("all rows"), self.estimator)
            tables = {
                "predictions.parquet": made.predictions,
                "scores.parquet": [block.predictions.path for block in made.draws],
            }
            digests = {
                name: tracker.keep_table(run_id, name, frame_of(files)) for name, files in tables.items() if files
            }
            keep_recipe(tracker, run_id, recipe_json(split, made.model, made.estimates), sha256=digests)
            for name, value in artifacts.items():
                tracker.keep(run_id, name, value)
            links = {
                "The evaluation's page": run_page(tracker.experiment_id, run_id, "artifacts/report.html"),
                f"Its split, {split.name} {split.version}": run_page(tracker.experiment_id, self.split_run),
                "Every run on this split": runs_on(tracker.experiment_id, split.split_id),
            }
            if not failure:
                note = page_note(replace(page, tiles=()), links, estimate_table(made.estimates))
                tracker.tell(run_id, {NOTE: note})
        list_evaluations(tracker, split, self.split_run)
        if failure:
            tracker.fail(run_id, failure)
        return run_id

    def _entry(self, key: str, tags: dict[str, str]) -> Entry:
        made, split, model = self.evaluation, self.evaluation.split, self.evaluation.model.canonical()
        params = {f"model.{name}": value for name, value in model.items()}
        params |= {"seed": self.work.manifest.spec.seed, "split_id": split.split_id, "fingerprint": made.fingerprint}
        about = {"estimator": model["estimator"], "params": model.get("params"), "split": split.name}
        few = (split.n_splits if made.draws else len(self.scores)) <= MOST_FOLDS
        series: dict[str, dict[int, float]] = {}
        for number, score in zip(self.numbers, self.scores, strict=True) if few else ():
            for name, value in score.test.items():  # a chart in MLflow, whose step is the fold
                series.setdefault(f"fold/{name}", {})[number] = value
        return Entry(
            key=key,
            name=f"{self.recipe} @ {split.name} {split.version}",
            tags=split_tags(split)
            | {"evenfold.split_run_id": self.split_run}
            | origin_tags()
            | {"evenfold.record": "evaluation"}
            | self.tags
            | code_tags(self.same, made.model.code)
            | {f"evenfold.{name}": str(value) for name, value in self.another.items()}
            | tags,
            params=params,
            metrics=estimate_metrics(made.estimates) | _level_metrics(made.levels) | confusion_metrics(made.confusion),
            series=series,
            judged=judged(split, self.recipe, "evenfold-recipe", about) if made.estimates else None,
        )

    def _write_folds(self, tracker: Tracker, run_id: str, key: str) -> None:
        """Give each of up to 100 folds a run with a light model below the evaluation's; of more, keep one table."""
        split = self.evaluation.split
        figures = ("n_train", "n_test", "seconds_fit", "seconds_score")
        if len(self.scores) > MOST_FOLDS:
            flat = [{name: getattr(score, name) for name in ("name", "repeat", "fold", *figures)}
                    | score.test | {f"apparent {name}": value for name, value in score.apparent.items()}
                    for score in self.scores]  # fmt: skip
            tracker.keep_table(run_id, "scores.parquet", pd.DataFrame(flat))
            return
        peaks = {fit.score.name: fit.peak_memory_mb for fit in self.evaluation.fits if isinstance(fit.i, int)}
        for score in self.scores:
            metrics = {f"test/{name}": value for name, value in score.test.items()}
            metrics |= {f"apparent/{name}": value for name, value in score.apparent.items()}
            metrics |= {name: getattr(score, name) for name in figures}
            place, name = {"repeat": score.repeat, "fold": score.fold}, f"{self.recipe} {score.name}"
            child = Entry(
                key=run_key(kind="fold", parent=key, **place),
                name=name,
                tags=short_tags(split) | {"evenfold.split_id": split.split_id},
                params=place,
                metrics=metrics | {"peak_memory_mb": peaks.get(score.name, 0.0)},
                judged=judged(split, name, "evenfold-fold", place),
            )
            with tracker.run(child, parent=run_id) as fold:
                tracker.keep_model_of(fold, self.models.get(score.name), self.estimator)


def _is_whole(tracker: Tracker, key: str) -> bool:
    """Return whether the run that ``key`` names is complete and of every split: what is partial is not put over it."""
    run = tracker.find(key)
    return run is not None and run.info.status == "FINISHED" and PARTIAL not in run.data.tags


def _artifacts(evaluation: Evaluated) -> dict[str, object]:
    levels = [asdict(score) for score in evaluation.levels]
    features = {name: getattr(evaluation, name) for name in ("encoded", "imputed", "left_out")}
    importance = importance_table(evaluation.scores)  # which MLflow's pages show
    return {
        "estimates.json": [estimate.to_json() for estimate in evaluation.estimates],
        "features.json": {"used": evaluation.features} | features,
        **({} if importance.empty else {
            "importance.json": json.loads(importance.to_json(orient="split", index=False))
        }),
        **({"levels.json": levels} if levels else {}),
    }  # fmt: skip


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
        n_missing=split.n_splits - len(evaluation.scores) - sum(len(block.block) for block in evaluation.draws),
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
