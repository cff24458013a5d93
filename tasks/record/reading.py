"""Records, read back from MLflow."""

from __future__ import annotations

import os
import re
import tempfile
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd
from evenfold.estimates import Estimate, ModelSpec
from evenfold.manifests import Manifest, read_manifest
from evenfold.manifests.spec import name_like
from evenfold.manifests.store.header import sha256
from evenfold.manifests.tables.canonical import listed
from evenfold.manifests.tables.keys import WhichRows
from evenfold.splitters import SplitError, UntrustedNameError
from evenfold.splitters.errors import is_deployed, reason_of
from evenfold.tasks.outcomes import SplitRef
from evenfold.tasks.parameters import Data
from evenfold.tasks.references import SHORT_ID, VERSION, OfSplit, splits_of, version_in
from evenfold.tasks.results.retrained import Retraining
from evenfold.tasks.runtime.files import data_reference, from_anywhere, rename_unless_there
from evenfold.tasks.runtime.home import Home, redacted
from evenfold.tasks.steps import step
from pydantic import TypeAdapter, ValidationError

from .entries import RECIPE, code_in
from .models.signatures import EVALUATION, require_signed_version
from .tracker import Tracker

if TYPE_CHECKING:
    from mlflow.entities import Run


def _evaluated_by(tracker: Tracker, address: str) -> str:
    """Return the run that evaluated a registered model: ``models:/NAME@champion``, or ``models:/NAME/2``.

    Raises SplitError where the registry has no such model or it names none, UntrustedNameError where it is not signed.
    """
    model, client = address.removeprefix("models:/"), tracker.client
    is_version = model.rpartition("/")[2].isdecimal()  # a name may hold @, and none holds /
    name, _, which = model.rpartition("/" if is_version else "@")
    try:
        version = (client.get_model_version if is_version else client.get_model_version_by_alias)(name, which)
    except Exception:  # MLflow has a kind of error of its own per store
        raise SplitError(
            f"there is no registered model {address!a} in {tracker.home.tracking_uri}; write "
            "models:/NAME@champion or models:/NAME/2, as evenfold list shows them."
        ) from None
    require_signed_version(version)
    if EVALUATION not in version.tags:
        raise SplitError(
            f"version {version.version} of {name} names no evaluation, whose recipe and split stand for its model; "
            "retrain, and take the version that makes."
        )
    return str(version.tags[EVALUATION])


def run_named(tracker: Tracker, reference: Any) -> Run:
    """Return the MLflow run of an id, of its first four digits or more, or of what a flow returned.

    ``models:/NAME@champion`` and ``models:/NAME/2`` stand for the run that evaluated the recipe, a retraining for the
    version that serves. Raises SplitError where there is none, several begin so, or the store cannot be asked.
    """
    run_id = getattr(reference, "run_id", reference)
    if isinstance(reference, Retraining) and (served := reference.registered or reference.champion):
        run_id = f"models:/{served.name}/{served.version}"
    if not isinstance(run_id, str):
        raise SplitError(
            f"a value of type {type(reference).__name__} is no run; pass its id, or what the flow returned."
        )
    if run_id.startswith("models:/"):
        run_id = _evaluated_by(tracker, run_id)
    try:
        if len(run_id) == 32:
            return tracker.client.get_run(run_id)
        every = tracker.runs() if SHORT_ID.fullmatch(run_id) else ()
        runs = [run for run in every if run.info.run_id.startswith(run_id)]
        why = ""
    except Exception as error:  # MLflow has a kind of error of its own per store
        runs, why = [], f" ({redacted(str(error))})"
    if not runs:
        raise SplitError(
            f"there is no run {run_id!r} in {tracker.home.tracking_uri}{why}; evenfold list shows those that are, and "
            "a registered model is models:/NAME@champion."
        ) from None
    if len(runs) > 1:
        names = ", ".join(f"{run.info.run_id[: len(run_id) + 4]} ({run.info.run_name})" for run in runs[:3])
        raise SplitError(f"{len(runs)} runs begin with {run_id!r}: {names}; write more digits.")
    return runs[0]


