"""The task that records an evaluation. Idempotent: no result is cached, but recorded.json names complete records."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

import pandas as pd
from evenfold.estimates import EvaluationError, FoldScore, importance_table
from evenfold.estimates.models.draws import scores_in
from evenfold.estimates.results import FIGURES
from evenfold.manifests import digest_json
from evenfold.manifests.tables.aside import frame_of
from evenfold.manifests.tables.read import stamp
from evenfold.reports import Origin, Page, SplitLink, evaluation_page
from evenfold.reports.evaluations.pictures import score_pictures
from evenfold.reports.evaluations.words import failure_of, scores_table
from evenfold.reports.figures import confusion_metrics, estimate_metrics, level_metrics
from evenfold.reports.texts import FoldState, in_markdown, linked, page_note
from evenfold.splitters.naming import installed
from evenfold.tasks.fits import require_final
from evenfold.tasks.outcomes import Evaluated, FinalModel, RunRef, SplitRef
from evenfold.tasks.plans import parts_of_build, table_of
from evenfold.tasks.record.reading import parts_of_record, preimage_of_record
from evenfold.tasks.runtime.home import Home
from evenfold.tasks.splits import audit_split
from evenfold.tasks.steps import finished_here, is_refreshing, publish, step
from evenfold.tasks.store import remember
from evenfold.tasks.work import Work, work_of

from .entries import MOST_FOLDS, PARTIAL, PREDICTIONS, Entry, coded, run_key, short_tags, split_tags, unless_usual
from .models.versions import keep_model
from .splits import links_of, log_inputs, origin_tags, page_on_server, split_run_of
from .tracker import CONTENT, NOTE, Tracker, made_once, tracker_of

if TYPE_CHECKING:
    from mlflow.entities import Run


@step(run_name=lambda split, **_: f"record the evaluation on {split.name}")
def record_evaluation(
    split: SplitRef, evaluation: Evaluated, *, split_run_id: str = "", run_label: str = "",
    states: Sequence[FoldState] = (), models: dict[str, FinalModel] | None = None, build: str | None = None,
) -> RunRef:  # fmt: skip
    """Record an evaluation as a run ``<model> @ <split>`` with estimates, predictions and its page.

    Up to 100 folds have a child run each; the split is recorded too, and a complete record of the same content is not
    made again. Where fits failed and nothing was aggregated the run is FAILED with the reason, and keeps the finished
    folds; an estimate of some splits is partial, in a run of its own beside one of all. Another ``run_label`` makes
    another run. ``states``: where each fit came from. ``build``: see ``audit_split``. Raises EvaluationError for an
    evaluation of another split, or a model (by its split's name, or "all rows") that is not the recipe's on these rows.
    """
    table_of(split)  # which says what is no split
    its = evaluation.split
    if (its.split_id, its.plan_id) != (split.split_id, split.plan_id):
        raise EvaluationError(
            f"the evaluation is of {its.name} {its.version}, and {split.name} {split.version} is another split; record "
            "it on its own: record_evaluation(evaluation.split, evaluation)."
        )
    work = work_of(split, evaluation.model)
    _require_models(split, work, models or {})
    split_run = split_run_id or split_run_of(split)
    about = work, run_label, evaluation.interval, evaluation.level
    key_of_any_code = run_key(**parts_of_record(*about))
    key, code = coded(key_of_any_code, evaluation.model.code)
    record = _Record(evaluation, work, split_run, key, code, run_label, models or {}, states, build)
    content = record.content if evaluation.estimates else ""
    run_id, is_new = made_once(split, key, content, "report.html", record.write, is_refreshing())
    since = tracker_of(split).since(key_of_any_code, evaluation.model.code) if is_new else ""
    run = RunRef(run_id=run_id, url=page_on_server(split, run_id), since=since)
    if evaluation.estimates:
        remember(preimage_of_record(*about))
    if is_new and evaluation.estimates:  # not again where the same is found
        title, table = f"# {evaluation.model.title} @ {split.name} {split.version}", scores_table(evaluation.estimates)
        text = f"{title}\n\n{in_markdown(table)}\n\n{linked({f'Run {run_id} in MLflow': run.url})}"
        publish(f"estimate-{split.name}", text, f"Scores of the newest evaluation on {split.name}.")
    return run


def _require_models(split: SplitRef, work: Work, models: dict[str, FinalModel]) -> None:
    titles = {work.manifest.membership.split_title(i): i for i in split.splits()} if models else {}
    for name, model in models.items():
        if name not in ("all rows", *titles):
            raise EvaluationError(
                f"there is no {name!r} to keep a model of; name them 'all rows' or as splits are called: "
                f"{next(iter(titles))!r} and so on."
            )
        require_final(work, model, name, [titles.get(name, "all rows")])


@dataclass(frozen=True)
class _Record:
    """An evaluation, and what its run holds; ``code``: the tags of the user's; ``models``: by the name of their run."""

    evaluation: Evaluated
    work: Work
    split_run: str
    key: str
    code: dict[str, str]
    label: str
    models: dict[str, FinalModel]
    states: Sequence[FoldState]
    build: str | None

    @cached_property
    def content(self) -> str:
        """The digest of all that it is made of, but for its label and what differs from time to time."""
        split = self.evaluation.split
        build = parts_of_build(self.build).values()
        place = [split.uri, split.data, str(stamp(split.data)), self.split_run, sorted(self.models), *build]
        return digest_json([self.evaluation.model_dump_json(exclude={"split"}), place, installed("evenfold")])

    @cached_property
    def scores(self) -> list[FoldScore]:
        """The score of each fold or draw, of draws of those that are defined."""
        of_draws = self.tables.get("scores.parquet", pd.DataFrame())
        return self.evaluation.scores or scores_in(of_draws, self.evaluation.model.metrics)

    @cached_property
    def tables(self) -> dict[str, pd.DataFrame]:
        """The tables kept, by file name: predictions of test rows, scores of draws."""
        draws = [block.predictions.path for block in self.evaluation.draws]
        files = {PREDICTIONS: self.evaluation.predictions, "scores.parquet": draws}
        return {name: frame_of(each) for name, each in files.items() if each}

    def write(self, tracker: Tracker, existing: Run | None) -> str:
        """Write its run and return it; ``existing``: the run that its key names, or None."""
        of, split, key = self.evaluation, self.evaluation.split, self.key
        of_some = {PARTIAL: "true"} if of.errors and of.estimates else {}
        whole = existing is not None and existing.info.status == "FINISHED" and PARTIAL not in existing.data.tags
        failure = failure_of(of.errors, split.n_splits) if of.errors and not of.estimates else ""
        if whole and (of_some or failure):
            key = run_key(kind="partial", of=key)  # what is of every split stays as it is
        page, pictures = self._page(), score_pictures(self.scores, of.estimates)
        artifacts: dict[str, object] = {  # before the run is there: what fails leaves none behind
            "report.html": page.html(),
            "estimates.json": [asdict(estimate) for estimate in of.estimates],
            "features.json": {"used": of.features, "encoded": of.encoded, "left_out": of.left_out},
            **{f"scores/{metric}.svg": each.file() for metric, each in pictures.items()},
        }
        artifacts |= {"levels.json": [asdict(score) for score in of.levels]} if of.levels else {}
        if not (importance := importance_table(of.scores)).empty:  # which MLflow's pages show
            artifacts["importance.json"] = json.loads(importance.to_json(orient="split", index=False))
        entry = self._entry(key, self.code | of_some | ({} if failure else {CONTENT: self.content}))
        with tracker.run(entry) as run_id:
            if not failure:
                links = links_of(tracker, run_id, "The evaluation's page", split, split_run=self.split_run)
                tracker.tell(run_id, {NOTE: page_note(replace(page, tiles=()), links, scores_table(of.estimates))})
            log_inputs(tracker, run_id, split, self.split_run, of.fingerprint)
            if of.scores:
                self._write_folds(tracker, run_id, key)
            if whole_model := self.models.get("all rows"):
                keep_model(tracker, run_id, whole_model, str(of.model.estimator))
            digests = tracker.keep(run_id, artifacts | self.tables)
            sha256 = {name: digests[name] for name in self.tables}
            tracker.keep_recipe(run_id, split, of.model, of.estimates, sha256=sha256)
        if failure:
            tracker.fail(run_id, failure)
        return run_id

    def _entry(self, key: str, tags: dict[str, str]) -> Entry:
        of, split, model = self.evaluation, self.evaluation.split, self.evaluation.model.canonical()
        params = {f"model.{name}": value for name, value in model.items()}
        params |= {"seed": self.work.manifest.spec.seed, "split_id": split.split_id, "fingerprint": of.fingerprint}
        series: dict[str, dict[int, float]] = {}
        if split.n_splits <= MOST_FOLDS:  # where some failed, the others keep their numbers
            numbers = [i for fit in of.fits if fit.scores for i in fit.splits] or [each.fold for each in self.scores]
            for number, score in zip(numbers, self.scores, strict=True):
                for metric, value in score.test.items():  # a chart in MLflow, whose step is the fold
                    series.setdefault(f"fold/{metric}", {})[number] = value
        metrics = estimate_metrics(of.estimates) | level_metrics(of.levels) | confusion_metrics(of.confusion)
        stratified, ordered = self.work.manifest.splitter.needs.y != "ignored", self.work.in_stretches
        about_run: dict[str, object] = {
            "split_run_id": self.split_run, "record": "evaluation", "run_label": self.label,
            "stratified": "true" if stratified else "", "ordered": "true" if ordered else "",
            **unless_usual(of.interval, of.level),
        }  # fmt: skip
        own = split_tags(split, **{name: str(value) for name, value in about_run.items() if value})
        return Entry(
            key, f"{of.model.title} @ {split.name} {split.version}", own | origin_tags() | tags, params,
            {**metrics, **series}, judged=bool(of.estimates),
        )  # fmt: skip

    def _page(self) -> Page:
        """Return the page about what was evaluated."""
        of, split, problem = self.evaluation, self.evaluation.split, self.work.problem
        name, members = f"{split.name} {split.version}", self.work.manifest.membership
        page = "artifacts/split/report.html"
        # On disk the pages lie beside one another, and are opened from there.
        on_disk = f"../../{self.split_run}/{page}" if Home.here().tracks_here else ""
        audit = finished_here(audit_split, split, features=of.features, build=self.build).value
        link = SplitLink(name, split.split_id, on_disk or page_on_server(split, self.split_run, page))
        n_missing = split.n_splits - len(of.scores) - sum(len(block.splits) for block in of.draws)
        states = {} if of.draws else {members.split_title(i): state for i, state in enumerate(self.states)}
        return evaluation_page(
            problem, self.scores, of.estimates, self.tables.get(PREDICTIONS), f"Evaluation on {name}", audit=audit,
            split=link, origin=Origin(Path(split.data).name), levels=of.levels, n_missing=n_missing, states=states,
            confusion=of.confusion,
        )  # fmt: skip

    def _write_folds(self, tracker: Tracker, run_id: str, key: str) -> None:
        """Give each of up to 100 folds a run below the evaluation's; of more, keep one table."""
        split, recipe = self.evaluation.split, self.evaluation.model
        if len(self.scores) > MOST_FOLDS:
            flat = [{name: getattr(score, name) for name in ("name", "repeat", "fold", *FIGURES)}
                    | score.test | {f"apparent {name}": value for name, value in score.apparent.items()}
                    for score in self.scores]  # fmt: skip
            tracker.keep(run_id, {"scores.parquet": pd.DataFrame(flat)})
            return
        for score in self.scores:
            metrics = {f"test/{name}": value for name, value in score.test.items()}
            metrics |= {f"apparent/{name}": value for name, value in score.apparent.items()}
            metrics |= {name: getattr(score, name) for name in FIGURES}
            place = {"repeat": score.repeat, "fold": score.fold}
            name = f"{recipe.title} {score.name}"
            child = Entry(run_key(kind="fold", parent=key, **place), name, short_tags(split), place, metrics)
            with tracker.run(child, parent=run_id) as fold:
                if model := self.models.get(score.name):
                    keep_model(tracker, fold, model, str(recipe.estimator))
