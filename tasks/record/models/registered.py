"""A registered model: its versions and aliases, the champion of now and of then, and how an earlier one is it again.

A past decision is made again from what stands in MLflow, without table or store.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from contextlib import AbstractContextManager, suppress
from dataclasses import replace
from datetime import UTC, date, datetime, time
from typing import TYPE_CHECKING, Literal, NamedTuple

from evenfold.estimates import EvaluationError, ModelSpec, compare, promotion
from evenfold.estimates.comparison import apparent_of
from evenfold.estimates.promotion import Contrast, Decision, EarlierLook
from evenfold.splitters.errors import EvenfoldError, SplitError, is_deployed, listed, shown
from evenfold.splitters.untrusted import UntrustedNameError
from evenfold.tasks.outcomes import Champion, Outcome, SplitRef
from evenfold.tasks.record.reading import read_evaluation, read_recipe, run_named
from evenfold.tasks.record.tracker import Tracker
from evenfold.tasks.runtime.home import Home, locked
from evenfold.tasks.steps import is_refreshing, step

from .versions import REPLACES, WITHDRAWN, Tags, decision_in, require_signed_version, signed_decision, who_and_why

if TYPE_CHECKING:
    from mlflow.entities import Run
    from mlflow.entities.model_registry import ModelVersion

# No two of them are ever on one version.
CHAMPION, CHALLENGER, PREVIOUS = "champion", "challenger", "previous"
ROLLBACK = "evenfold.rollback."  # at the model, one tag each, and when it was: who put a champion back, and why


class ChampionChangedError(EvaluationError):
    """Another version has become champion since the decision was made."""


class RolledBack(Outcome):
    """A champion that was put back: which version is it now (None: none is), which was withdrawn, why."""

    name: str
    champion: str | None
    withdrawn: str | None
    reason: str
    by: str
    at: str


class Served(Outcome):
    """Which version was the champion at a time (None: none was), since when and why, in words."""

    name: str
    version: str | None
    since: str = ""
    why: str = ""
    note: str = ""


class RegisteredModel:
    """A model of MLflow's registry by its name; what it has is asked for each time, for others write there too."""

    def __init__(self, tracker: Tracker, name: str) -> None:
        if "'" in name:  # which would end the text in a filter of MLflow's
            raise SplitError(f"there is no model {shown(repr(name))} in the registry; no name there holds a quote.")
        self.tracker, self.client, self.name = tracker, tracker.client, name

    @classmethod
    def existing(cls, name: str, version: str | None = None) -> tuple[RegisteredModel, dict[str, ModelVersion]]:
        """Return the model of a name and its versions; raises SplitError where there is none, or not this version."""
        home = Home.here().require_record()
        model = cls(Tracker(home), name)
        versions = model.versions
        if not versions:
            raise SplitError(f"there is no model {shown(repr(name))} in the registry of {home.tracking_uri}.")
        if version is not None and version not in versions:
            raise SplitError(f"{name} has no version {shown(repr(version))}; it has {', '.join(versions)}.")
        return model, versions

    @property
    def versions(self) -> dict[str, ModelVersion]:
        """Each version by its number, the oldest first."""
        versions = self.client.search_model_versions(f"name = '{self.name}'")
        return {str(each.version): each for each in sorted(versions, key=lambda each: int(each.version))}

    @property
    def aliases(self) -> dict[str, str]:
        """The version of each alias; nothing where there is no such model."""
        from mlflow.exceptions import MlflowException

        try:
            model = self.client.get_registered_model(self.name)  # a search takes twice as long
        except MlflowException as error:
            if error.error_code not in ("RESOURCE_DOES_NOT_EXIST", "INVALID_PARAMETER_VALUE"):
                raise
            return {}
        return {alias: str(version) for alias, version in model.aliases.items()}

    def retrainings(self, condition: str = "") -> Iterator[Run]:
        """Yield the runs of its retrainings that meet a further condition, the newest first."""
        return self.tracker.runs(f"tags.`mlflow.runName` = 'retrain/{self.name}'{condition}")

    def looks(self, before: Run | None = None, own: str = "") -> list[EarlierLook]:
        """Return the comparisons of runs that began ``before`` one, but not its ``own``, as ``read_looks`` does."""
        began, looks = f" AND attributes.start_time < {before.info.start_time}" if before else "", []
        for run in reversed(list(self.retrainings(began))):
            if run.info.run_id != own and (decision := decision_in(run)):
                day, ours = _start_of(run), signed_decision(run)
                looks.append(EarlierLook.of(ours, day) if ours else EarlierLook(day, decision.spent))
        return looks

    def alone(self, of: str = "aliases") -> AbstractContextManager[None]:
        """Hold the lock under which its versions are made, promoted and taken back; or ``of`` "looks", compared."""
        home = self.tracker.home
        return locked(home.locks, f"{of}/{home.tracking_uri}/{self.name}")

    def version_of(self, tags: Mapping[str, str]) -> ModelVersion | None:
        """Return the first version with these tags, such as the key of a retraining, None where there is none."""
        return next((each for each in self.versions.values() if tags.items() <= each.tags.items()), None)

    def require_champion(self, decision: Decision | None, own: ModelVersion | None) -> dict[str, str]:
        """Return the aliases; ChampionChangedError unless the champion is what was compared with, or one's ``own``."""
        aliases = self.aliases
        now, before = aliases.get(CHAMPION) or "none", decision and (decision.champion or "none")
        if before and now not in (before, own and str(own.version)):
            raise ChampionChangedError(f"{self.name}'s champion is version {now} now, and {before} was compared with.")
        return aliases

    def make_champion(self, own: ModelVersion, decision: Decision | None) -> bool:
        """Make a version champion, as ``require_champion`` allows, and who was it the previous one; twice is once.

        Return whether it is: one that somebody took back, before its run had ended, is it again by a refresh alone.
        """
        aliases = self.require_champion(decision, own)
        if WITHDRAWN in own.tags and not is_refreshing():
            return False
        version, before = str(own.version), aliases.get(CHAMPION)
        if before not in (None, version):  # said first: a try that is killed between the two aliases goes on with it
            self.client.set_model_version_tag(self.name, version, REPLACES, before)
        self.put_aliases(version)
        return True

    def put_aliases(self, champion: str, previous: str | None = None) -> None:
        """Let a version be the champion, and another, if it is still there, the previous one: whose place it took."""
        versions = self.versions
        previous = previous or versions[champion].tags.get(REPLACES)
        previous = previous if previous != champion and previous in versions else None
        for alias, version in self.aliases.items():
            if alias == PREVIOUS or (alias == CHALLENGER and version in (champion, previous)):
                self.client.delete_registered_model_alias(self.name, alias)
        self.client.set_registered_model_alias(self.name, CHAMPION, champion)
        if previous is not None:
            self.client.set_registered_model_alias(self.name, PREVIOUS, previous)

    def champion_before(self, withdrawn: Collection[str | None]) -> str | None:
        """Return the last champion that is none of these versions and is still there; None where there is none."""
        replaced = {number: version.tags.get(REPLACES) for number, version in self.versions.items()}
        champion = self.aliases.get(CHAMPION)
        while champion is not None and champion in withdrawn:
            champion = replaced.pop(champion, None)  # once each: tags may name each other in a circle
        return champion if champion in replaced else None

    def take_back(
        self, withdrawn: Collection[str | None], champion: str | None, about: dict[str, str], previous: str | None
    ) -> RolledBack:
        """Let ``champion``, in the place of ``previous``, be it again where one of these is; all keep ``about``."""
        done = RolledBack(name=self.name, champion=champion, withdrawn=self.aliases.get(CHAMPION), **about)
        for version in filter(None, withdrawn):
            text = done.model_copy(update={"withdrawn": version}).model_dump_json()
            self.client.set_model_version_tag(self.name, version, WITHDRAWN, text)
        if done.withdrawn in withdrawn:
            tag = f"{ROLLBACK}{done.at[:23]}"  # a tag's name holds no +
            self.client.set_registered_model_tag(self.name, tag, done.model_dump_json())
            if champion is not None:
                self.put_aliases(champion, previous)
        return done


