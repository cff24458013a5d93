"""Estimators, made of what names them."""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import pandas as pd
from evenfold.estimates.errors import ModelError
from evenfold.estimates.metrics.scoring import imported
from evenfold.splitters.errors import meant
from evenfold.splitters.importing import ESTIMATOR, FUNCTION, PART, Role, check_params, refusal
from sklearn.base import is_classifier
from sklearn.ensemble import StackingClassifier, StackingRegressor
from sklearn.linear_model import LogisticRegression, RidgeCV


def nearest(name: str, among: Iterable[str]) -> str:
    """Return ``; did you mean 'a' or 'b'?`` with the closest of ``among``, or their list where none is close."""
    names = [str(name) for name in among]
    by_lower = {each.lower(): each for each in reversed(names)}
    if hint := meant(name.lower(), by_lower, most=3, cutoff=0.6, show=lambda match: repr(by_lower[match])):
        return f"; {hint}"
    listing = ", ".join(names[:12])
    return f"; choose one of {listing}{' …' if len(names) > 12 else ''}." if names else "."


def named_estimator(path: str, params: Mapping[str, Any], role: Role = ESTIMATOR) -> Any:
    """Return the unfitted estimator that the class or factory function at ``path`` makes of ``params``.

    A parameter with ``__`` in its name is set on the part it names, as by ``set_params``; ``{"estimator": path,
    "params": {...}}``, also inside a parameter, becomes such a part (or a splitter, distribution or scorer),
    ``{"function": path}`` the function or class itself, ``{"frame": {column: values}}`` a frame, and ``{"mapping":
    [[key, value], ...]}`` one keyed by numbers. Raises ModelError where the path does not import, is no class or
    function, refuses the parameters, or makes something that does not play ``role``, and UntrustedNameError for what
    may not be imported here.
    """
    check_params(path, params)
    maker = imported(path, role)
    signature = inspect.signature(maker).parameters
    params = {name: _with_parts(value, signature.get(name)) for name, value in params.items()}
    nested = {name: value for name, value in params.items() if "__" in name}
    estimator = _made(path, maker, {name: value for name, value in params.items() if name not in nested})
    if isinstance(estimator, (StackingClassifier, StackingRegressor)) and estimator.final_estimator is None:
        # As it chooses when it is fitted; until then it says that it cannot predict.
        estimator.final_estimator = LogisticRegression() if is_classifier(estimator) else RidgeCV()
    if lacking := role.lacking(estimator):
        raise ModelError(f"{path!r} is not {role.what}: {lacking}; {role.remedy}.")
    try:
        return estimator.set_params(**nested) if nested else estimator
    except ValueError as error:
        raise ModelError(f"{path!r} does not accept its parameters: {error}") from None


def _is_part(value: Any) -> bool:
    return (
        isinstance(value, Mapping)
        and isinstance(value.get("estimator"), str)
        and value.keys() <= {"estimator", "params"}
    )


def _is_one(value: Any, name: str, kind: Any) -> bool:
    return isinstance(value, Mapping) and [*value] == [name] and isinstance(value[name], kind)


def _with_parts(value: Any, parameter: inspect.Parameter | None = None) -> Any:
    """Return a parameter with the parts that it names made, and as a tuple where its default is one: JSON has none."""
    if _is_part(value):
        return named_estimator(value["estimator"], value.get("params") or {}, PART)
    if _is_one(value, "function", str):
        return imported(value["function"], FUNCTION)
    if _is_one(value, "frame", Mapping):
        return pd.DataFrame(value["frame"])
    if _is_one(value, "mapping", list):
        return {tuple(key) if isinstance(key, list) else key: _with_parts(part) for key, part in value["mapping"]}
    if isinstance(value, Mapping):
        return {name: _with_parts(part) for name, part in value.items()}
    if not isinstance(value, (list, tuple)):
        return value
    parts = [_with_parts(part) for part in value]
    is_named = isinstance(value, list) and any(map(_is_part, value)) and isinstance(value[0], str)
    return tuple(parts) if is_named or isinstance(getattr(parameter, "default", value), tuple) else parts


def parts_in(params: Any) -> Iterator[str]:
    """Yield the import paths of the parts inside parameters."""
    if _is_part(params):
        yield params["estimator"]
    elif _is_one(params, "function", str):
        yield params["function"]
    if isinstance(params, (Mapping, list, tuple)):
        for part in params.values() if isinstance(params, Mapping) else params:
            yield from parts_in(part)


def seeded(estimator: Any, seed: int) -> Any:
    """Return ``estimator`` with every ``random_state`` that is None set to ``seed``, in its parts and splitters."""
    for value in estimator.get_params(deep=True).values():
        if hasattr(value, "split") and getattr(value, "random_state", seed) is None:
            value.random_state = seed
    unset = {
        name: seed
        for name, value in estimator.get_params(deep=True).items()
        if value is None and name.rpartition("__")[2] == "random_state"
    }
    return estimator.set_params(**unset) if unset else estimator


def _made(path: str, maker: Any, params: Mapping[str, object]) -> Any:
    try:
        return maker(**params)
    except TypeError as error:
        accepted = [name for name in inspect.signature(maker).parameters if name not in ("self", "args", "kwargs")]
        unknown = [name for name in params if name not in accepted]
        raise ModelError(
            f"{path!r} does not accept its parameters: {refusal(error)}"
            f"{nearest(unknown[0], accepted) if unknown and accepted else ''}"
        ) from None
    except Exception as error:
        raise ModelError(f"{path!r} cannot be made: {type(error).__name__}: {error}") from error
