"""The run of a retraining: begun, decided, its model registered, and closed; and what it decided, decided again.

Idempotent by the run's key. A past decision is made again from what stands in MLflow, without table or store.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, replace
from datetime import UTC, date, datetime
from math import isclose
from typing import TYPE_CHECKING, Literal

from evenfold.estimates import Estimate, ModelSpec, Problem, compare, promotion
from evenfold.estimates.promotion import Decision, Difference, EarlierLook
from evenfold.manifests.tables.canonical import listed
from evenfold.reports.evaluations.words import scores_table
from evenfold.reports.texts import page_note, plain
from evenfold.splitters import EvenfoldError, SplitError
from evenfold.tasks.fits import require_final
from evenfold.tasks.outcomes import FinalModel, Outcome, Registered, SplitRef
from evenfold.tasks.parameters import AllowPartial, Intervals, Level, LogModels, Model
from evenfold.tasks.plans import parts_of_build
from evenfold.tasks.record.entries import Entry, code_tags, run_key, split_tags, unless_usual, with_code
from evenfold.tasks.record.reading import apparent_of, read_evaluation, read_recipe, run_named
from evenfold.tasks.record.splits import origin_tags, split_run_of
from evenfold.tasks.record.tracker import NOTE, RUN_KEY, tracker_of
from evenfold.tasks.results.retrained import Opened, Retraining
from evenfold.tasks.runtime.progress import unreachable
from evenfold.tasks.runtime.signing import sign
from evenfold.tasks.steps import flow_run_tags, is_refreshing, step
from evenfold.tasks.work import work_of

from . import versions
from .registered import CHALLENGER, RegisteredModel, RolledBack, decision_of
from .versions import ANSWERED, DECISION, SIGNATURE, WITHDRAWN

if TYPE_CHECKING:
    from mlflow import MlflowClient
    from mlflow.entities import Run
    from mlflow.entities.model_registry import ModelVersion

OUTCOME = "retrain.json"


class Replayed(Outcome):
    """A past decision and the same made again; ``gone`` where something that it needs is no more, which words say."""

    name: str
    version: str
    verdict: Literal["same", "other", "gone"]
    words: str
    decision: Decision | None = None
    again: Decision | None = None


@step(run_name=lambda split, name="", **_: f"open retrain {name or split.name}")
def open_retraining(
    split: SplitRef, model: ModelSpec, name: str, metric: str, label: str = "", *,
    interval: Intervals = "auto", level: Level = 0.95, log_models: LogModels = "none",
    allow_partial: AllowPartial = False, build: str | None = None,
) -> Opened:  # fmt: skip
    """Find or create the run of a retraining; return its id, the decision made before, and the outcome if FINISHED.

    Each metric, interval, level, way of keeping models and build of features has a run of its own. Gates have none:
    whoever says that what they stopped is right takes up what was decided.
    """
    tracker, work = tracker_of(split), work_of(split, model)
    recipe, code = work.problem.model.canonical(), work.problem.model.code
    another = {
        "metric": (metric, work.problem.model.metrics[0]), "log_models": (log_models, "none"),
        "allow_partial": (allow_partial, False),
    }  # fmt: skip
    about: dict[str, object] = {field: value for field, (value, usual) in another.items() if value != usual}
    about |= {"model": recipe, "seed": work.manifest.spec.seed, "label": label}
    about |= unless_usual(interval, level) | parts_of_build(build)
    same = run_key(kind="retrain", name=name, split_id=split.split_id, fingerprint=work.fingerprint, **about)
    key = with_code(same, code)
    prior = tracker.find(key)
    finished = prior if prior and prior.info.status == "FINISHED" else None
    if finished and (outcome := tracker.read_ours(finished.info.run_id, OUTCOME, Retraining)):
        _require_let_in(tracker.client, split, outcome)
        return Opened(run_id=finished.info.run_id, outcome=outcome)
    params = {f"candidate.{field}": value for field, value in recipe.items()} | {"metric": metric}
    tags = split_tags(split) | origin_tags() | code_tags(same, code) | {"evenfold.split_run_id": split_run_of(split)}
    run_id = tracker.begin(Entry(key=key, name=f"retrain/{name}", tags=tags, params=params, metrics={}))
    return Opened(run_id=run_id, decision=versions.signed_decision(tracker.client.get_run(run_id)))


def _require_let_in(client: MlflowClient, split: SplitRef, outcome: Retraining) -> None:
    """Raise SplitError where what a retraining came to was withdrawn with its generation of the split."""
    if not split.staged or outcome.registered is None or is_refreshing():
        return
    tags, who = client.get_model_version(outcome.registered.name, outcome.registered.version).tags, ""
    if WITHDRAWN in tags:
        with suppress(ValueError):  # somebody wrote there
            done = RolledBack.model_validate_json(tags[WITHDRAWN])
            who = f" by {done.by} ({done.reason})"
        raise SplitError(
            f"this table was let in as {split.name} {split.version} and withdrawn{who}; retrain with a corrected one, "
            "or let it in again by refresh=True (--refresh)."
        )


@step(run_name=lambda split, **_: f"record the decision on {split.name}")
def record_decision(split: SplitRef, run_id: str, decision: Decision) -> Decision:
    """Keep a decision before it is acted on: a retraining that was killed goes on with it."""
    text = json.dumps(asdict(decision))
    tracker_of(split).tell(run_id, {DECISION: text, SIGNATURE: sign("decision", {"run": run_id, "decision": text})})
    return decision


@step(run_name=lambda split, name="", **_: f"earlier comparisons of {name or split.name}")
def read_looks(split: SplitRef, name: str = "") -> list[EarlierLook]:
    """Return the earlier comparisons of a name, the oldest first; what was not signed has spent, and has seen nothing.

    Raises SplitError where one cannot be read: left out, it would count as having spent nothing.
    """
    return looks_of(RegisteredModel(tracker_of(split), name or split.name))


def looks_of(model: RegisteredModel, before: Run | None = None) -> list[EarlierLook]:
    """Return the comparisons of a name, as ``read_looks`` does; of those that began ``before`` one alone."""
    looks = []
    runs = sorted(model.retrainings(), key=_place)
    for run in [each for each in runs if before is None or _place(each) < _place(before)]:
        if decision := versions.decision_in(run.data.tags, f"run {run.info.run_id}"):
            day, ours = start_of(run), versions.is_signed_decision(run)
            looks.append(EarlierLook.of(decision, day) if ours else EarlierLook(day, decision.spent))
    return looks


def _place(run: Run) -> tuple[int, str]:
    return run.info.start_time, run.info.run_id


def start_of(run: Run) -> date:
    """Return the day on which a run began."""
    return datetime.fromtimestamp(run.info.start_time / 1000, UTC).date()


@step(run_name=lambda split, name="", **_: f"register {name or split.name}")
def register_model(
    split: SplitRef, model: Model, final: FinalModel, *, run_id: str, name: str = "", promote: bool = False,
    evaluation_run_id: str = "", estimates: Sequence[Estimate] = (), decision: Decision | None = None,
) -> Registered:  # fmt: skip
    """Log a model of ``fit_final``, make it a version, and the champion where it is promoted, else the challenger.

    Who was champion becomes ``previous``. The version remembers the evaluation of the recipe and its estimates. One run
    registers one version, however often it is tried; of two homes with one registry the later takes its own back.
    Raises ChampionChangedError where another version serves than ``decision`` was made against, and EvaluationError
    where ``final`` is no model of this recipe on all rows of this split or on one of its splits.
    """
    name, work = name or split.name, work_of(split, model)
    require_final(work, final, "final", [None, *split.splits()])
    registered = RegisteredModel(tracker_of(split), name)
    client = registered.client
    tags = split_tags(split) | flow_run_tags() | {RUN_KEY: client.get_run(run_id).data.tags.get(RUN_KEY, run_id)}
    tags |= versions.model_tags(work.problem.model, final, work.fingerprint, evaluation_run_id, estimates)
    tags |= {ANSWERED: decision.answer} if decision is not None and decision.answer else {}
    with registered.alone():
        with suppress(Exception):  # of one that is there; a store out of reach says so again
            client.create_registered_model(name, description="Retrained by evenfold.")
        version = registered.version_of(run_id)
        registered.require_champion(decision, version)
        version = version or _new_version(registered, run_id, work.problem, final, tags, decision)
        # New, or a try was killed before; one that is not what we made stays refused.
        if not versions.is_signed_version(version):
            versions.sign_version(client, version, tags)
        number = str(version.version)
        if promote:
            registered.require_champion(decision, version)
            registered.make_champion(number)
        else:
            client.set_registered_model_alias(name, CHALLENGER, number)
    uri = f"models:/{name}/{number}"
    return Registered(name=name, version=number, uri=uri, champion=promote, run_id=version.run_id)


def _new_version(
    registered: RegisteredModel, run_id: str, problem: Problem, final: FinalModel, tags: dict[str, str],
    decision: Decision | None,
) -> ModelVersion:  # fmt: skip
    """Log the model of a run, and return its version; two hosts share no lock: of twins the first."""
    client, estimator = registered.client, str(problem.model.estimator)
    model = versions.keep_model(registered.tracker, run_id, final, estimator, problem.X)
    words = f"{estimator.rpartition(':')[2]}, trained on {final.n_train:,} rows of {tags['evenfold.spec']}."
    if decision is not None:
        words = f"{words} {decision.why.capitalize()}. {plain(decision.answer)}".rstrip()
    # A server checks that the source belongs to the logged model. MLflow would look the model's URI up in the store of
    # the process, which is the user's.
    about = {"run_id": run_id, "model_id": model.model_id, "tags": tags, "description": words}
    own = client.create_model_version(registered.name, model.artifact_location, **about)
    first = registered.version_of(run_id) or own
    if str(first.version) != str(own.version):
        client.delete_model_version(registered.name, str(own.version))
    return first


@step(run_name=lambda split, **_: f"record retrain {split.name}")
def close_retraining(split: SplitRef, outcome: Retraining) -> Retraining:
    """Log figures, report and outcome, and set the run FINISHED last."""
    tracker, run_id, decision = tracker_of(split), outcome.run_id, outcome.decision
    page = outcome.as_page()
    outcome = outcome.model_copy(update={"report": page_note(page, {}, scores_table(outcome.estimates))})
    metrics = {f"promotion/{name}": getattr(decision, name) for name in ("difference", "low", "high", "p")}
    metrics |= {"promotion/promoted": float(decision.promote), "stored_champion/score": outcome.judged.score}
    tracker.measured(run_id, {name: float(value) for name, value in metrics.items() if value is not None})
    tracker.keep(run_id, {"retrain.md": outcome.report, "report.html": page.html()})
    tracker.tell(run_id, {NOTE: outcome.report[:5000]})
    tracker.keep_signed(run_id, OUTCOME, outcome.model_dump(mode="json"))
    tracker.finish(run_id)
    return outcome


def fail_retraining(split: SplitRef, run_id: str, reason: str) -> None:
    """Mark a retraining as failed, with the reason where people look for it.

    Where MLflow is out of reach it stays RUNNING: the same request goes on with it.
    """
    try:
        tracker_of(split).fail(run_id, reason)
    except Exception as error:
        if not unreachable(error):
            raise


def replay(name: str, version: str) -> Replayed:
    """Make the decision by which a version was registered again: from the signed predictions that were compared.

    By the two evaluations, the earlier comparisons of the name and the rule of now; nothing is fitted, no table read.
    What is gone, or not signed any more, the sentence says. Raises SplitError where there is no such version.
    """
    model, numbered = RegisteredModel.existing(name, version)
    this, what = numbered[version], f"version {version} of {name}"
    verdict: Literal["same", "other", "gone"] = "gone"
    decision = again = None
    try:
        versions.require_signed_version(this)
        decision = decision_of(model.tracker, this)
        again = _decided_again(model, numbered, this, decision)
        apart = _apart(decision, again)
        left = {run.info.run_id for run in model.retrainings()} if apart else set()
        earlier = [each for number, each in numbered.items() if apart and int(number) < int(version)]
        if lost := [f"run {each.run_id[:8]} of version {each.version}" for each in earlier if each.run_id not in left]:
            raise SplitError(f"of earlier comparisons, which say what error it may have, {listed(lost)} was deleted.")
        verdict, words = "same", f"{what} is decided again as it was: {again.why}."
        if apart:
            verdict, words = "other", f"{what} is decided in another way now: {', '.join(apart)}."
    except EvenfoldError as error:
        words = f"{what} cannot be decided again: {error}"
    return Replayed(name=name, version=version, verdict=verdict, words=words, decision=decision, again=again)


def _apart(decision: Decision, again: Decision) -> list[str]:
    """Return what two decisions differ in, numbers by more than their last digits."""
    apart = []
    for field in ("winner", "promote", "metric", "difference", "low", "high", "spent"):
        was, now = getattr(decision, field), getattr(again, field)
        numbers = isinstance(was, float) and isinstance(now, float)
        if not (isclose(was, now, rel_tol=1e-9, abs_tol=1e-12) if numbers else was == now):
            apart.append(f"{field} {was} then and {now} now")
    return apart


def _decided_again(
    model: RegisteredModel, numbered: Mapping[str, ModelVersion], this: ModelVersion, decision: Decision
) -> Decision:
    if decision.champion is None:
        return promotion.without_champion(decision.metric, decision.why)
    if decision.champion not in numbered:
        raise SplitError(f"version {decision.champion}, the champion of then, is no more.")
    tags = numbered[decision.champion].tags
    newer, values = (this.tags.get(tag) != tags.get(tag) for tag in ("evenfold.split_id", "evenfold.values"))
    if decision.difference is None:
        return promotion.same_recipe(decision.metric, newer or values)
    if decision.runs is None:
        raise SplitError("which evaluations were compared was not recorded, as where the champion's code was no more.")
    both = [read_evaluation(run_id) for run_id in decision.runs]
    if others := [each.run_id[:8] for each in both if not each.is_ours()]:
        raise SplitError(f"the predictions of run {others[0]} were not signed by this home, or were changed since.")
    served, candidate = (read_recipe(run_id).estimates for run_id in decision.runs)
    stratified, ordered = (both[0].tags.get(f"evenfold.{trait}") == "true" for trait in ("stratified", "ordered"))
    comparison = compare(
        both[0].predictions, both[1].predictions, decision.metric, on=both[0].key, stratified=stratified,
        n_train=both[1].mean_of_folds("n_train"), ordered=ordered, names=promotion.ROLES,
        apparent=apparent_of(served, candidate, decision.metric),
    )  # fmt: skip
    run = run_named(model.tracker, str(this.run_id))
    looks = looks_of(model, run)
    error = promotion.to_spend(looks, start_of(run))
    again = promotion.decide(
        decision.metric, Difference.of(comparison), newer, error=error, pair=decision.pair, earlier=looks
    )
    return replace(again, champion=decision.champion, runs=decision.runs)
