"""Committing a generation of a split together with what was promoted on it: both, or neither, whoever is killed.

Files and a registry share no transaction. A generation lies staged until its data were found sound; the intent to
commit it is written into its folder, which is renamed; then its model is registered and promoted; then the folder gets
its final name. Whoever comes next finishes what has a registered version, and removes what has none.
"""

from __future__ import annotations

import shutil
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from evenfold.manifests import StoredManifest, read_header
from evenfold.manifests.store.header import other_identity
from evenfold.manifests.store.write import STAGED, settle
from evenfold.splitters import SplitError
from evenfold.tasks.outcomes import Outcome, SplitRef, committing_place
from evenfold.tasks.record.entries import split_key
from evenfold.tasks.record.tracker import RUN_KEY, Tracker
from evenfold.tasks.references import splits_of, version_in
from evenfold.tasks.runtime.home import Home, locked
from evenfold.tasks.splits import snapshot_of
from evenfold.tasks.steps import step
from evenfold.tasks.store import bucket_of

from .registered import CHAMPION, RegisteredModel, RolledBack, about_taking_back
from .versions import require_signed_version, signatures_of, signed_decision

INTENT, UNDER_WAY = "commit.json", ".committing-"


class Intent(Outcome):
    """The intent to commit a generation: which run registers its model, by which name and in which store.

    Others may have written it; what is done by it is what a signed version and its run's signed decision say.
    """

    name: str
    run_id: str
    store: str


@contextmanager
def committing(split: SplitRef, name: str, run_id: str) -> Iterator[None]:
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
        intent = Intent(name=name, run_id=run_id, store=home.tracking_uri)
        Path(split.staged, INTENT).write_text(intent.model_dump_json(), encoding="utf-8")
        place = settle(Path(split.staged), committing_place(final))
        try:
            yield
        except Exception:
            with suppress(Exception):  # of a registry out of reach; the next that retrains does it
                _settle(home, place, Path(split.staged))
            raise
        _finish(home, place)


def settle_commits(home: Home, split: str) -> None:
    """Finish or undo what a run that was killed has begun to commit of a split."""
    if (home.splits / split).exists():
        with locked(home.locks, f"commit/{split}"):
            _settle_each(home, split)


def _settle_each(home: Home, split: str) -> None:
    for intent in sorted((home.splits / split).glob(f"*/{INTENT}")):
        place = intent.parent
        if place.name.startswith(UNDER_WAY):
            _settle(home, place)
        elif not place.name.startswith(STAGED):
            _finish(home, place)


def _settle(home: Home, place: Path, aside: Path | None = None) -> None:
    """Finish a commit whose version is registered, or undo it, which removes the split or puts it ``aside``."""
    try:
        intent = Intent.model_validate_json((place / INTENT).read_bytes())
    except (OSError, ValueError):
        raise SplitError(f"{place / INTENT} cannot be read; remove {place}, and retrain.") from None
    if intent.store != home.tracking_uri:
        raise SplitError(
            f"{place} is being committed with the registry {intent.store}, and this one is {home.tracking_uri}; "
            "retrain there once (MLFLOW_TRACKING_URI), which finishes or undoes it."
        )
    model = RegisteredModel(Tracker(home), intent.name)
    version, run = model.version_of(intent.run_id), model.client.get_run(intent.run_id)
    # One that was killed before it was signed is signed by the same month; nobody loads it as it is.
    if version is not None and signatures_of(version):
        require_signed_version(version)
    else:
        version = None
    if version is None or version.tags.get("evenfold.split_id") != read_header(place)["split_id"]:
        place.rename(aside) if aside else shutil.rmtree(place)
        return
    decision, number = signed_decision(run), str(version.version)
    if decision and decision.promote and run.info.status != "FINISHED":
        with model.alone():
            # Where it is the champion still with which this one was compared, or nobody is.
            if model.aliases.get(CHAMPION) in (None, decision.champion, number):
                model.make_champion(number)
    _finish(home, place)


def _finish(home: Home, place: Path) -> None:
    """Let a generation have its final name, and offer it to whoever shares splits."""
    final = place.with_name(place.name.removeprefix(UNDER_WAY))
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
    folders = splits_of(home, name)
    if version not in folders:
        raise SplitError(f"there is no split {reference!r}; {name} has {', '.join(sorted(folders)) or 'no version'}.")
    line = sorted((each for each in folders if version_in(each)[0] == version_in(version)[0]), key=version_in)
    older, gone = line[: line.index(version)], line[line.index(version) :]
    splits = [SplitRef.of(StoredManifest(folders[each]), folders[each], "") for each in reversed(gone)]
    models = _models_withdrawn(home, splits, about)
    with locked(home.locks, f"commit/{name}"), locked(home.locks, f"name/{name}"):
        for split in splits:  # the newest first: what is left is a line
            folder = folders[split.version]
            snapshot_of(split.split_id).unlink(missing_ok=True)
            if bucket:
                bucket.take_back(folder)
            place = folder.with_name(f".withdrawn-{folder.name}")
            shutil.rmtree(place, ignore_errors=True)  # what was withdrawn as this version before
            folder.rename(place)
    return Withdrawn(name=name, versions=gone, left=older[-1] if older else None, models=models, **about)


def _models_withdrawn(home: Home, splits: list[SplitRef], about: dict[str, str]) -> list[RolledBack]:
    """Let no version that was trained on one of these splits be champion, and mark the splits' own records."""
    if not home.is_recorded:
        return []
    tracker, models = Tracker(home), defaultdict[str, set[str]](set)
    for split in splits:
        for each in tracker.client.search_model_versions(f"tags.`evenfold.spec` = '{split.name}@{split.version}'"):
            if each.tags.get("evenfold.split_id") == split.split_id:
                models[each.name].add(str(each.version))
        for run in tracker.runs(f"tags.`{RUN_KEY}` = '{split_key(split)}'"):  # in whatever experiment
            tracker.tell(run.info.run_id, {"evenfold.record": "withdrawn split"})
    done = []
    for name, versions in models.items():
        model = RegisteredModel(tracker, name)
        with model.alone():
            done.append(model.take_back(versions, model.champion_before(versions), about))
    return [each for each in done if each.withdrawn in models[each.name]]
