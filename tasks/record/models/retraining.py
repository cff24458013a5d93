"""A retraining: its result, and its run, found by its key: begun, decided, its model registered, and closed."""

from __future__ import annotations

import json
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

from evenfold.estimates import Estimate, ModelSpec, Problem
from evenfold.estimates.intervals.months import Judgement
from evenfold.estimates.promotion import Decision, EarlierLook
from evenfold.estimates.results import figures_of
from evenfold.manifests import Audit
from evenfold.reports.evaluations.decisions import difference_words
from evenfold.reports.evaluations.words import scores_table
from evenfold.reports.texts import page_note, plain
from evenfold.splitters.errors import Displayed, SplitError
from evenfold.tasks.fits import require_final
from evenfold.tasks.outcomes import Champion, FinalModel, Growth, Outcome, Registered, SplitRef
from evenfold.tasks.parameters import AllowPartial, Intervals, Level, LogModels, Model
from evenfold.tasks.plans import parts_of_build
from evenfold.tasks.record.entries import CODE, Entry, coded, run_key, split_tags
from evenfold.tasks.record.reading import parts_of_record
from evenfold.tasks.record.splits import origin_tags, split_run_of
from evenfold.tasks.record.tracker import NOTE, RUN_KEY, tracker_of
from evenfold.tasks.runtime.signing import sign
from evenfold.tasks.steps import flow_run_tags, is_refreshing, step
from evenfold.tasks.work import work_of

from evenfold import reports

from . import versions
from .registered import CHALLENGER, RegisteredModel, RolledBack
from .versions import ANSWERED, DECISION, DIGEST, EVALUATION, RECIPE_OF, SIGNATURE, WITHDRAWN

if TYPE_CHECKING:
    from mlflow.entities.model_registry import ModelVersion

OUTCOME, MOST_SCORES = "retrain.json", 30
ITS_OWN = RUN_KEY, RECIPE_OF  # the tags of a retraining's version: a refresh may decide for the other recipe


class Retraining(Displayed, Outcome):
    """The result of a retraining; ``reused`` where the same one was finished before.

    ``model``: the recipe that serves, which ``estimates`` are of; ``loser``: the other one, where two were compared.
    ``checked``: what was asked of the new model before it was promoted, None where none was to be.
    """

    split: SplitRef
    growth: Growth
    audit: Audit
    champion: Champion | None
    evaluation_run_id: str
    decision: Decision
    registered: Registered | None
    run_id: str
    checked: Audit | None = None
    judged: Judgement = Judgement()
    reused: bool = False
    estimates: list[Estimate] = []
    model: ModelSpec | None = None
    loser: ModelSpec | None = None

    @property
    def address(self) -> str:
        """The version that serves, as MLflow names it; the run of the retraining where none does."""
        served = self.registered or self.champion
        return f"models:/{served.name}/{served.version}" if served else self.run_id

    @property
    def compared(self) -> str:
        """Say in a sentence how far the candidate is from the champion; empty where nothing was compared."""
        return difference_words(self.decision, *self._titles)

    @property
    def _titles(self) -> tuple[str, str]:
        return self.model.title if self.model else "", self.loser.title if self.loser else ""

    @property
    def summary(self) -> str:
        """Say in one line what was decided and why."""
        name = self.registered.name if self.registered else self.split.name
        what = "promoted" if self.decision.promote else "not promoted"
        return f"Retraining of {name} on {self.split.name} {self.split.version}: {what}, {self.decision.why}"

    @property
    def beside(self) -> list[str]:
        """The sentences on what became of it: nothing new where it was reused, and what the registry holds."""
        sentences = ["nothing has changed since this was decided, so nothing was done"] if self.reused else []
        if version := self.registered:
            became = "is champion" if version.champion else "is kept beside the champion"
            sentences.append(f"registry: {version.uri} {became}")
        return sentences

    def doubts(self, arrival: Audit | None, most: float | None) -> dict[str, str]:
        """Return what nothing decides, by name: what is unclear, warnings, a candidate better by more than ``most``."""
        doubts = {"new_rows": " ".join(self.judged.sentences)} if self.judged.verdict == "unclear" else {}
        for audit in filter(None, (arrival, self.audit, self.checked)):
            doubts |= {finding.check: finding.message for finding in audit.findings if finding.severity == "warning"}
        better = (self.decision.difference or 0.0) if self.decision.winner == "candidate" else 0.0
        if most is not None and better > most:
            doubts["ask_above"] = f"The candidate is better by {better:.4g}, more than {most:g}."
        return doubts

    @property
    def report(self) -> str:
        """The page of the decision as Markdown."""
        return page_note(self.as_page(), {}, scores_table(self.estimates))

    def as_page(self) -> reports.Page:
        """Return the page of the decision."""
        rows, split = self.growth, self.split
        left = f"{rows.deleted:,} deleted, {rows.quarantined:,} quarantined"
        joined = f"{rows.added:,} rows joined, {rows.moved:,} moved, {left}: split_id {split.split_id}."
        return reports.retraining_page(
            self.registered.name if self.registered else split.name, self.decision, self.estimates, self.audit,
            self.checked, version=self.registered.version if self.registered else "", growth=[joined, *rows.notes],
            month=self.judged, split=f"{split.name} {split.version}", titles=self._titles,
            origin=reports.Origin(Path(split.data).name, self.run_id),
        )  # fmt: skip


