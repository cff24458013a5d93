"""Models that an evaluation keeps where they are asked for: one of all rows, or one per fold as well."""

from __future__ import annotations

from typing import Any

from evenfold.estimates import ModelError
from evenfold.tasks import Call, Engine, Home
from evenfold.tasks.fits import fit_final, kept, split_title
from evenfold.tasks.work import Work, key_of_all, key_of_split

from ._fits import in_blocks, shared_arguments
from ._requests import EvaluateRequest


def check_models(request: EvaluateRequest, work: Work) -> None:
    """Raise ModelError where a model per fold is asked for and there are draws, or over 1,000 folds."""
    if request.log_models == "all" and in_blocks(work):
        raise ModelError(
            f"log_models='all' keeps a model per fold, and {work.manifest.algorithm['name']} makes "
            f"{work.manifest.n_splits:,} splits that are fitted in blocks; choose 'final'."
        )


def models_of(engine: Engine, home: Home, request: EvaluateRequest, ref: dict[str, Any], work: Work) -> dict[str, Any]:
    """Return file, digest and key of each model that was asked for, by its run's name; raises what a fit raises."""
    if request.log_models == "none":
        return {}
    seed = request.spec.seed
    asked = shared_arguments(engine, home, request, ref)
    keys: dict[str, tuple[str, int | None]] = {"all rows": (key_of_all(work, seed), None)}
    if request.log_models == "all":
        splits = range(work.manifest.n_splits)
        keys |= {split_title(work.manifest, i): (key_of_split(work, i, seed), i) for i in splits}
    made = {}
    for name, (key, i) in keys.items():
        call = Call(fit_final, {**asked, "key": key, "i": i}, f"model of {name}", f"model/{key}", kept)
        made[name] = engine.run(call).value | {"key": key}
    return made
