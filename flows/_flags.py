"""Flags and files together make a specification and a model."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any


def spec_of(
    data: str,
    file: Path | None,
    columns: dict[str, Any],
    strategy: str | None,
    n_splits: int | None,
    param: list[str] | None,
    seed: int | None,
    name: str | None,
    holdout: float | None,
) -> Any:
    """Return the specification in the file with the flags put over it."""
    from evenfold.manifests import read_spec

    base = read_spec(file).model_dump(exclude_unset=True) if file else {}
    fields = {"strategy": strategy, "seed": seed, "name": name or base.get("name") or _name_of(data)}
    said = values_of("--param", param, 'NAME=JSON, such as leftovers="end"')
    params = {**base.get("params", {}), **said, **({} if n_splits is None else {"n_splits": n_splits})}
    fields["holdout"] = None if holdout is None else {"fraction": holdout}
    given = {field: value for field, value in columns.items() if value}
    merged = base | {field: value for field, value in fields.items() if value is not None}
    return read_spec(merged | {"params": params, "columns": base.get("columns", {}) | given})


def _name_of(data: str) -> str:
    return re.sub(r"[^A-Za-z0-9._-]", "-", Path(data).stem).strip("._-")[:100] or "split"


def values_of(flag: str, given: list[str] | None, example: str) -> dict[str, Any]:
    """Return what NAME=JSON flags say; a value that is no JSON is text."""
    from evenfold.splitters import SplitError

    values: dict[str, Any] = {}
    for each in given or []:
        name, equals, value = each.partition("=")
        if not equals:
            raise SplitError(f"{flag} {each!r} has no '='; write {example}.")
        try:
            values[name] = json.loads(value)
        except json.JSONDecodeError:
            values[name] = value
    return values


def model_of(given: str | None, fields: dict[str, Any]) -> Any:
    from evenfold.estimates import ModelSpec

    base = ModelSpec.read(given) if given and given.endswith((".yaml", ".yml", ".json")) else ModelSpec.of(given)
    changed = {name: value for name, value in fields.items() if value}
    return ModelSpec.of(base.model_dump(exclude_unset=True) | changed)
