"""Retraining: grow the split, audit it, compare recipes on the same folds, refit the winner, register it."""

from __future__ import annotations

import shutil
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import cached_property, partial
from typing import Any
from uuid import UUID

from evenfold.estimates import EvaluationError, ModelError, ModelSpec
from evenfold.estimates.comparison import apparent_of
from evenfold.estimates.intervals.months import Judgement
from evenfold.estimates.promotion import Decision, decide, same_recipe, to_spend, without_champion
from evenfold.manifests import Audit, digest_json, from_anywhere, name_of, read_header, specification
from evenfold.manifests.store.stored import STAGED, owned
from evenfold.manifests.store.versions import versions_of
from evenfold.splitters import SplitError, UntrustedNameError
from evenfold.splitters.errors import listed
from evenfold.tasks.fits import fit_final
from evenfold.tasks.outcomes import Champion, Growth, Registered, SplitRef
from evenfold.tasks.plans import plan_of
from evenfold.tasks.record import entries
from evenfold.tasks.record.models import promoting, registered as registry, retraining, versions
from evenfold.tasks.record.models.committing import ask, committing, settle_commits
from evenfold.tasks.record.models.retraining import Opened, Retraining as Retraining
from evenfold.tasks.record.splits import read_split
from evenfold.tasks.record.tracker import tracker_of
from evenfold.tasks.runtime.home import Home
from evenfold.tasks.runtime.progress import saying
from evenfold.tasks.scores import compared
from evenfold.tasks.splits import audit_split, check_table, extend, keep_snapshot, newest, stage_split
from evenfold.tasks.steps import finished, happened, publish, run, tell
from evenfold.tasks.work import work_of
from prefect.exceptions import Pause

from . import definitions
from .evaluation import check_evaluation, evaluated, refused, stop_where_failed
from .flow import flow
from .outcomes import Evaluation, GateError, SplitOutcome, WaitingError
from .requests import Request
from .splitting import recorded, say_extended


@dataclass(frozen=True)
class Course:
    """The values that stay the same through one retraining."""

    split: SplitRef
    growth: Growth
    arrival: Audit | None
    candidate: ModelSpec
    name: str
    metric: str
    request: Request

    @cached_property
    def recorded(self) -> SplitOutcome:
        """The split and the run that records it, for every recipe that is evaluated on it."""
        return recorded(self.split, self.split.reused)


@flow(definitions.retrain, check_evaluation)
def retrain(request: Request) -> Retraining:
    """Retrain; the same request for the same data, recipe and label is retrained once.

    What joins the split stays aside until its data were found sound and a model was registered: where a gate or the
    judgement refuses them, nothing is left but the record.
    """
    home, spec, recipe = Home.here(), request.specification, request.recipe
    staged = home.splits / spec.name / owned(STAGED)
    settle_commits(home, spec.name)
    try:
        champion = None
        with suppress(SplitError, UntrustedNameError):  # which the run that records this retraining says
            champion = registry.champion_of(request.registered_name or spec.name)
        growth, arrival = _grown(request, str(staged), champion)
        split = growth.split.asked(spec)
        candidate, metric = work_of(split, recipe).problem.judged_by(request.metric)
        name = request.registered_name or split.name
        return _taken_up(Course(split, growth, arrival, candidate, name, metric, request))
    finally:
        shutil.rmtree(staged, ignore_errors=True)
        with suppress(OSError):  # other versions lie there
            staged.parent.rmdir()


@retrain.on_failure
def tell_failed(flow: Any, flow_run: Any, state: Any) -> None:  # noqa: ARG001 (a hook has these three)
    """Tell Prefect once that a retraining has failed for good, after every retry, and why."""
    data, spec, name = (flow_run.parameters.get(field) for field in ("data", "spec", "name"))
    try:  # of what else was asked any part may be why it failed
        name = specification(data, spec, name=name).name
    except Exception:
        name = name or name_of(data)
    happened("retrain.failed", name, str(state.message), flow_run=str(flow_run.id))


def _taken_up(course: Course) -> Retraining:
    """Return what a retraining came to before, or comes to now: audited, decided, and where it fails recorded so."""
    split, request = course.split, course.request
    opened = run(
        retraining.open_retraining, split, course.candidate, course.name, course.metric, request.run_label,
        interval=request.interval, level=request.level, log_models=request.log_models,
        allow_partial=request.allow_partial, build=request.build,
    )  # fmt: skip
    if opened.outcome and not request.refresh:
        return opened.outcome.model_copy(update={"reused": True})
    try:
        with saying("auditing"):
            features = list(work_of(split, course.candidate).problem.features)
            audited = run(audit_split, split, features=features, build=request.build)
        stop_where_failed(audited, f"the audit of {split.name} {split.version} failed", request.gates)
        while True:  # once, but where others change the champion meanwhile
            try:
                return _decided(course, opened, audited)
            except registry.ChampionChangedError as error:
                tell([f"The decision is made again: {error}"])
    except (WaitingError, Pause):  # for an answer
        raise
    except BaseException as error:  # also one that is cancelled
        tracker_of(split).fail(opened.run_id, str(error) or type(error).__name__)
        raise