class Opened(Outcome):
    """The run of a retraining: its outcome if it finished, else its decision, and what it had ``begun`` to commit."""

    run_id: str
    decision: Decision | None = None
    outcome: Retraining | None = None
    begun: Retraining | None = None


@step(run_name=lambda split, name="", **_: f"open retrain {name or split.name}")
def open_retraining(
    split: SplitRef, model: ModelSpec, name: str, metric: str, label: str = "", *, interval: Intervals = "auto",
    level: Level = 0.95, log_models: LogModels = "none", allow_partial: AllowPartial = False, build: str | None = None,
) -> Opened:  # fmt: skip
    """Find or create the run of a retraining; return its id, the decision made before, and the outcome if FINISHED.

    What else is asked for has a run of its own, but for gates: who says that what they stopped is right takes it up.
    SplitError where what it came to was withdrawn with its generation of the split.
    """
    tracker, work = tracker_of(split), work_of(split, model)
    recipe = work.problem.model
    usual = {"metric": recipe.metrics[0], "log_models": "none", "allow_partial": False}
    another = {"metric": metric, "log_models": log_models, "allow_partial": allow_partial}.items() - usual.items()
    about = parts_of_record(work, label, interval, level) | parts_of_build(build) | {"kind": "retrain", "name": name}
    key, code = coded(run_key(**about, **dict(another)), recipe.code)
    run = tracker.find(key)
    once_more = run and split.staged and not is_refreshing()
    own = RegisteredModel(tracker, name).version_of({RUN_KEY: key}) if once_more else None
    if own and WITHDRAWN in own.tags:  # with its generation of the split
        who = ""
        with suppress(ValueError):  # somebody wrote there
            done = RolledBack.model_validate_json(own.tags[WITHDRAWN])
            who = f" by {done.by} ({done.reason})"
        raise SplitError(
            f"this table was let in as {split.name} {split.version} and withdrawn{who}; retrain with a corrected "
            "one, or let it in again by refresh=True (--refresh)."
        )
    if run and run.info.status == "FINISHED" and (outcome := tracker.read_ours(run.info.run_id, OUTCOME, Retraining)):
        return Opened(run_id=run.info.run_id, outcome=outcome)
    params = {f"candidate.{field}": value for field, value in recipe.canonical().items()} | {"metric": metric}
    tags = split_tags(split) | origin_tags() | code | {"evenfold.split_run_id": split_run_of(split)}
    run = tracker.begin(Entry(key=key, name=f"retrain/{name}", tags=tags, params=params))
    run_id, decision = run.info.run_id, versions.signed_decision(run)
    # What was begun with a split that is staged again was undone.
    begun = tracker.read_ours(run_id, OUTCOME, Retraining) if decision and not split.staged else None
    return Opened(run_id=run_id, decision=decision, begun=begun if begun and begun.decision == decision else None)


@step(run_name=lambda split, **_: f"record the decision on {split.name}")
def record_decision(split: SplitRef, run_id: str, decision: Decision) -> Decision:
    """Keep a decision before it is acted on: a retraining that was killed goes on with it."""
    text = json.dumps(asdict(decision))
    tracker_of(split).tell(run_id, {DECISION: text, SIGNATURE: sign("decision", {"run": run_id, "decision": text})})
    return decision


