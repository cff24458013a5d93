"""A registered model: its versions and aliases, the champion of now and of then, and how an earlier one is it again."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, suppress
from datetime import UTC, date, datetime, time
from typing import TYPE_CHECKING

from evenfold.estimates import EvaluationError, ModelSpec
from evenfold.estimates.promotion import Decision
from evenfold.splitters import EvenfoldError, SplitError, UntrustedNameError
from evenfold.splitters.deployed import is_deployed, shown
from evenfold.tasks.outcomes import Champion, Outcome, SplitRef
from evenfold.tasks.record.reading import run_named
from evenfold.tasks.record.tracker import RUN_KEY, Tracker
from evenfold.tasks.runtime.home import Home, Settings, locked
from evenfold.tasks.steps import step

from .signatures import REPLACES, WITHDRAWN, decision_in, is_signed_decision, recipe_in, require_signed_version

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
        home = Home.here()
        home.require_record()
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
        """The version of each alias; nothing where there is no such model, or none can be called so."""
        from mlflow.exceptions import MlflowException

        try:
            model = self.client.get_registered_model(self.name)
        except MlflowException as error:
            if error.error_code not in ("RESOURCE_DOES_NOT_EXIST", "INVALID_PARAMETER_VALUE"):
                raise
            return {}
        return {alias: str(version) for alias, version in model.aliases.items()}

    def retrainings(self, condition: str = "") -> Iterator[Run]:
        """Yield the runs of its retrainings that meet a further condition, the newest first."""
        return self.tracker.runs(f"tags.`mlflow.runName` = 'retrain/{self.name}'{condition}")

    def alone(self) -> AbstractContextManager[None]:
        """Hold the lock under which its versions are made, promoted and taken back."""
        home = self.tracker.home
        return locked(home.locks, f"aliases/{home.tracking_uri}/{self.name}")

    def version_of(self, run_id: str) -> str | None:
        """Return the version that the run of a retraining registered, None where it has not."""
        key = self.client.get_run(run_id).data.tags.get(RUN_KEY, run_id)
        return next((number for number, each in self.versions.items() if each.tags.get(RUN_KEY) == key), None)

    def require_champion(self, decision: Decision | None, own: str | None) -> None:
        """Raise ChampionChangedError unless the champion is the version that was compared with, or one's ``own``."""
        now = None if decision is None else self.aliases.get(CHAMPION)
        if decision is not None and now not in (decision.champion, own):
            before = f"version {decision.champion}" if decision.champion else "none"
            raise ChampionChangedError(
                f"the champion of {self.name} is {f'version {now}' if now else 'none'} by now, and {before} was "
                "compared with."
            )

    def make_champion(self, version: str) -> None:
        """Make a version the champion, and who was it the previous one; a second try changes nothing more."""
        before = self.aliases.get(CHAMPION)
        if before not in (None, version):  # said first: a try that is killed between the two aliases goes on with it
            self.client.set_model_version_tag(self.name, version, REPLACES, before)
        self.put_aliases(version, self.client.get_model_version(self.name, version).tags.get(REPLACES))

    def put_aliases(self, version: str, previous: str | None) -> None:
        """Let the champion be ``version`` and the previous one ``previous``, where that is another and still there."""
        aliases, previous = self.aliases, previous if previous != version and previous in self.versions else None
        stale = {CHALLENGER} if aliases.get(CHALLENGER) in (version, previous) else set()
        stale |= {PREVIOUS} if previous is None or aliases.get(PREVIOUS) == version else set()
        for alias in stale & aliases.keys():
            self.client.delete_registered_model_alias(self.name, alias)
        self.client.set_registered_model_alias(self.name, CHAMPION, version)
        if previous is not None:
            self.client.set_registered_model_alias(self.name, PREVIOUS, previous)

    def step_down(self, versions: set[str], about: Mapping[str, str]) -> RolledBack | None:
        """Let none of these versions have an alias, nor serve again: the last champion that is none of them does.

        ``about``: who says so, when and why. Returns what changed, None where the champion is another one.
        """
        with self.alone():
            aliases, there = self.aliases, {number: each.tags for number, each in self.versions.items()}
            chosen = aliases.get(CHAMPION)
            while chosen in versions:
                chosen = there.get(chosen, {}).get(REPLACES)
            before = there.get(str(chosen), {}).get(REPLACES)
            done = RolledBack(name=self.name, champion=chosen if chosen in there else None, withdrawn=None, **about)
            for version in sorted(versions & set(there), key=int):
                withdrawn = done.model_copy(update={"withdrawn": version}).model_dump_json()
                self.client.set_model_version_tag(self.name, version, WITHDRAWN, withdrawn)
            if aliases.get(CHAMPION) in versions:
                done = done.model_copy(update={"withdrawn": aliases[CHAMPION]})
                self.remember(done)
                if done.champion is not None:
                    self.put_aliases(done.champion, None if before in versions else before)
            for alias, version in self.aliases.items():
                if version in versions:
                    self.client.delete_registered_model_alias(self.name, alias)
        return done if done.withdrawn else None

    def remember(self, done: RolledBack) -> None:
        """Keep who put a champion back: at the version that is withdrawn, and at the model."""
        text = done.model_dump_json()
        if done.withdrawn is not None:
            self.client.set_model_version_tag(self.name, done.withdrawn, WITHDRAWN, text)
        self.client.set_registered_model_tag(self.name, f"{ROLLBACK}{done.at[:23]}", text)  # a tag's name holds no +


