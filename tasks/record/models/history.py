"""Past champions, and a past decision made again: from what stands in MLflow, without table or store."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import asdict, replace
from datetime import UTC, date, datetime, time
from math import isclose
from typing import Any, Literal

from evenfold.estimates import compare
from evenfold.estimates.promotion import ROLES, Decision, Difference, decide, same_recipe, to_spend, without_champion
from evenfold.manifests.tables.canonical import listed
from evenfold.splitters import EvenfoldError, SplitError
from evenfold.splitters.deployed import shown
from evenfold.tasks.outcomes import Outcome
from evenfold.tasks.record.reading import apparent_of, mean_of_folds, read_evaluation, read_recipe, run_named
from evenfold.tasks.record.tracker import Tracker

from .registered import CHAMPION, ROLLBACK, RegisteredModel, RolledBack
from .retraining import looks_of, start_of
from .signatures import REPLACES, decision_in, is_signed_decision, require_signed_version


class Served(Outcome):
    """Which version was the champion at a time (None: none was), since when and why, in words."""

    name: str
    version: str | None
    since: str = ""
    why: str = ""
    note: str = ""


class Replayed(Outcome):
    """A past decision and the same made again; ``gone`` where something that it needs is no more, which words say."""

    name: str
    version: str
    verdict: Literal["same", "other", "gone"]
    words: str
    decision: Decision | None = None
    again: Decision | None = None


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
    model: RegisteredModel, versions: Mapping[str, Any]
) -> Iterator[tuple[datetime, str | None, str, str | None]]:
    """Yield when the champion changed, to which version, why, and over which one where a decision says so."""
    for version in versions.values():
        decision, tags = None, version.tags
        with suppress(EvenfoldError):
            decision = _decision_of(model.tracker, version)
        if decision.promote if decision else REPLACES in tags:
            when = datetime.fromtimestamp(version.creation_timestamp / 1000, UTC)
            why = decision.why if decision else "its decision is not in the record"
            yield when, str(version.version), why, decision.champion if decision else None
    texts = model.client.get_registered_model(model.name).tags.items()
    for text in [text for tag, text in texts if tag.startswith(ROLLBACK)]:
        with suppress(ValueError, RecursionError):  # somebody wrote there
            done = RolledBack.model_validate_json(text)
            yield datetime.fromisoformat(done.at), done.champion, f"{done.by} put it back: {done.reason}", None


def _decision_of(tracker: Tracker, version: Any) -> Decision:
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


def replay(name: str, version: str) -> Replayed:
    """Make the decision by which a version was registered again: from the signed predictions that were compared.

    By the two evaluations, the earlier comparisons of the name and the rule of now; nothing is fitted, no table read.
    What is gone, or not signed any more, the sentence says. Raises SplitError where there is no such version.
    """
    model, versions = RegisteredModel.existing(name)
    if version not in versions:
        raise SplitError(f"{name} has no version {shown(repr(version))}; it has {', '.join(versions)}.")
    decision, what = None, f"version {version} of {name}"
    try:
        require_signed_version(versions[version])
        decision = _decision_of(model.tracker, versions[version])
        again = _decided_again(model, versions, versions[version], decision)
        apart, before, after = [], asdict(decision), asdict(again)
        for field in ("winner", "promote", "metric", "difference", "low", "high", "spent"):
            was, now = before[field], after[field]
            numbers = isinstance(was, float) and isinstance(now, float)
            if not (isclose(was, now, rel_tol=1e-9, abs_tol=1e-12) if numbers else was == now):
                apart.append(f"{field} {was} then and {now} now")
        if apart and (lost := _deleted_comparisons(model, versions, versions[version])):
            raise SplitError(f"of earlier comparisons, which say what error it may have, {listed(lost)} was deleted.")
    except EvenfoldError as error:
        words = f"{what} cannot be decided again: {error}"
        return Replayed(name=name, version=version, verdict="gone", words=words, decision=decision)
    words = f"{what} is decided again as it was: {again.why}."
    words = f"{what} is decided in another way now: {', '.join(apart)}." if apart else words
    verdict: Any = "other" if apart else "same"
    return Replayed(name=name, version=version, verdict=verdict, words=words, decision=decision, again=again)


def _deleted_comparisons(model: RegisteredModel, versions: Mapping[str, Any], this: Any) -> list[str]:
    """Return the comparisons that registered versions before this one and are in MLflow no more."""
    left = {run.info.run_id for run in model.retrainings()}
    earlier = (each for each in versions.values() if int(each.version) < int(this.version) and each.run_id not in left)
    return [f"run {each.run_id[:8]} of version {each.version}" for each in earlier]


def _decided_again(model: RegisteredModel, versions: Mapping[str, Any], this: Any, decision: Decision) -> Decision:
    if decision.champion is None:
        return without_champion(decision.metric, decision.why)
    if decision.champion not in versions:
        raise SplitError(f"version {decision.champion}, the champion of then, is no more.")
    tags = versions[decision.champion].tags
    newer, values = (this.tags.get(tag) != tags.get(tag) for tag in ("evenfold.split_id", "evenfold.values"))
    if decision.difference is None:
        return same_recipe(decision.metric, newer or values)
    if decision.runs is None:
        raise SplitError("which evaluations were compared was not recorded, as where the champion's code was no more.")
    both = [read_evaluation(run_id) for run_id in decision.runs]
    if others := [each.run_id[:8] for each in both if not each.is_ours()]:
        raise SplitError(f"the predictions of run {others[0]} were not signed by this home, or were changed since.")
    served, candidate = (read_recipe(run_id).estimates for run_id in decision.runs)
    stratified, ordered = (both[0].tags.get(f"evenfold.{trait}") == "true" for trait in ("stratified", "ordered"))
    comparison = compare(
        both[0].predictions, both[1].predictions, decision.metric, on=both[0].key, stratified=stratified,
        n_train=mean_of_folds(both[1].folds, "n_train"), ordered=ordered, names=ROLES,
        apparent=apparent_of(served, candidate, decision.metric),
    )  # fmt: skip
    run = run_named(model.tracker, str(this.run_id))
    looks = looks_of(model, run)
    error = to_spend(looks, start_of(run))
    again = decide(decision.metric, Difference.of(comparison), newer, error=error, pair=decision.pair, earlier=looks)
    return replace(again, champion=decision.champion, runs=decision.runs)
