"""From an import path and parameters to an estimator."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from typing import Any

from evenfold.splitters import SplitError, import_named, refusal

from ._errors import ModelError
from ._nearest import nearest


def named_estimator(path: str, params: Mapping[str, Any], methods: tuple[str, ...] = ("fit", "predict")) -> Any:
    """Return the unfitted estimator that the class or factory function at ``path`` makes of ``params``.

    A parameter with ``__`` in its name is set on the part it names, as scikit-learn's ``set_params`` does.
    Raises ModelError where the path does not import, is no class or function, does not take the parameters, or makes
    something without ``methods`` and ``get_params``.
    """
    maker = _imported(path)
    nested = {name: value for name, value in params.items() if "__" in name}
    made = _made(path, maker, {name: value for name, value in params.items() if name not in nested})
    lacking = [name for name in (*methods, "get_params") if not callable(getattr(made, name, None))]
    if lacking:
        what, such = _EXAMPLES["predict" in methods]
        raise ModelError(
            f"{path!r} is no {what}: {type(made).__name__} has no {' and no '.join(lacking)}; "
            f"name a class or a function that returns one, such as {such}."
        )
    try:
        return made.set_params(**nested) if nested else made
    except ValueError as error:
        raise ModelError(f"{path!r} does not accept its parameters: {error}") from None


_EXAMPLES = {
    True: ("estimator", "sklearn.linear_model:Ridge"),
    False: ("transformer that can be inverted", "sklearn.preprocessing:PowerTransformer"),
}


def seeded(estimator: Any, seed: int) -> Any:
    """Return ``estimator`` with every ``random_state`` that is None set to ``seed``, in its parts as well."""
    unset = {
        name: seed
        for name, value in estimator.get_params(deep=True).items()
        if value is None and name.rpartition("__")[2] == "random_state"
    }
    return estimator.set_params(**unset) if unset else estimator


def _imported(path: str) -> Any:
    try:
        maker = import_named(path)
    except SplitError as error:
        raise ModelError(f"estimator {error}") from None
    if not callable(maker):
        raise ModelError(
            f"{path!r} names a {type(maker).__name__}, no class and no function; name what makes the estimator."
        )
    return maker


def _made(path: str, maker: Any, params: dict[str, Any]) -> Any:
    try:
        return maker(**params)
    except TypeError as error:
        raise ModelError(
            f"{path!r} does not accept its parameters: {refusal(error)}{_unknown(maker, params)}"
        ) from None
    except Exception as error:
        raise ModelError(f"{path!r} cannot be made: {type(error).__name__}: {error}") from error


def _unknown(maker: Any, params: dict[str, Any]) -> str:
    accepted = [name for name in inspect.signature(maker).parameters if name not in ("self", "args", "kwargs")]
    unknown = [name for name in params if name not in accepted]
    return nearest(unknown[0], accepted) if unknown and accepted else ""
