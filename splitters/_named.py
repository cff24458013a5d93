"""Strategies inside strategies: an instance, or the name and parameters that JSON can hold."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from typing import Any

from ._base import Splitter
from ._errors import SplitError
from ._importing import import_named, refusal


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
            f"{given!r} is no strategy; pass one, such as KFold(5), or "
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
    from . import strategies

    known = strategies()
    found = import_named(name) if ":" in name else known.get(name)
    if not (isinstance(found, type) and issubclass(found, Splitter)):
        raise SplitError(f"{name!r} is no strategy; choose one of {', '.join(known)}.")
    return found