def _decided(course: Course, opened: Opened, audited: Audit) -> Retraining:
    """Decide between candidate and champion, or go by what was decided before; fit and check the winner; commit both.

    ``victor`` is the champion where it won. Raises ChampionChangedError where another became champion meanwhile.
    """
    split, champion = course.split, run(registry.read_champion, course.split, course.name)
    now, before = champion.version if champion else None, opened.decision
    # A decision stands while its champion serves, or this run's own version does.
    held = before if before and (before.champion == now or (champion and champion.run_id == opened.run_id)) else None
    if begun := opened.begun if held else None:  # whoever is champion by now may know the rows that joined
        champion, growth, judged = begun.champion, begun.growth, begun.judged
    else:
        growth, judged = course.growth, _judged(course, champion, opened.run_id)
    winner = candidate = evaluated(course.recorded, course.candidate, course.request)
    # One that is taken up again has decided already: a second look would spend the year's error twice, as would two
    # that look back at once.
    with registry.RegisteredModel(tracker_of(split), course.name).alone("looks"):
        decision = held or replace(_decide(course, opened.run_id, champion, candidate), champion=now)
        run(retraining.record_decision, split, opened.run_id, decision)
    victor = champion if decision.winner == "champion" else None
    gone = versions.moved_code(victor) if victor else []  # without its code it is neither evaluated nor fitted
    recipe, checked, register = course.candidate, None, None
    measured = victor.model.with_metric(course.metric) if victor and victor.model and not gone else recipe
    if measured.canonical() != recipe.canonical():  # also where the same is asked for with fewer metrics
        recipe, winner = measured, evaluated(course.recorded, measured, course.request)
    if not victor or (decision.promote and not gone):  # else it would be the champion's own model
        with saying("fitting the final model"):
            final = run(fit_final, split, recipe)
        checked = run(promoting.check_model, winner, final, champion, course.metric)
        what = f"the new model of {course.name} does not take the champion's place"
        stop_where_failed(checked, what, course.request.gates)
        register = partial(
            run, retraining.register_model, split, recipe, final, run_id=opened.run_id, name=course.name,
            evaluation_run_id=winner.run_id, estimates=winner.estimates,
        )  # fmt: skip
    loser = candidate.model if victor else champion.model if champion else None
    outcome = Retraining(
        split=split, growth=growth, judged=judged, audit=audited, champion=champion, checked=checked,
        evaluation_run_id=candidate.run_id, decision=decision, registered=None, run_id=opened.run_id,
        estimates=[] if gone else winner.estimates, model=victor.model if victor and gone else winner.model,
        loser=loser if decision.difference is not None else None,
    )  # fmt: skip
    return _committed(course, outcome, register, begun is not None)


def _committed(course: Course, outcome: Retraining, register: partial[Registered] | None, begun: bool) -> Retraining:
    """Commit what was decided: the split that grew, and the new model where there is one; and record and tell it.

    A person is asked before where that is asked for; raises GateError for a no, or no answer in time.
    """
    split, name, request = course.split, course.name, course.request
    decision, asks = outcome.decision, request.gates and request.on_unclear == "ask" and not begun
    if doubts := outcome.doubts(course.arrival, request.ask_above) if asks and (register or split.staged) else {}:
        question = ask(outcome, name, doubts, request.answer_within)
        answer = question.answer
        if answer is None and question.seconds > 0:
            raise WaitingError(f"{question.pending} The same request goes on then.")
        if answer is None or not answer.approve:
            raise refused(split.name, f"{question.refusal} Another run_label (--run-label) asks again.")
        decision = run(retraining.record_decision, split, outcome.run_id, replace(decision, answer=answer.words))
    outcome = outcome.model_copy(update={"decision": decision})
    tracker_of(split).keep_signed(outcome.run_id, retraining.OUTCOME, outcome.model_dump(mode="json"))
    with committing(split, name, outcome.run_id):
        registered = register(promote=decision.promote, decision=decision) if register else None
    keep_snapshot(split)  # of what was learnt from: a table that was refused is nothing to compare with
    say_extended(outcome.growth)
    if registered is not None and registered.champion:
        words = f"{name} version {registered.version} is the new champion: {decision.why}."
        about = {"model": name, "version": registered.version}
        happened("champion.promoted", split.name, words, UUID(registered.run_id), **about)
    outcome = run(retraining.close_retraining, split, outcome.model_copy(update={"registered": registered}))
    tell([outcome.summary])
    publish(f"retrain-{split.name}", outcome.report, "What the newest retraining decided, and why.")
    return outcome