def _start_of(run: Run) -> date:
    """Return the day on which a run began."""
    return datetime.fromtimestamp(run.info.start_time / 1000, UTC).date()


@step(run_name=lambda split, name="", **_: f"champion of {name or split.name}")
def read_champion(split: SplitRef, name: str = "") -> Champion | None:
    """Return the version, recipe and tags of the model that is champion, or None where there is none.

    Raises UntrustedNameError, before anything is imported or loaded, for one that neither this home nor its team signed
    as it is now, and in a deployed run for a recipe that names what that may not import.
    """
    return champion_of(name or split.name)


def champion_of(name: str) -> Champion | None:
    """Return the champion of a registered name, as ``read_champion`` does; looking for it makes no store."""
    model = RegisteredModel(Tracker(Home.here()), name) if Home.here().is_recorded else None
    if model is None or (number := model.aliases.get(CHAMPION)) is None:
        return None
    version = model.client.get_model_version(name, number)
    require_signed_version(version)
    which = f"version {number} of {name}"
    recipe = Tags.of(version.tags, f"{which}, the champion,").model
    if recipe is not None and is_deployed():
        try:
            ModelSpec.of_others(recipe.model_dump(), ModelSpec())
        except UntrustedNameError as error:
            raise UntrustedNameError(f"the recipe of {which}: {error}") from None
    return Champion(name=name, version=number, model=recipe, tags=version.tags, run_id=version.run_id)