@step(run_name=lambda split, name="", **_: f"champion of {name or split.name}")
def read_champion(split: SplitRef, name: str = "") -> Champion | None:
    """Return the version, recipe and tags of the model that is champion, or None where there is none.

    Raises UntrustedNameError for a champion that neither this home nor its team signed as it is now, and in a deployed
    run for one whose recipe names what that may not import; nothing of it is imported or loaded then.
    """
    return champion_of(name or split.name)


def champion_of(name: str) -> Champion | None:
    """Return the champion of a registered name, as ``read_champion`` does; looking for it makes no store."""
    if not Home.here().is_recorded:
        return None
    model = RegisteredModel(Tracker(Home.here()), name)
    number = model.aliases.get(CHAMPION)
    versions = model.versions if number else {}
    version = versions.get(number or "")
    if version is None:
        return None
    require_signed_version(version)
    tags, which = dict(version.tags), f"version {version.version} of {name}"
    recipe = recipe_in(tags, f"{which}, the champion,")
    if recipe is not None and is_deployed():
        try:
            ModelSpec.of_others(recipe.model_dump(), ModelSpec())
        except UntrustedNameError as error:
            raise UntrustedNameError(f"the recipe of {which}: {error}") from None
    promoted = {int(each.version): each.tags for each in versions.values() if REPLACES in each.tags}
    newest, note = max(promoted, default=0), ""
    if newest > int(version.version) and WITHDRAWN not in promoted[newest]:
        note = (
            f"V{which[1:]} is the champion, though version {newest} was promoted later: the alias was moved in MLflow "
            "(evenfold rollback would say by whom and why)."
        )
    return Champion(name=name, version=str(version.version), model=recipe, tags=tags, run_id=version.run_id, note=note)


def about_taking_back(what: str, reason: str) -> dict[str, str]:
    """Return why something is taken back, by whom and when; SplitError without a reason, which says ``what`` it is."""
    if not reason.strip():
        raise SplitError(f"a {what} needs a reason, which is kept in the registry; pass reason (--reason).")
    at = datetime.now(UTC).isoformat(timespec="milliseconds")
    return {"reason": reason.strip()[:1_000], "by": Settings.here().person, "at": at}