def _grown(request: Request, staged: str, champion: Champion | None) -> tuple[Growth, Audit | None]:
    """Return the champion's split, extended by the new rows, or a first one; and what was looked at.

    Raises GateError where the data do not look like the next table, before anything is written.
    """
    data, spec, merged, on_refused = request.data, request.specification, request.merged, request.on_refused
    with saying("splitting"):
        path = from_anywhere(data)
        plan = plan_of(spec, path)
        split_id = champion and champion.tags.get("evenfold.split_id")
        here = versions_of(Home.here().splits, spec.name).values()
        if split_id and all(read_header(each)["split_id"] != split_id for each in here):
            try:  # what the champion stands on was made in another home, as where this is a new container's
                read_split(split_id)
            except SplitError as error:  # whether another line may be taken is said by whoever looks for this one
                tell([str(error)])
        folder = newest(Home.here(), plan.spec, champion, on_refused)
        arrival, notes = None, []
        if folder is not None:
            if spec.columns.key:  # else nobody can tell which rows are known; extending says so
                arrival = run(check_table, str(folder), path, recipe=request.recipe, merged=merged, gates=spec.gates)
                before = f"{arrival.name} {arrival.version}"
                stop_where_failed(arrival, f"the data do not look like the next table of {before}", request.gates)
                notes += [*(each.message for each in arrival.findings), *filter(None, arrival.passed.values())]
            grown = finished(extend, str(folder), data, merged=merged, max_missing=1, staged=staged)
            if not isinstance(grown.error, SplitError):
                return grown.value.model_copy(update={"notes": [*grown.value.notes, *notes]}), arrival
            # A strategy that cannot grow may be asked about the same data again: its split is there.
            if read_header(folder)["plan_id"] != plan.plan_id:
                why = f"{plan.spec.name} {folder.name} was not extended: {grown.error}"
                if on_refused == "stop":
                    raise SplitError(
                        f"{why} The retraining stopped: a new split forgets which rows were tested; to make one "
                        "nevertheless, say on_refused='new_major' (--on-refused new_major)."
                    )
                notes.append(f"{why} A new split was made.")
        first = run(stage_split, data, spec, staged)
        return Growth(split=first, added=first.n_rows, notes=notes), arrival


def _judged(course: Course, champion: Champion | None, run_id: str) -> Judgement:
    """Return what the champion says of the rows that joined; raises GateError where they may not be learnt from."""
    split, request = course.split, course.request
    judged = run(promoting.judge_month, split, champion, course.metric, course.arrival, run_id)
    unclear = judged.verdict == "unclear"
    if request.gates and (judged.verdict == "refused" or (unclear and request.on_unclear == "stop")):
        verdict = "cannot be judged (on_unclear='commit', --on-unclear commit, lets them in)"
        words = f"what joins {split.name} {split.version} {verdict if unclear else 'is refused'}: "
        words += f"{' '.join(judged.sentences)} If it is right, say gates=False (--no-gates)."
        raise refused(split.name, words)
    if unclear:
        tell([f"Warning: {sentence}" for sentence in judged.sentences])
    return judged


def _decide(course: Course, run_id: str, champion: Champion | None, candidate: Evaluation) -> Decision:
    """Return who serves, by scores on the same rows; GateError where champion and candidate cannot be compared."""
    if champion is None:
        return without_champion(course.metric, "it is the first version, so there is nothing to compare it with")
    if champion.model is None:
        raise _undecided(champion, "it names no recipe")
    newer = champion.tags.get("evenfold.split_id") != course.split.split_id
    moved, measured = versions.moved_code(champion), champion.model.with_metric(course.metric)
    if not moved and champion.model.trains_like(course.candidate):
        fingerprint = work_of(course.split, course.candidate).fingerprint
        return same_recipe(course.metric, newer or champion.tags.get("evenfold.values") != fingerprint)
    # Names two recipes that are compared again and again while one split grows.
    line = [course.split.name, course.split.version.partition(".")[0], course.metric]
    pair = digest_json([*line, measured.canonical(), course.candidate.canonical()])
    beside, served = partial(compared, course.split, course.candidate, measured, course.metric), None
    changed, code = f"{listed(moved)} changed since version {champion.version}", entries.code_in(champion.tags)
    try:
        if moved:  # by the scores that are kept of it; where it wins it is not refitted, for that would be code of now
            difference, newer, pair = beside(code), False, digest_json([pair, code])
        else:
            served = evaluated(course.recorded, measured, course.request)
            difference = beside(apparent=apparent_of(served.estimates, candidate.estimates, course.metric))
    except UntrustedNameError:
        raise
    except (ModelError, SplitError, EvaluationError) as reason:
        why = f"{changed}, and {reason} (retrain on the table before, of which there are)" if moved else str(reason)
        raise _undecided(champion, why) from reason
    looks = run(retraining.read_looks, course.split, course.name, run_id)
    error = to_spend(looks, datetime.now(UTC).date())
    decision = decide(course.metric, difference, newer, error=error, pair=pair, earlier=looks)
    if served is None:
        return replace(decision, words=f"{changed}. {decision.words}")
    return replace(decision, runs=(served.run_id, candidate.run_id))


def _undecided(champion: Champion, why: str) -> GateError:
    """Return the error of a champion that cannot be compared: it does not give way to what nobody has compared."""
    name = champion.name
    return GateError(
        f"version {champion.version} of {name}, the champion, cannot be compared with the candidate: "
        f"{why.rstrip('.')}. Nothing is promoted uncompared; whoever answers for {name} decides: put right what is "
        f"wrong, make another version the champion (evenfold rollback {name} --to VERSION), or take the alias champion "
        "off it in MLflow, and the candidate is the first."
    )
