"""Metrics of one's own: functions of (y_true, y_pred) and scorers of scikit-learn, by what names them."""

from __future__ import annotations

import ast
import inspect
import re
from collections.abc import Mapping
from typing import Any

from evenfold.estimates.errors import ModelError
from evenfold.splitters import SplitError, UntrustedNameError
from evenfold.splitters.importing import METRIC, require_trusted, resolve
from evenfold.splitters.naming import named, plain
from sklearn.metrics import get_scorer, get_scorer_names, make_scorer

_NAMED = re.compile(r"([\w.]+:\w+)(?:\((.{1,500})\))?", re.DOTALL)
ERRORS = ("_error", "_loss", "_deviance")  # how scikit-learn ends the names of functions that are better lower


def path_in(metric: str) -> str | None:
    """Return the import path that a metric is named by; None of a scorer of scikit-learn's."""
    match = _NAMED.fullmatch(metric)
    return match and match[1]


def is_trusted(metric: str) -> bool:
    """Return whether a metric that a record names may be imported: what a deployed run may, too."""
    try:
        if path := path_in(metric):
            require_trusted(path, METRIC)
    except UntrustedNameError:
        return False
    return True


def options_in(metric: str) -> dict[str, object]:
    """Return the arguments behind a path, plain values as Python writes them: ``shop.metrics:cost(rate=2)``.

    Nothing is imported. Raises ModelError for anything else.
    """
    match = _NAMED.fullmatch(metric)
    try:
        call: Any = ast.parse(f"_({(match and match[2]) or ''})", mode="eval").body
        options = {str(each.arg): ast.literal_eval(each.value) for each in call.keywords}
        if isinstance(call.func, ast.Name) and not call.args and "None" not in options:
            return options
    except (AttributeError, SyntaxError, ValueError, RecursionError, MemoryError):
        pass
    raise ModelError(f"{metric[:80]!r} names no metric; write package.module:name, or package.module:name(rate=2).")


def lower_is_better(metric: str) -> bool:
    """Return whether a metric by its path is an error: as it says, or else as scikit-learn ends the names of those."""
    return not options_in(metric).get("greater_is_better", not str(path_in(metric)).endswith(ERRORS))


def title_of(metric: str) -> str:
    """Return what people call it: its function, with what that is given."""
    options = {k: v for k, v in options_in(metric).items() if k not in ("greater_is_better", "response_method")}
    return _written(str(path_in(metric)).partition(":")[2].replace("_", " "), options)


def scorer_at(metric: str) -> Any:
    """Return the scorer at a path, or one of the function there; its ``response_method`` is predict by default."""
    path, options = str(path_in(metric)), options_in(metric)
    try:
        function = resolve(path, METRIC)
    except UntrustedNameError:
        raise
    except SplitError as error:
        raise ModelError(str(error)) from None
    if hasattr(function, "_score_func"):
        if options:
            raise ModelError(f"{path!r} is a scorer, and takes nothing more; name its function.")
        return function
    return make_scorer(function, **{"greater_is_better": not lower_is_better(metric), **options})


def name_of(metric: Any) -> str:
    """Return the name of a metric: its scorer in scikit-learn, else the path of its function with its arguments.

    A text is a path, or a name as it stands; scikit-learn's functions become their first scorer, as ``roc_auc``.
    Raises ModelError for what no other process finds, and what is no metric.
    """
    if isinstance(metric, str):
        return name_of(scorer_at(metric)) if path_in(metric) else metric
    scorers = {name: get_scorer(name) for name in sorted(get_scorer_names(), key=lambda each: each[:4] != "neg_")}
    try:
        if hasattr(metric, "_score_func"):
            function, error, response, kwargs = parts = _parts(metric)
            if alike := [name for name, each in scorers.items() if _parts(each) == parts]:
                return str(alike[0])
            path = named(function)
            options: dict[str, object] = {} if error == lower_is_better(path) else {"greater_is_better": not error}
            return _written(path, options | ({} if response == "predict" else {"response_method": response}) | kwargs)
        if inspect.isroutine(metric):
            return next((name for name, each in scorers.items() if each._score_func is metric), None) or named(metric)
    except SplitError as error:
        raise ModelError(str(error)) from None
    raise ModelError(
        f"a value of type {type(metric).__name__} is no metric; pass a scorer's name, make_scorer(...), or a function "
        "of (y_true, y_pred)."
    )


def _parts(scorer: Any) -> tuple[Any, bool, Any, dict[str, object]]:
    return scorer._score_func, scorer._sign < 0, scorer._response_method, plain(scorer._kwargs, "the scorer's argument")


def _written(name: str, options: Mapping[str, object]) -> str:
    return f"{name}({', '.join(f'{each}={options[each]!r}' for each in sorted(options))})" if options else name