@step(run_name=lambda name, **_: f"roll back {name}", retries=0)
def roll_back(name: str, *, to: str | None = None, reason: str) -> RolledBack:
    """Make an earlier version the champion again: ``to``, or the one that was champion before this one.

    Who did it, when and why is kept at the version that is withdrawn (``evenfold.withdrawn``) and at the model
    (``evenfold.rollback.`` and the time). A second rollback goes back one more. Raises SplitError without any of these.
    """
    model, _ = RegisteredModel.existing(name, to)
    with model.alone():
        aliases, versions = model.aliases, model.versions
        champion = aliases.get(CHAMPION)
        if to is not None and to == champion:
            raise SplitError(f"version {to} of {name} is the champion already.")
        chosen, now = to, versions.get(champion or "")
        if chosen is None:
            chosen = (now.tags.get(REPLACES) if now else None) or aliases.get(PREVIOUS)
        if chosen not in versions:
            others = [version for version in versions if version != champion]
            where = f"before version {champion} " if champion else ""
            which = f"one of the versions {', '.join(others)}" if len(others) > 1 else f"version {''.join(others)}"
            advice = f"name {which} (--to)" if others else "it has one version"
            raise SplitError(f"{name} remembers no champion {where}that is still there; {advice}.")
        before = versions[chosen].tags.get(REPLACES) if to is None else champion
        done = RolledBack(name=name, champion=chosen, withdrawn=champion, **about_taking_back("rollback", reason))
        model.remember(done)
        model.put_aliases(chosen, before)
    return done


def champion_as_of(name: str, at: date | datetime | str) -> Served:
    """Return which version of a model was the champion at a time, or at the end of a day (UTC, as 2026-05-31).

    By the last that was written before: versions whose signed decision promotes them, rollbacks and withdrawals. A
    version that was deleted and an alias that was moved by hand leave no date; a ``note`` says where the next decision,
    or the alias of now, shows one. Raises SplitError where there is no such model, or no such date.
    """
    model, versions = RegisteredModel.existing(name)
    try:
        day = date.fromisoformat(at) if isinstance(at, str) else at
    except ValueError:
        raise SplitError(f"{shown(repr(at))} is no date; write one such as 2026-05-31, in UTC.") from None
    end = day if isinstance(day, datetime) else datetime.combine(day, time.max)
    end = end if end.tzinfo else end.replace(tzinfo=UTC)
    changes = sorted(_changes(model, versions), key=lambda change: change[0])
    before, after = ([change for change in changes if (change[0] <= end) == earlier] for earlier in (True, False))
    now, last = model.aliases.get(CHAMPION), changes[-1][1] if changes else None
    since, version, why, _ = before[-1] if before else (None, None, "", None)
    note = f"The alias is on version {now or 'none'} by now, and nobody recorded that: it was moved in MLflow."
    note = note if now != last else ""
    if after and after[0][3] not in (None, version):
        when, following, _, over = after[0]
        gone = "the alias was moved in MLflow" if over in versions else "it was deleted since"
        note = f"Version {following} took the place of version {over} on {when:%Y-%m-%d}: {gone}. {note}".strip()
    began = since.isoformat(timespec="seconds") if since else ""
    return Served(name=name, version=version, since=began, why=why, note=note)


def _changes(
    model: RegisteredModel, versions: Mapping[str, ModelVersion]
) -> Iterator[tuple[datetime, str | None, str, str | None]]:
    """Yield when the champion changed, to which version, why, and over which one where a decision says so."""
    for version in versions.values():
        decision, tags = None, version.tags
        with suppress(EvenfoldError):
            decision = decision_of(model.tracker, version)
        if decision.promote if decision else REPLACES in tags:
            when = datetime.fromtimestamp(version.creation_timestamp / 1000, UTC)
            why = decision.why if decision else "its decision is not in the record"
            yield when, str(version.version), why, decision.champion if decision else None
    texts = model.client.get_registered_model(model.name).tags.items()
    for text in [text for tag, text in texts if tag.startswith(ROLLBACK)]:
        with suppress(ValueError, RecursionError):  # somebody wrote there
            done = RolledBack.model_validate_json(text)
            yield datetime.fromisoformat(done.at), done.champion, f"{done.by} put it back: {done.reason}", None


def decision_of(tracker: Tracker, version: ModelVersion) -> Decision:
    """Return the signed decision by which a version was registered; SplitError where it is gone or not signed."""
    run = run_named(tracker, str(version.run_id))
    decision = decision_in(run.data.tags, f"run {run.info.run_id}")
    if decision is None:
        raise SplitError(f"run {run.info.run_id[:8]}, which registered it, holds no decision.")
    if not is_signed_decision(run):
        raise SplitError(
            f"the decision in run {run.info.run_id[:8]} was not signed by this home, or was changed since."
        )
    return decision