@step(run_name=lambda name, **_: f"roll back {name}", retries=0)
def roll_back(name: str, *, to: str | None = None, reason: str) -> RolledBack:
    """Make an earlier version the champion again: ``to``, or the one that was champion before this one.

    Who did it, when and why is kept at the version that is withdrawn (``evenfold.withdrawn``) and at the model
    (``evenfold.rollback.`` and the time). A second rollback goes back one more. Raises SplitError without any of these.
    """
    model, versions = RegisteredModel.existing(name, to)
    with model.alone():
        champion, previous = map(model.aliases.get, (CHAMPION, PREVIOUS))
        if to is not None and to == champion:
            raise SplitError(f"version {to} of {name} is the champion already.")
        chosen = to or model.champion_before([champion]) or previous
        if chosen not in versions:
            where = f"before version {champion} " if champion else ""
            raise SplitError(
                f"{name} remembers no champion {where}that is still there; name another of its versions "
                f"{', '.join(versions)} (--to)."
            )
        return model.take_back([champion], chosen, who_and_why("a rollback", reason), champion if to else None)


class Handover(NamedTuple):
    """A change of champion: when and to which version, why, and over which one where a decision says so."""

    at: datetime
    version: str | None
    why: str
    over: str | None = None


def champion_as_of(name: str, at: date | datetime | str) -> Served:
    """Return which version of a model was the champion at a time, or at the end of a day (UTC, as 2026-05-31).

    By the last promotion with a signed decision, rollback or withdrawal before. Versions that were deleted and aliases
    moved by hand leave no date, which a ``note`` says. Raises SplitError where there is no such model, or no such date.
    """
    model, versions = RegisteredModel.existing(name)
    try:
        day = date.fromisoformat(at) if isinstance(at, str) else at
    except ValueError:
        raise SplitError(f"{shown(repr(at))} is no date; write one such as 2026-05-31, in UTC.") from None
    end = day if isinstance(day, datetime) else datetime.combine(day, time.max)
    end = end if end.tzinfo else end.replace(tzinfo=UTC)
    nobody = Handover(datetime.min.replace(tzinfo=UTC), None, "")
    changes = [nobody, *sorted(_changes(model, versions), key=lambda change: change.at)]
    before = [change for change in changes if change.at <= end]
    last, after, now, notes = before[-1], changes[len(before) :], model.aliases.get(CHAMPION), []
    if after and after[0].over not in (None, last.version):
        at, version, _, over = after[0]
        notes.append(f"Version {version} took the place of version {over} on {at:%Y-%m-%d}, of which no date is left.")
    if now != changes[-1].version:
        notes.append(f"The alias is on version {now or 'none'} by now: it was moved in MLflow, which leaves no date.")
    since = "" if last is nobody else last.at.isoformat(timespec="seconds")
    return Served(name=name, version=last.version, since=since, why=last.why, note=" ".join(notes))


