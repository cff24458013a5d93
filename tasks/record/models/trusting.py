"""A person's word for a version of a model that this home did not sign, such as one of an earlier release."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any

from evenfold.estimates import ModelSpec
from evenfold.manifests.store.header import sha256
from evenfold.splitters import SplitError
from evenfold.splitters.deployed import is_deployed
from evenfold.tasks.record.reading import read_evaluation
from evenfold.tasks.record.tracker import Tracker
from evenfold.tasks.runtime.home import Home

from .signatures import DIGEST, keep_recipe, read_signed, sign_version
from .stored_models import fetched_version
from .tags import EVALUATION, recipe_in


@dataclass(frozen=True)
class Untrusted:
    """A version as it was looked at: ``sha256`` of its one skops file ("": none is ever loaded), and its recipe."""

    name: str
    version: str
    sha256: str
    recipe: dict[str, object] | None
    _registered: Any = field(repr=False)
    _evaluated: dict[str, Any] | None = field(repr=False)


def look_at(name: str, version: str) -> Untrusted:
    """Return what would be trusted; nothing of it is loaded or imported.

    Raises SplitError in a deployed run, for a version that is not there, and for one whose evaluation names another
    recipe than it does itself.
    """
    if is_deployed():
        raise SplitError("evenfold trust is a person's word at a terminal, and a deployed run has none to give.")
    tracker = Tracker(Home.here(), "")
    try:
        registered = tracker.client.get_model_version(name, version)
    except Exception:  # MLflow has a kind of error of its own per store
        raise SplitError(
            f"there is no version {version!a} of a model {name!a} in {tracker.home.tracking_uri}; write "
            "NAME@VERSION, such as flights@3, as evenfold list shows them."
        ) from None
    try:
        with fetched_version(tracker.client, name, version) as files:
            digest = sha256(files[0]) if len(files) == 1 else ""
    except Exception:  # its files are gone
        digest = ""
    recipe = recipe_in(registered.tags, f"version {version} of {name}")
    evaluated = _evaluated(tracker, registered.tags.get(EVALUATION, ""))
    if evaluated is not None and not _alike(evaluated.get("model"), recipe):
        raise SplitError(f"the evaluation of version {version} of {name} names another recipe; retrain, or roll back.")
    return Untrusted(name, version, digest, None if recipe is None else recipe.canonical(), registered, evaluated)


def trust(looked_at: Untrusted) -> None:
    """Sign a version, and the recipe and predictions of its evaluation, as they were when they were looked at."""
    tracker, registered = Tracker(Home.here(), ""), looked_at._registered
    if looked_at._evaluated is not None:
        keep_recipe(tracker, registered.tags[EVALUATION], looked_at._evaluated)
    tags = registered.tags | {DIGEST: looked_at.sha256}
    tracker.client.set_model_version_tag(looked_at.name, looked_at.version, DIGEST, looked_at.sha256)
    sign_version(tracker.client, registered, tags)


def _evaluated(tracker: Tracker, run_id: str) -> dict[str, Any] | None:
    """Return the recipe of an evaluation with the digest of its predictions; None where there is no such run."""
    try:
        recipe: dict[str, Any]
        recipe, signed = read_signed(tracker, run_id)
    except Exception:  # gone, or none of ours
        return None
    try:
        return recipe if signed else recipe | {"sha256": {"predictions.parquet": read_evaluation(run_id).digest}}
    except SplitError:  # of draws, which keep no predictions
        return recipe


def _alike(evaluated: Any, registered: ModelSpec | None) -> bool:
    if registered is None or not isinstance(evaluated, dict):
        return False
    of_both = [ModelSpec.of(each).model_copy(update={"metrics": ()}) for each in (evaluated, registered)]
    return json.dumps(of_both[0].canonical()) == json.dumps(of_both[1].canonical())
