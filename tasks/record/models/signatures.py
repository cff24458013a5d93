"""What is signed in MLflow, which others may edit: versions of models, and the recipes of evaluations."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from evenfold.splitters import UntrustedNameError
from evenfold.tasks.runtime.signing import is_signed, sign

# At a version: the digest of its model's file; its signatures, each by a tag of its own, for several homes may sign;
# whose place it took as champion; who withdrew it, and why. The last three come later, and are not signed.
DIGEST, SIGNATURE, REPLACES, WITHDRAWN = (
    f"evenfold.{name}" for name in ("model_sha256", "signature", "replaces", "withdrawn")
)
RECIPE = "recipe.json"


def claim_of(name: str, version: object, source: str, tags: Mapping[str, str]) -> dict[str, object]:
    """Return what the signature of a version covers: its name and number, where its files lie, and every tag of ours.

    Among these are its recipe, split, scores, run key, evaluation and the digest of its model.
    """
    later = (SIGNATURE, REPLACES, WITHDRAWN)
    ours = {tag: value for tag, value in tags.items() if tag.startswith("evenfold.") and not tag.startswith(later)}
    return {"name": name, "version": str(version), "source": source, "tags": ours}


def sign_version(client: Any, version: Any, tags: Mapping[str, str]) -> None:
    """Sign a version of the registry as one that has these ``tags``, whatever it says by itself."""
    signature = sign("version", claim_of(version.name, version.version, version.source, tags))
    client.set_model_version_tag(version.name, str(version.version), f"{SIGNATURE}.{signature[:8]}", signature)


def is_signed_version(version: Any) -> bool:
    """Return whether this home or its team signed a version of the registry, as it is now."""
    claim = claim_of(version.name, version.version, version.source, version.tags)
    return is_signed("version", claim, [value for tag, value in version.tags.items() if tag.startswith(SIGNATURE)])


def require_signed_version(version: Any) -> None:
    """Raise UntrustedNameError unless this home or its team signed a version of the registry, as it is now."""
    if not is_signed_version(version):
        raise UntrustedNameError(
            f"version {version.version} of {version.name} in MLflow was not signed by this home, or was changed since, "
            f"and is not used; look at it and say evenfold trust {version.name}@{version.version} at a terminal, put "
            "another version back (evenfold rollback), or set EVENFOLD_SIGNING_KEY to the key of whoever signed it."
        )


def keep_recipe(tracker: Any, run_id: str, recipe: Mapping[str, object], **more: object) -> None:
    """Keep the recipe of an evaluation, with what else is to be signed of it, signed for this very run."""
    plain = json.loads(json.dumps({**recipe, **more}, default=str))
    before = plain.pop("signatures", [])
    signature = sign("recipe", {"run": run_id, "recipe": plain})
    tracker.keep(run_id, RECIPE, plain | {"signatures": [*before, signature]})


def read_signed(tracker: Any, run_id: str) -> tuple[Any, bool]:
    """Return what is kept as the recipe of a run, and whether this home or its team signed it for that run."""
    recipe = json.loads(tracker.text(run_id, RECIPE))
    if not isinstance(recipe, dict):
        return recipe, False
    plain = {name: value for name, value in recipe.items() if name != "signatures"}
    signatures = recipe.get("signatures")
    held = signatures if isinstance(signatures, list) else []
    return recipe, is_signed("recipe", {"run": run_id, "recipe": plain}, held)