@dataclass(frozen=True)
class Recorded:
    """A recorded evaluation: what names its split, model and metrics, its predictions, their file's ``digest``."""

    run_id: str
    name: str
    tags: dict[str, str]
    params: dict[str, str]
    predictions: pd.DataFrame
    digest: str = ""

    def is_ours(self) -> bool:
        """Return whether this home or its team recorded these predictions; anybody else's decide nothing."""
        try:
            recipe, signed = Tracker(Home.here()).read_signed(self.run_id, RECIPE)
        except Exception:  # gone, or none of ours; MLflow's errors differ by store
            return False
        return signed and recipe.get("sha256") == {"predictions.parquet": self.digest}

    @property
    def key(self) -> list[str]:
        """The columns that name a row: those before the row's number, or that number where there is no key."""
        names = list(self.predictions.columns)
        return names[: names.index("row")] or ["row"]

    @cached_property
    def folds(self) -> list[dict[str, float]]:
        """The figures of each fold, as its run has them; none where folds have no runs. Asked of MLflow once."""
        folds = Tracker(Home.here()).runs(f"tags.`mlflow.parentRunId` = '{self.run_id}'")
        return [run.data.metrics for run in folds]

    @property
    def fit_seconds(self) -> float | None:
        """Seconds that all fits took, as the folds' runs say; None where the folds have none."""
        seconds = [each["seconds_fit"] + each.get("seconds_score", 0.0) for each in self.folds if "seconds_fit" in each]
        return sum(seconds) if seconds else None

    def mean_of_folds(self, figure: str) -> float | None:
        """Return a figure of the folds, on average; None where they have no runs, or not that figure."""
        values = [figures[figure] for figures in self.folds if figure in figures]
        return sum(values) / len(values) if values else None


def read_evaluation(run_id: str) -> Recorded:
    """Return a recorded evaluation by its id or its first digits.

    Raises SplitError where there is no such run, or it kept no predictions.
    """
    tracker = Tracker(Home.here())
    run = run_named(tracker, run_id)
    run_id = str(run.info.run_id)
    with tempfile.TemporaryDirectory() as folder:
        try:
            path = tracker.fetch(run_id, "predictions.parquet", Path(folder))
            predictions = pd.read_parquet(path)
            predictions[["row", "repeat", "fold", "y"]]
        except Exception as error:  # MLflow's differ by store
            raise SplitError(
                f"run {run_id} ({run.info.run_name}) kept no predictions.parquet that can be read "
                f"({redacted(reason_of(error))[:200]}); compare evaluations of folds, or evaluate it again."
            ) from None
        return Recorded(run_id, str(run.info.run_name), run.data.tags, run.data.params, predictions, sha256(path))


@dataclass(frozen=True)
class Recipe:
    """The recipe of a recorded evaluation or tuning: its model and code, its split and table, and its promise."""

    run_id: str
    name: str
    model: ModelSpec
    split: SplitRef
    estimates: list[Estimate]
    code: dict[str, str] = field(default_factory=dict)


def read_recipe(run_id: str | Retraining, data: str | None = None) -> Recipe:
    """Return what the run of an evaluation, or of a tuning, trained; ``data``: where its table lies now.

    A recipe that this home or its team signed names what it likes at a terminal; any other what
    ``EVENFOLD_ALLOWED_MODULES`` lists, and it never stands for a registered model (UntrustedNameError). Raises
    SplitError for a run that names none, or a damaged one.
    """
    tracker = Tracker(Home.here())
    run = run_named(tracker, run_id)
    try:
        recipe, signed = tracker.read_signed(str(run.info.run_id), RECIPE)
    except Exception:
        raise SplitError(
            f"run {run.info.run_id[:8]} ({run.info.run_name}) names no recipe; give the run of an evaluation or a "
            "tuning (evenfold list), made by this version."
        ) from None
    stands_for_model = isinstance(run_id, Retraining) or str(run_id).startswith("models:/")
    if not signed and stands_for_model:
        raise UntrustedNameError(
            f"{RECIPE} of run {run.info.run_id[:8]}, which evaluated that version, was not signed by this home, or was "
            "changed since, and is not used; look at it and say evenfold trust NAME@VERSION at a terminal."
        )
    own = signed and not is_deployed()
    try:
        split = SplitRef(**recipe["split"] | ({"data": data} if data else {}))
        model = ModelSpec.of(recipe["model"]) if own else ModelSpec.of_others(recipe["model"], ModelSpec())
        estimates = TypeAdapter(list[Estimate]).validate_python(recipe["estimates"])
        return Recipe(str(run.info.run_id), str(run.info.run_name), model, split, estimates, code_in(run.data.tags))
    except (KeyError, TypeError, AttributeError, ValidationError) as error:
        raise SplitError(
            f"{RECIPE} of run {run.info.run_id[:8]} ({run.info.run_name}) is damaged ({reason_of(error)[:200]}); "
            "evaluate or tune it again."
        ) from None


def apparent_of(a: Sequence[Estimate], b: Sequence[Estimate], metric: str) -> tuple[float, float] | None:
    """Return what two evaluations score on their training rows, where both say it."""
    first, second = (next((each.apparent for each in side if each.metric == metric), None) for side in (a, b))
    return None if first is None or second is None else (first, second)


HEX = re.compile(r"[0-9a-f]{64}")