@step(run_name=lambda split, name="", **_: f"earlier comparisons of {name or split.name}")
def read_looks(split: SplitRef, name: str = "", own: str = "") -> list[EarlierLook]:
    """Return the earlier comparisons of a name, the oldest first; what was not signed has spent, and has seen nothing.

    What a run has decided before is replaced by what it decides now: its ``own`` is no earlier one. Raises SplitError
    where one cannot be read: left out, it would count as having spent nothing.
    """
    return RegisteredModel(tracker_of(split), name or split.name).looks(own=own)


@step(run_name=lambda split, name="", **_: f"register {name or split.name}")
def register_model(
    split: SplitRef, model: Model, final: FinalModel, *, run_id: str, name: str = "", promote: bool = False,
    evaluation_run_id: str = "", estimates: Sequence[Estimate] = (), decision: Decision | None = None,
) -> Registered:  # fmt: skip
    """Log a model of ``fit_final``, make it a version, and the champion where it is promoted, else the challenger.

    One run registers one version, however often it is tried; of two homes with one registry the later takes its own
    back. ChampionChangedError: another version serves than ``decision`` was made against.
    """
    name, work = name or split.name, work_of(split, model)
    require_final(work, final, "final", ["all rows", *split.splits()])
    registered, recipe = RegisteredModel(tracker_of(split), name), work.problem.model
    client = registered.client
    tags = split_tags(split) | flow_run_tags() | {RUN_KEY: client.get_run(run_id).data.tags.get(RUN_KEY, run_id)}
    tags |= {RECIPE_OF: json.dumps(recipe.model_dump(mode="json", exclude_defaults=True))}
    tags |= {CODE: json.dumps(recipe.code)} if recipe.code else {}
    tags |= {"evenfold.values": work.fingerprint, "evenfold.n_train": str(final.n_train), DIGEST: final.file.sha256}
    scores = [figures_of(each, ("metric", "method", "value", "sd")) for each in estimates[:MOST_SCORES]]
    tags |= {EVALUATION: evaluation_run_id, "evenfold.scores": json.dumps(scores)} if evaluation_run_id else {}
    tags |= {ANSWERED: decision.answer} if decision is not None and decision.answer else {}
    with registered.alone():
        with suppress(Exception):  # of one that is there; a store out of reach says so again
            client.create_registered_model(name, description="Retrained by evenfold.")
        version = registered.version_of({name: tags[name] for name in ITS_OWN})
        registered.require_champion(decision, version)
        version = version or _new_version(registered, run_id, work.problem, final, tags, decision)
        versions.sign_version(client, version, tags)  # as what we made: one that is something else stays refused
        number = str(version.version)
        if promote:
            promote = registered.make_champion(version, decision)
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
    model = versions.keep_model(registered.tracker, run_id, final, estimator, problem)
    words = f"{estimator.rpartition(':')[2]}, trained on {final.n_train:,} rows of {tags['evenfold.spec']}."
    if decision is not None:
        words = f"{words} {decision.why.capitalize()}. {plain(decision.answer)}".rstrip()
    # A server checks that the source belongs to the logged model. MLflow would look the model's URI up in the store of
    # the process, which is the user's.
    about = {"run_id": run_id, "model_id": model.model_id, "tags": tags, "description": words}
    own = client.create_model_version(registered.name, model.artifact_location, **about)
    first = registered.version_of({name: tags[name] for name in ITS_OWN}) or own
    if str(first.version) != str(own.version):
        client.delete_model_version(registered.name, str(own.version))
    return first


@step(run_name=lambda split, **_: f"record retrain {split.name}")
def close_retraining(split: SplitRef, outcome: Retraining) -> Retraining:
    """Log figures, report and outcome, and set the run FINISHED last."""
    tracker, run_id, decision = tracker_of(split), outcome.run_id, outcome.decision
    metrics = {f"promotion/{name}": getattr(decision, name) for name in ("difference", "low", "high", "p")}
    metrics |= {"promotion/promoted": float(decision.promote), "stored_champion/score": outcome.judged.score}
    tracker.measured(run_id, {name: float(value) for name, value in metrics.items() if value is not None})
    tracker.keep(run_id, {"report.html": outcome.as_page().html()})
    tracker.tell(run_id, {NOTE: outcome.report[:5000]})
    tracker.keep_signed(run_id, OUTCOME, outcome.model_dump(mode="json"))
    tracker.finish(run_id)
    return outcome
