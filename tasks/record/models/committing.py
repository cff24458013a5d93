"""Committing a generation of a split together with what was promoted on it: both, or neither, whoever is killed.

Files and a registry share no transaction. A generation lies staged until its data were found sound; the intent to
commit it is written into its folder, which is renamed; then its model is registered and promoted; then the folder gets
its final name. Whoever comes next finishes what has a registered version, and removes what has none.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from evenfold.estimates.promotion import Decision
from evenfold.manifests import StoredManifest, read_header
from evenfold.manifests.store.header import other_identity
from evenfold.manifests.store.write import STAGED, settle
from evenfold.splitters import SplitError
from evenfold.tasks.outcomes import Outcome, SplitRef, committing_place
from evenfold.tasks.record.entries import split_key
from evenfold.tasks.record.models.signatures import is_signed_version
from evenfold.tasks.record.tracker import RUN_KEY, Tracker
from evenfold.tasks.references import splits_of
from evenfold.tasks.results.store import bucket_of
from evenfold.tasks.runtime.home import Home, locked
from evenfold.tasks.runtime.signing import is_signed, sign
from evenfold.tasks.splits import snapshot_of
from evenfold.tasks.steps import step

from .registered import CHAMPION, RegisteredModel, RolledBack, about_taking_back

INTENT = "commit.json"


class Intent(Outcome):
    """The intent to commit a generation: what is registered by which run, in which store, and over which champion."""

    name: str
    run_id: str
    promote: bool
    store: str
    over: str | None
    place: str


@contextmanager
def committing(split: SplitRef, name: str, run_id: str, decision: Decision) -> Iterator[None]:
    """Commit a staged split when the block ends well, in which a version of the model ``name`` may be registered.

    Where the block fails, the split is staged as before unless the version was registered by then. Raises SplitError
    where another generation was committed meanwhile.
    """
    if not split.staged:
        yield
        return
    home, final = Home.here(), Path(split.uri)
    with locked(home.locks, f"commit/{split.name}"):
        _settle_each(home, split.name)
        if final.exists():
            if other_identity(read_header(final), split.stored().header):
                raise _made_meanwhile(final)
            yield
            return
        intent = Intent(
            name=name, run_id=run_id, promote=decision.promote, store=home.tracking_uri, over=decision.champion,
            place=_place_of(final),
        )  # fmt: skip
        signed = intent.model_dump() | {"signature": sign("commit", intent.model_dump())}
        Path(split.staged, INTENT).write_text(json.dumps(signed), encoding="utf-8")
        place = settle(Path(split.staged), committing_place(final))
        try:
            yield
        except Exception:
            with suppress(Exception):  # of a registry out of reach; the next that retrains does it
                if not _settle(home, place, Path(split.staged)):
                    Path(split.staged, INTENT).unlink()
            raise
        _finish(home, place)


def settle_commits(home: Home, split: str) -> None:
    """Finish or undo what a run that was killed has begun to commit of a split."""
    if (home.splits / split).exists():
        with locked(home.locks, f"commit/{split}"):
            _settle_each(home, split)


def _settle_each(home: Home, split: str) -> None:
    for intent in sorted((home.splits / split).glob(f"*/{INTENT}")):
        if not intent.parent.name.startswith(STAGED):
            _settle(home, intent.parent)


def _settle(home: Home, place: Path, aside: Path | None = None) -> bool:
    """Finish a commit whose version is registered, or undo it, which removes the split or puts it ``aside``."""
    intent = _intent(place)
    if intent.store != home.tracking_uri:
        raise SplitError(
            f"{place} is being committed with the registry {intent.store}, and this one is {home.tracking_uri}; "
            "retrain there once (MLFLOW_TRACKING_URI), which finishes or undoes it."
        )
    model = RegisteredModel(Tracker(home), intent.name)
    version = model.version_of(intent.run_id)
    if version is not None and not is_signed_version(model.client.get_model_version(model.name, version)):
        version = None  # killed before it was signed: the same month signs it, and nobody loads it as it is
    if version is None and place.name.startswith(".committing-"):
        place.rename(aside) if aside else shutil.rmtree(place)
        return False
    if version is not None and intent.promote:
        with model.alone():
            # Where it is the champion still with which this one was compared, or nobody is.
            if model.aliases.get(CHAMPION) in (None, intent.over, version):
                model.make_champion(version)
    _finish(home, place)
    return True


def _place_of(folder: Path) -> str:
    return f"{folder.parent.name}/{folder.name.removeprefix('.committing-')}"


def _intent(place: Path) -> Intent:
    """Return what a commit meant to do; SplitError where no key of ours signed it for this place: it is not done."""
    with suppress(OSError, ValueError, LookupError, AttributeError, TypeError, RecursionError):
        intent = json.loads((place / INTENT).read_text(encoding="utf-8"))
        signature = intent.pop("signature")
        if not place.is_symlink() and intent["place"] == _place_of(place) and is_signed("commit", intent, [signature]):
            return Intent(**intent)
    raise SplitError(
        f"{place / INTENT} was not signed by this home, and what it names is not done; set EVENFOLD_SIGNING_KEY to the "
        f"key of whoever began this commit, or remove {place if place.name.startswith('.') else 'that file'}."
    )


def _finish(home: Home, place: Path) -> None:
    """Let a generation have its final name, and offer it to whoever shares splits."""
    final = place.with_name(place.name.removeprefix(".committing-"))
    with locked(home.locks, f"name/{final.parent.name}"):
        if place != final:
            settle(place, final)
        (final / INTENT).unlink(missing_ok=True)
        if (bucket := bucket_of(home)) and not bucket.offer_split(final):
            shutil.rmtree(final)
            raise _made_meanwhile(final)


def _made_meanwhile(final: Path) -> SplitError:
    return SplitError(f"{final.parent.name} {final.name} was made by another run meanwhile; run it again.")


class Withdrawn(Outcome):
    """Generations of a split that were taken back; the one that rows join now; and the champions that stepped down."""

    name: str
    versions: list[str]
    left: str | None
    models: list[RolledBack]
    reason: str
    by: str
    at: str


@step(run_name=lambda reference, **_: f"withdraw {reference}", retries=0)
def withdraw(reference: str, *, reason: str) -> Withdrawn:
    """Take back a generation such as ``visits@1.3`` and what grew from it: new rows join the one before from now on.

    A champion that was trained on one of them gives way to the one before it that was not, or to none. Who did it, when
    and why stands at the versions (``evenfold.withdrawn``) and at the model. The generations lie aside
    (``.withdrawn-1.3``); a second try goes on. Raises SplitError without such a generation, or a reason.
    """
    about = about_taking_back("withdrawal", reason)
    home, (name, _, version) = Home.here(), reference.partition("@")
    settle_commits(home, name)
    if bucket := bucket_of(home):
        bucket.fetch_splits(name)
    versions = splits_of(home, name)
    major, _, minor = version.partition(".")
    if version not in versions:
        raise SplitError(f"there is no split {reference!r}; {name} has {', '.join(sorted(versions)) or 'no version'}.")
    line = {each: int(each.partition(".")[2]) for each in versions if each.partition(".")[0] == major}
    gone = sorted((each for each in line if line[each] >= int(minor)), key=line.__getitem__, reverse=True)
    splits = [SplitRef.of(StoredManifest(versions[each]), versions[each], "") for each in gone]
    models = _models_withdrawn(home, splits, about)
    with locked(home.locks, f"commit/{name}"), locked(home.locks, f"name/{name}"):
        for split in splits:  # the newest first: what is left is a line
            folder = versions[split.version]
            snapshot_of(split.split_id).unlink(missing_ok=True)
            if bucket:
                bucket.take_back(folder)
            place = folder.with_name(f".withdrawn-{folder.name}")
            shutil.rmtree(place, ignore_errors=True)  # what was withdrawn as this version before
            folder.rename(place)
    left = max((each for each in line if each not in gone), key=line.__getitem__, default=None)
    return Withdrawn(name=name, versions=gone[::-1], left=left, models=models, **about)


def _models_withdrawn(home: Home, splits: list[SplitRef], about: dict[str, str]) -> list[RolledBack]:
    """Let no version that was trained on one of these splits be champion, and mark the splits' own records."""
    if not home.is_recorded:
        return []
    tracker = Tracker(home)
    models: dict[str, set[str]] = {}
    for split in splits:
        for each in tracker.client.search_model_versions(f"tags.`evenfold.spec` = '{split.name}@{split.version}'"):
            if each.tags.get("evenfold.split_id") == split.split_id:
                models.setdefault(each.name, set()).add(str(each.version))
        for run in tracker.runs(f"tags.`{RUN_KEY}` = '{split_key(split)}'"):  # in whatever experiment
            tracker.tell(run.info.run_id, {"evenfold.record": "withdrawn split"})
    stepped_down = (RegisteredModel(tracker, name).step_down(versions, about) for name, versions in models.items())
    return [each for each in stepped_down if each is not None]