def read_split(reference: Any, home: Home | None = None) -> Manifest:
    """Return the manifest of ``reference``: ``name@1.1``, a name for its newest, or how a split_id or plan_id begins.

    A folder, a manifest, and what tasks and flows return of a split are taken as they are. A name is looked for below
    the home first, then by its tags in MLflow, whose artifacts are downloaded to the home's own splits. The identity is
    made anew from the files and must be the recorded one. Raises SplitError where there is none, and for a name and
    version that the home has not, or a plan_id, of several splits.
    """
    home = home or Home.here()
    if not isinstance(reference, str) or os.path.exists(os.path.join(reference, "manifest.json")):
        return reference if isinstance(reference, Manifest) else read_manifest(reference)
    name, at, version = reference.partition("@")
    is_name = name == name_like(name)
    here = splits_of(home, name) if is_name else {}
    if version in here:
        return read_manifest(here[version])
    if not here:
        home.require_record()
    tracker = Tracker(home) if home.is_recorded else None
    runs = _recorded(tracker, "spec", f"{name}@") if tracker and is_name else []
    versions = sorted({*here, *(_spec_in(run).rpartition("@")[2] for run in runs)}, key=version_in)
    wanted = version if at or not versions else versions[-1]
    if wanted in here:
        return read_manifest(here[wanted])
    runs = [run for run in runs if _spec_in(run) == f"{name}@{wanted}"]
    if tracker and not runs and len(reference) >= 8 and SHORT_ID.fullmatch(reference):
        runs = [run for tag in ("split_id", "plan_id") for run in _recorded(tracker, tag, reference)]
    if tracker is None or not runs:
        instead = f"; {name} has {listed(versions)}" if versions else ""
        raise SplitError(f"there is no split {reference!r} in {home.tracking_uri} or below {home.splits}{instead}.")
    splits = {run.data.tags["evenfold.split_id"]: run for run in reversed(runs)}
    if len(splits) > 1:
        names = listed(sorted(f"{_spec_in(run)} {split_id[:16]}" for split_id, run in splits.items()))
        raise SplitError(
            f"{reference[:16]} names {len(splits)} splits in {home.tracking_uri} ({names}), of several projects, or "
            "decided with parts in other orders or by other code; load one by its split_id."
        )
    return _download(tracker, runs[0], home)


@step(run_name=lambda reference, **_: f"load {reference}")
def load_split(
    reference: Manifest | SplitRef | OfSplit | str, data: Data | None = None, rows: WhichRows = "all"
) -> SplitRef:
    """Find a split that any project recorded in MLflow, download its manifest, check it, and return what names it.

    ``reference``: ``name@1.1``, a name for its newest, a split_id or a plan_id. ``data``: the table that models read.
    Raises SplitError where there is none, and where the data lack rows of it or hold others; with ``rows="known"``
    these are left out, and a warning says how many they are.
    """
    manifest = read_split(reference)
    path = "" if data is None else from_anywhere(data_reference(data, Home.here()))
    if path:
        manifest.positions(path, rows)
    return SplitRef.of(manifest, str(manifest.uri), path, True).model_copy(update={"rows": rows})


def _recorded(tracker: Tracker, tag: str, start: str) -> list[Run]:
    """Return the runs that record splits of which a tag begins so, the newest first; to LIKE, _ is any letter."""
    runs = tracker.runs(f"tags.`evenfold.{tag}` LIKE '{start}%' AND tags.`evenfold.record` = 'split'")
    return [run for run in runs if run.data.tags[f"evenfold.{tag}"].startswith(start) and _spec_in(run)]


def _spec_in(run: Run) -> str:
    """Return the NAME@VERSION of the split that a run records, empty where its tags, which others may edit, have none.

    Folders are named by it.
    """
    spec = str(run.data.tags.get("evenfold.spec", ""))
    name, _, version = spec.partition("@")
    is_name, is_id = name == name_like(name), HEX.fullmatch(run.data.tags.get("evenfold.split_id", ""))
    return spec if name and is_name and is_id and VERSION.fullmatch(version) else ""


def _download(tracker: Tracker, run: Run, home: Home) -> Manifest:
    """Return the split that a run holds, in its place once it was proved to be of that id, name and version."""
    split_id, (name, _, version) = run.data.tags["evenfold.split_id"], _spec_in(run).partition("@")
    # Where this home has another split of that name and version, or a damaged one, what is loaded lies apart.
    for place in (home.splits / name / version, home.path / "fetched" / split_id / name / version):
        with suppress(ValueError, OSError):
            if (held := read_manifest(place)).split_id == split_id:
                return held
        if not place.exists():
            break
    place.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=place.parent) as folder:
        fetched, whole = tracker.fetch(run.info.run_id, "split", Path(folder)), False
        with suppress(ValueError, OSError):
            manifest = read_manifest(fetched)
            whole = (manifest.split_id, manifest.name, manifest.version) == (split_id, name, version)
        if not whole:
            raise SplitError(
                f"what MLflow keeps in run {run.info.run_id} is not the split {split_id[:16]} that it was recorded as; "
                "its artifacts were changed."
            )
        rename_unless_there(fetched, place)
    return read_manifest(place)
