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
from typing import Any

from evenfold.estimates.promotion import Decision
from evenfold.manifests import read_header
from evenfold.manifests.store.header import other_identity
from evenfold.manifests.store.write import STAGED, settle
from evenfold.splitters import SplitError
from evenfold.tasks.outcomes import SplitRef, committing_place
from evenfold.tasks.record.tracker import Tracker
from evenfold.tasks.results.store import results_of
from evenfold.tasks.runtime.home import Home
from evenfold.tasks.runtime.locks import locked
from evenfold.tasks.runtime.signing import is_signed, sign

from .registry import promote_version, version_of_run
from .signatures import is_signed_version

INTENT = "commit.json"


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
        intent = {"name": name, "run_id": run_id, "promote": decision.promote, "store": home.tracking_uri}
        intent |= {"over": decision.champion, "place": _place_of(final)}
        intent["signature"] = sign("commit", intent)
        Path(split.staged, INTENT).write_text(json.dumps(intent), encoding="utf-8")
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
    if intent["store"] != home.tracking_uri:
        raise SplitError(
            f"{place} is being committed with the registry {intent['store']}, and this one is {home.tracking_uri}; "
            "retrain there once (MLFLOW_TRACKING_URI), which finishes or undoes it."
        )
    client = Tracker(home, "").client
    version = version_of_run(client, intent["name"], intent["run_id"])
    if version is not None and not is_signed_version(client.get_model_version(intent["name"], version)):
        version = None  # killed before it was signed: the same month signs it, and nobody loads it as it is
    if version is None and place.name.startswith(".committing-"):
        place.rename(aside) if aside else shutil.rmtree(place)
        return False
    if version is not None and intent["promote"]:
        promote_version(home, client, intent["name"], version, intent["over"])
    _finish(home, place)
    return True


def _place_of(folder: Path) -> str:
    return f"{folder.parent.name}/{folder.name.removeprefix('.committing-')}"


def _intent(place: Path) -> dict[str, Any]:
    """Return what a commit meant to do; SplitError where no key of ours signed it for this place: it is not done."""
    try:
        intent = json.loads((place / INTENT).read_text(encoding="utf-8"))
        signature = intent.pop("signature")
        if not place.is_symlink() and intent["place"] == _place_of(place) and is_signed("commit", intent, [signature]):
            return dict(intent)
    except (OSError, ValueError, LookupError, AttributeError, TypeError, RecursionError):
        pass
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
        if not results_of(home).offer_split(final):
            shutil.rmtree(final)
            raise _made_meanwhile(final)


def _made_meanwhile(final: Path) -> SplitError:
    return SplitError(f"{final.parent.name} {final.name} was made by another run meanwhile; run it again.")
