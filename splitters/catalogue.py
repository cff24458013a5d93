"""Which strategies there are, and the one that a name stands for."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from typing import Any

from .base import Splitter
from .errors import SplitError
from .importing import import_named, refusal


def all_strategies() -> dict[str, type[Splitter]]:
    """Return every exported strategy by its name."""
    import evenfold.splitters as room

    shapes = {"Splitter", "LabelSplitter", "PartSplitter", "DrawSplitter", "PairSplitter", "GroupPacker"}
    things = {name: getattr(room, name) for name in dir(room) if name not in shapes}
    return {name: thing for name, thing in things.items() if isinstance(thing, type) and issubclass(thing, Splitter)}


def strategy_of(given: Any, random_state: int) -> Splitter:
    """Return the strategy that ``given`` is or names.

    A name comes as ``{"strategy": "KFold", "params": {"n_splits": 5}}``; a strategy of your own is named by its
    import path, ``package.module:Name``. A named strategy whose parameters hold no random_state takes this one.
    Raises SplitError that says what is not known.
    """
    if isinstance(given, Splitter):
        return given
    if not isinstance(given, Mapping) or "strategy" not in given or set(given) - {"strategy", "params"}:
        raise SplitError(
            f"{given!r} is not a strategy; pass one, such as KFold(5), or "
            "{'strategy': 'KFold', 'params': {'n_splits': 5}}."
        )
    made = _class_of(str(given["strategy"]))
    params = dict(given.get("params") or {})
    if "random_state" in inspect.signature(made).parameters:
        params.setdefault("random_state", random_state)
    try:
        return made(**params)
    except TypeError as error:
        raise SplitError(f"{made.__name__} cannot be made of {params!r}: {refusal(error)}.") from None


def _class_of(name: str) -> type[Splitter]:
    known = all_strategies()
    found = import_named(name) if ":" in name else known.get(name)
    if not (isinstance(found, type) and issubclass(found, Splitter)):
        raise SplitError(f"{name!r} is not a strategy; choose one of {', '.join(known)}.")
    return found
