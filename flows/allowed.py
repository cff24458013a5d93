"""What a deployed run may import: the worker's list, checked before anything of a request is imported."""

from __future__ import annotations

import inspect
import os
from collections.abc import Iterator
from typing import Any

from evenfold.estimates import ModelSpec
from evenfold.manifests import SplitSpec
from evenfold.splitters import SplitError, import_named

ALWAYS = "evenfold"
DEFAULT = "sklearn"


def allowed_modules() -> tuple[str, ...]:
    """Return the packages in ``EVENFOLD_ALLOWED_MODULES`` (comma-separated, by default sklearn), and evenfold."""
    given = os.environ.get("EVENFOLD_ALLOWED_MODULES", DEFAULT)
    return (ALWAYS, *(name.strip() for name in given.split(",") if name.strip()))


def require_allowed(spec: SplitSpec | None = None, model: ModelSpec | None = None, **asked: Any) -> None:
    """Raise SplitError that names the first import path in what is asked which is not allowed.

    Nothing is imported before its module is found on the list. What is imported must be defined in an allowed module
    too (a module also holds what it imported itself), and must be a class that fits or splits: scikit-learn has
    functions that delete folders. Functions are allowed from packages that the list names beyond the default.
    """
    for path in import_paths(spec, model, **asked):
        _require(path)


def import_paths(
    spec: SplitSpec | None = None, model: ModelSpec | None = None, strategy: str | None = None, **asked: Any
) -> Iterator[str]:
    """Yield every import path in what a flow is asked."""
    yield from filter(_looks_importable, filter(None, [strategy, spec.strategy if spec else None]))
    yield from _in_params([asked.get("params"), asked.get("grid"), spec.params if spec else None])
    if model is not None:
        yield from filter(None, [model.estimator, *_in_params(model.params)])
        if model.target_transform is not None:
            yield model.target_transform.transformer
            yield from _in_params(model.target_transform.params)


def _in_params(value: Any, name: str = "") -> Iterator[str]:
    if isinstance(value, dict):
        for key, each in value.items():
            yield from _in_params(each, str(key))
    elif isinstance(value, (list, tuple)):
        for each in value:
            yield from _in_params(each)
    elif isinstance(value, str) and (name == "splitter" or _looks_importable(value)):
        yield value


def _looks_importable(value: str) -> bool:
    module, colon, name = value.partition(":")
    return bool(colon) and name.isidentifier() and all(part.isidentifier() for part in module.split("."))


def _require(path: str) -> None:
    allowed = allowed_modules()
    if not _within(path.partition(":")[0], allowed):
        raise SplitError(
            f"{path!r} may not be imported in a deployment run; allowed are {', '.join(allowed)}. "
            "Add its package to EVENFOLD_ALLOWED_MODULES where the worker runs."
        )
    found = import_named(path)
    home = getattr(found, "__module__", "") or ""
    if not _within(home, allowed):
        raise SplitError(f"{path!r} is defined in {home or 'no module'!r}, which a deployment run may not import.")
    works = inspect.isclass(found) and (hasattr(found, "fit") or hasattr(found, "split"))
    if not works and not (inspect.isfunction(found) and not _within(home, (DEFAULT,))):
        raise SplitError(f"{path!r} is no class that fits or splits; a deployment run may name nothing else of it.")


def _within(module: str, packages: tuple[str, ...]) -> bool:
    return any(module == name or module.startswith(f"{name}.") for name in packages)
