"""Which strategies there are, and the one that a name stands for."""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
from evenfold.splitters.numbers import digest_json

from .base import Splitter
from .code import code_of
from .errors import SplitError, meant
from .importing import Role, refusal, resolve
from .naming import import_path, params_of


def all_strategies() -> dict[str, type[Splitter]]:
    """Return every exported strategy by its name."""
    import evenfold.splitters as room

    shapes = {"Splitter", "LabelSplitter", "PartSplitter", "DrawSplitter", "PairSplitter", "GroupPacker"}
    things = {name: getattr(room, name) for name in dir(room) if name not in shapes}
    return {name: thing for name, thing in things.items() if isinstance(thing, type) and issubclass(thing, Splitter)}


def strategy_of(value: Any, random_state: int) -> Splitter:
    """Return the strategy that ``value`` is or names.

    A name comes as ``{"strategy": "KFold", "params": {"n_splits": 5}}``; a strategy of your own is named by its
    import path, ``package.module:Name``. A named strategy whose parameters hold no random_state takes this one.
    Raises SplitError that says what is not known.
    """
    if isinstance(value, Splitter):
        return value
    if not isinstance(value, Mapping) or "strategy" not in value or set(value) - {"strategy", "params"}:
        raise SplitError(
            f"{value!r} is not a strategy; pass one, such as KFold(5), or "
            "{'strategy': 'KFold', 'params': {'n_splits': 5}}."
        )
    params = value.get("params") or {}
    seed = {} if "random_state" in params else {"random_state": random_state}
    return strategy_made(strategy_named(str(value["strategy"])), params, **seed)


def strategy_made(strategy: type[Splitter], params: Mapping[str, Any], **seed: int) -> Splitter:
    """Return a strategy with these parameters, and with ``random_state`` where it has one and it is given.

    Raises SplitError for a parameter that it does not have, and for one that it cannot do without.
    """
    parameters = set(strategy._get_param_names())
    for name in params:
        if name not in parameters:
            hint = meant(name, parameters, most=1) or f"it has {', '.join(sorted(parameters - {'random_state'}))}."
            raise SplitError(f"{strategy.__name__} has no parameter {name!r}; {hint}")
    missing = sorted(parameters - {"random_state"} - params.keys() - defaults_of(strategy).keys())
    if missing:
        names, them = " and ".join(missing), "it" if len(missing) == 1 else "them"
        raise SplitError(
            f"{strategy.__name__} needs {names}, and nothing is given for {them}; write params: {{{missing[0]}: ...}}, "
            f"or --param {missing[0]}=..."
        )
    try:
        return strategy(**params, **(seed if "random_state" in parameters else {}))
    except TypeError as error:
        raise SplitError(f"{strategy.__name__} cannot be made: {refusal(error)}.") from None


def defaults_of(strategy: type[Splitter]) -> dict[str, Any]:
    """Return the parameters of a strategy that need not be given."""
    parameters = inspect.signature(strategy).parameters.values()
    return {each.name: each.default for each in parameters if each.default is not inspect.Parameter.empty}


STRATEGY = Role(
    "a strategy",
    (),
    "subclass LabelSplitter, DrawSplitter or PairSplitter; a splitter of scikit-learn's kind goes into FromSklearn",
    base=Splitter,
)


def strategy_named(name: str) -> type[Splitter]:
    """Return one of our strategies by its name, or one of your own by its import path (``my_folds:MyStrategy``).

    Raises SplitError that names the nearest ones.
    """
    if ":" in name:
        own: type[Splitter] = resolve(name, STRATEGY)
        return own
    strategies = all_strategies()
    if name not in strategies:
        hint = meant(name, strategies) or f"choose {', '.join(strategies)}."
        raise SplitError(f"there is no strategy {name!r}; {hint}")
    return strategies[name]


def strategy_recipe(value: Any) -> dict[str, Any]:
    """Return ``{"strategy": name, "params": {...}}`` of a strategy, a splitter of scikit-learn's kind, or pairs.

    What names one already stays as it is. Raises SplitError for anything else, and for what no recipe can hold.
    """
    if isinstance(value, (str, Mapping)):
        return {"strategy": value} if isinstance(value, str) else dict(value)
    kind = value if isinstance(value, type) else type(value)
    own = issubclass(kind, Splitter)
    if own or hasattr(kind, "split"):
        params = {} if value is kind else params_of(value, strategy_recipe)
        name = kind.__name__ if all_strategies().get(kind.__name__) is kind else import_path(kind)
        if own:
            return {"strategy": name, "params": params}
        return {"strategy": "FromSklearn", "params": {"splitter": name} | ({"params": params} if params else {})}
    try:
        pairs = [[np.asarray(side) for side in pair] for pair in value]
    except (TypeError, ValueError):
        raise SplitError(
            f"{value!r} is no strategy; pass one, its name, or pairs of (train, test) positions."
        ) from None
    positions = [[(np.flatnonzero(side) if side.dtype == bool else side).tolist() for side in pair] for pair in pairs]
    return {"strategy": "PredefinedPairs", "params": {"given_pairs": positions}}


def strategy_code(name: str | None, params: Mapping[str, Any]) -> str:
    """Return ``+`` and a digest of the user's own code behind a strategy, what it wraps and those in its parameters.

    Empty where there is none; see ``code_of``.
    """
    code = modules_of_strategy(name, params)
    return f"+{digest_json(code)[:16]}" if code else ""


def modules_of_strategy(name: str | None, params: Mapping[str, Any]) -> dict[str, str]:
    """Return the digest of each module that ``strategy_code`` is a digest of."""
    paths = list(_paths(str(name), params))
    return code_of(*paths) if paths else {}


def _paths(name: str, params: Mapping[str, Any]) -> Iterator[str]:
    yield from [name] if ":" in name else []
    yield from [params["splitter"]] if isinstance(params.get("splitter"), str) else []
    for part in params.values():
        if isinstance(part, Mapping) and isinstance(inside := part.get("params", {}), Mapping):
            yield from _paths(str(part.get("strategy")), inside)