def _changes(model: RegisteredModel, versions: Mapping[str, ModelVersion]) -> Iterator[Handover]:
    for number, version in versions.items():
        decision = None
        with suppress(EvenfoldError):
            decision = decision_of(model.tracker, version)
        took = REPLACES in version.tags  # one that was killed before its promotion has taken nobody's place
        if decision.promote and (took or decision.champion is None) if decision else took:
            when = datetime.fromtimestamp(version.creation_timestamp / 1000, UTC)
            why = decision.why if decision else "its decision is not in the record"
            yield Handover(when, number, why, decision.champion if decision else None)
    for tag, text in model.client.get_registered_model(model.name).tags.items():
        if tag.startswith(ROLLBACK):
            with suppress(ValueError):  # somebody wrote there
                done = RolledBack.model_validate_json(text)
                at, why = datetime.fromisoformat(done.at).astimezone(UTC), f"{done.by} put it back: {done.reason}"
                yield Handover(at, done.champion, why)


def decision_of(tracker: Tracker, version: ModelVersion) -> Decision:
    """Return the signed decision by which a version was registered; SplitError where it is gone or not signed."""
    run = run_named(tracker, str(version.run_id))
    decision = signed_decision(run)
    if decision is None:
        which = f"run {run.info.run_id[:8]}, which registered it,"
        raise SplitError(f"{which} holds no decision that was signed by this home and not changed since.")
    return decision


class Replayed(Outcome):
    """A past decision and the same made again; ``gone`` where something that it needs is no more, which words say."""

    name: str
    version: str
    verdict: Literal["same", "other", "gone"]
    words: str
    decision: Decision | None = None
    again: Decision | None = None


def replay(name: str, version: str) -> Replayed:
    """Make the decision by which a version was registered again: from the signed predictions that were compared.

    Nothing is fitted, no table read; what is gone, or not signed any more, is said. SplitError without such a version.
    """
    model, versions = RegisteredModel.existing(name, version)
    this, what = versions[version], f"version {version} of {name}"
    verdict: Literal["same", "other", "gone"] = "same"
    decision = again = None
    try:
        require_signed_version(this)
        decision = decision_of(model.tracker, this)
        again = _decided_again(model, versions, this, decision)
        words = f"{what} is decided again as it was: {again.why}."
        if apart := decision.apart(again):
            left = {run.info.run_id for run in model.retrainings()}
            gone = [each for number, each in versions.items() if int(number) < int(version) and each.run_id not in left]
            if lost := listed(f"run {each.run_id[:8]} of version {each.version}" for each in gone):
                raise SplitError(f"of earlier comparisons, which say what error it may have, {lost} was deleted.")
            verdict, words = "other", f"{what} is decided in another way now: {', '.join(apart)}."
    except EvenfoldError as error:
        verdict, words = "gone", f"{what} cannot be decided again: {error}"
    return Replayed(name=name, version=version, verdict=verdict, words=words, decision=decision, again=again)


def _decided_again(
    model: RegisteredModel, versions: Mapping[str, ModelVersion], this: ModelVersion, decision: Decision
) -> Decision:
    if decision.champion is None:
        return promotion.without_champion(decision.metric, decision.why)
    if decision.champion not in versions:
        raise SplitError(f"version {decision.champion}, the champion of then, is no more.")
    tags = versions[decision.champion].tags
    newer, values = (this.tags.get(tag) != tags.get(tag) for tag in ("evenfold.split_id", "evenfold.values"))
    if decision.difference is None:
        return promotion.same_recipe(decision.metric, newer or values)
    if decision.runs is None:
        raise SplitError("which evaluations were compared was not recorded, as where the champion's code was no more.")
    metric, (before, after) = decision.metric, (read_evaluation(run_id, ours=True) for run_id in decision.runs)
    served, candidate = (read_recipe(run_id).estimates for run_id in decision.runs)
    how = {"names": promotion.ROLES, "apparent": apparent_of(served, candidate, metric), **after.traits}
    difference = Contrast.of(compare(before.predictions, after.predictions, metric, **how))
    run = run_named(model.tracker, str(this.run_id))
    looks = model.looks(run)
    error = promotion.to_spend(looks, _start_of(run))
    again = promotion.decide(metric, difference, newer, error=error, pair=decision.pair, earlier=looks)
    return replace(again, champion=decision.champion, runs=decision.runs)
