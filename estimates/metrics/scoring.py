"""Scorers, scikit-learn's and one's own by import path: their names, their scores of rows, and why there is none."""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from inspect import isroutine, signature
from typing import Any

import numpy as np
import pandas as pd
from evenfold.estimates.metrics.record import Answered, Responses, all_classes, describe_classes
from evenfold.splitters import SplitError, UntrustedNameError
from evenfold.splitters.errors import EvaluationError, ModelError, cause_of, is_deployed, reason_of, shown
from evenfold.splitters.naming import named, plain
from evenfold.splitters.untrusted import METRIC, Role, require_trusted, resolve
from numpy.typing import NDArray
from sklearn.metrics import get_scorer, get_scorer_names, make_scorer, r2_score

_NAMED = re.compile(r"([\w.]+:\w+)(?:\((.{1,500})\))?", re.DOTALL)
ERRORS = ("_error", "_loss", "_deviance")  # how scikit-learn ends the names of functions that are better lower
OF = " of "
# What is asked of one of two classes, by its name alone or as ``recall of yes``; specificity is of the other one.
OF_ONE_CLASS = ("precision", "recall", "f1", "jaccard", "average_precision", "sensitivity", "specificity")
_RATES = ("sensitivity", "specificity")
_YES = ("yes", "true", "on")


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
    """Return the arguments behind a path, ``shop.metrics:cost(rate=2)``, without importing it; else ModelError."""
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
    """Return the title for people: the function with its arguments."""
    options = {k: v for k, v in options_in(metric).items() if k not in ("greater_is_better", "response_method")}
    return _written(str(path_in(metric)).partition(":")[2].replace("_", " "), options)


def imported(path: str, role: Role) -> Any:
    """Return what a path of this ``role`` leads to; ModelError where it is none, UntrustedNameError where barred."""
    try:
        return resolve(path, role)
    except UntrustedNameError:
        raise
    except SplitError as error:
        raise ModelError(str(error)) from None


def scorer_at(metric: str) -> Any:
    """Return the scorer at a path, or one of the function there; its ``response_method`` is predict by default."""
    path, options = str(path_in(metric)), options_in(metric)
    function = imported(path, METRIC)
    if hasattr(function, "_score_func"):
        if options:
            raise ModelError(f"{path!r} is a scorer, and takes nothing more; name its function.")
        return function
    return make_scorer(function, **{"greater_is_better": not lower_is_better(metric), **options})


def name_of(metric: Any) -> str:
    """Return the name of a metric: its (first) scorer in scikit-learn, else the path of its function with arguments.

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
        if isroutine(metric):
            return next((name for name, each in scorers.items() if each._score_func is metric), None) or named(metric)
    except SplitError as error:
        raise ModelError(str(error)) from None
    remedy = "pass a scorer's name, make_scorer(...), or a function of (y_true, y_pred)"
    raise ModelError(f"a value of type {type(metric).__name__} is no metric; {remedy}.")


def _parts(scorer: Any) -> tuple[Any, bool, Any, dict[str, object]]:
    return scorer._score_func, scorer._sign < 0, scorer._response_method, plain(scorer._kwargs, "the scorer's argument")


def _written(name: str, options: Mapping[str, object]) -> str:
    return f"{name}({', '.join(f'{each}={options[each]!r}' for each in sorted(options))})" if options else name


def scorer_of(metric: str, classes: Sequence[Any] = ()) -> Any:
    """Return the scorer of a name, of a class (``recall of yes``) or at a path; ValueError for what is none."""
    if path_in(metric):
        return scorer_at(metric)
    name, _, label = metric.partition(OF)
    scorer = get_scorer("recall" if name in _RATES else name)
    # Areas and Brier scores of two classes are the same for either; scikit-learn wants one to be named.
    of_label = label or name in _RATES or (name == "neg_brier_score" and len(classes) == 2)
    if not of_label or not len(classes):
        return scorer
    if name in _RATES and len(classes) != 2:
        raise ValueError(f"it is of one of two classes, and there are {len(classes)}; choose recall_macro.")
    positive = next((each for each in classes if str(each) == label), None) if label else _usual(classes)
    if positive is None:
        raise ValueError(f"there is no class {label!r} among {describe_classes(np.asarray(classes))}.")
    if name == "specificity":
        positive = next(other for other in classes if other != positive)
    return _with(scorer, pos_label=positive)


def _with(scorer: Any, **more: Any) -> Any:
    sign = {"greater_is_better": scorer._sign > 0, "response_method": scorer._response_method}
    return make_scorer(scorer._score_func, **{**scorer._kwargs, **sign, **more})


def _usual(classes: Sequence[Any]) -> Any:
    # The label itself, which may be True or 1.0: columns of predictions are called by it.
    return next((label for label in classes if label == 1), classes[-1])


def is_mean_of_classes(metric: str) -> bool:
    """Return whether a scorer of classes is the plain mean of what it says of each of them: F1, recall and the like."""
    return bool(scorer_of(metric)._kwargs.get("average") == "macro")


def among_rows(metric: str, scorer: Any, y: NDArray[Any]) -> Any:
    """Return the scorer; a mean of classes is of those that have rows in ``y``, not of others that are predicted."""
    return _with(scorer, labels=np.unique(y)) if is_mean_of_classes(metric) else scorer


def positive_class(classes: tuple[Any, ...], positive: Any) -> Any:
    """Return the class that ``positive`` names, or scikit-learn's usual one: 1, else the second in sorted order.

    A yes that YAML has read as true is the class that says so. Raises ModelError where there is no such class of two.
    """
    if positive is None:
        return _usual(classes) if len(classes) == 2 else None
    if len(classes) != 2:
        held = f"{len(classes)} classes" if classes else "numbers"
        raise ModelError(f"positive names one of two classes, and the target holds {held}; leave it out.")
    for label in classes:
        word = isinstance(positive, bool) and isinstance(label, str) and (label.lower() in _YES) == positive
        if word or str(label) == str(positive):
            return label
    held = describe_classes(np.asarray(classes))
    raise ModelError(f"positive is {shown(repr(positive))}, and the target holds {held}.")


def of_positive(metrics: Sequence[str], classes: tuple[Any, ...], positive: Any) -> tuple[str, ...]:
    """Return metrics of one class by its name, as ``recall of yes``, where ``positive`` is given or no class is 1."""
    label = positive_class(classes, positive)
    if label is None or (positive is None and 1 in list(classes)):
        return tuple(metrics)
    return tuple(f"{metric}{OF}{label}" if metric in OF_ONE_CLASS else metric for metric in metrics)


def score(metric: str, rows: Answered) -> float:
    """Return the scorer's value of some rows; classes that the model does not know get probability 0."""
    y, answers, weights = rows.y, rows.answers, rows.weights
    trained = np.asarray(getattr(answers, "classes_", ())).tolist()
    scorer, labels = scorer_of(metric, trained), _labels(metric, trained, rows)
    if labels != trained and hasattr(answers, "predict_proba"):
        # Without their labels scikit-learn takes columns for the classes that happen to be in y.
        wide = all_classes(answers.predict_proba(rows.X), np.asarray(trained), tuple(labels))
        answers = Responses({"predict_proba": wide}, tuple(labels))
        scorer = scorer_of(metric, labels)
    if method_of(metric) == ("predict_proba",) and "labels" in signature(scorer._score_func).parameters:
        # An area needs rows of each class; a log loss does not, of whatever classes the rows are.
        of_any = "multi_class" not in scorer._kwargs and np.unique(y).size < len(labels)
        scorer = _with(scorer, labels=labels) if of_any or labels != trained else scorer
    if rows.held:
        scorer = among_rows(metric, scorer, y if weights is None else y[weights > 0])
    weighted = {} if weights is None else {"sample_weight": weights}
    if coded := _in_codes(metric, scorer, replace(rows, answers=answers)):
        try:
            return float(coded[0](coded[1], rows.X, coded[2], **weighted))
        except ValueError:
            pass  # the same again by the labels themselves, for the error names them
    return float(scorer(answers, rows.X, y, **weighted))


def _in_codes(metric: str, scorer: Any, rows: Answered) -> tuple[Any, Responses, NDArray[Any]] | None:
    """Return the same by whole numbers in place of text classes: equal scores, sooner; None where that is not so."""
    answers, y = rows.answers, rows.y
    method = next((name for name in method_of(metric) if hasattr(answers, name)), None)
    by_label = metric.partition(OF)[0] in OF_ONE_CLASS and "pos_label" not in scorer._kwargs
    of_numbers = scorer._score_func.__module__ == r2_score.__module__  # refuses text, and would take codes for numbers
    levels = pd.Index(rows.classes or np.asarray(getattr(answers, "classes_", ())).tolist())
    if y.dtype.kind not in "OU" or not levels.size or method is None or by_label or of_numbers or path_in(metric):
        return None
    response = np.asarray(getattr(answers, method)(rows.X))
    response = levels.get_indexer(response) if method == "predict" else response
    codes, trained = levels.get_indexer(y), levels.get_indexer(answers.classes_)
    if min(codes.min(initial=0), trained.min(initial=0), response.min(initial=0) if method == "predict" else 0) < 0:
        return None
    at = {name: levels.get_indexer(np.atleast_1d(value)).tolist() for name, value in scorer._kwargs.items()
          if name in ("labels", "pos_label") and value is not None}  # fmt: skip
    at |= {"pos_label": at["pos_label"][0]} if "pos_label" in at else {}
    return _with(scorer, **at), Responses({method: response}, tuple(trained.tolist())), codes


def _labels(metric: str, trained: list[Any], rows: Answered) -> list[Any]:
    """Return the classes whose probabilities a scorer is to see; those ``trained`` where it reads none."""
    if trained == list(rows.classes) or not rows.classes or method_of(metric) != ("predict_proba",):
        return trained
    if "multi_class" not in scorer_of(metric)._kwargs:
        return list(rows.classes)
    labels: list[Any] = np.union1d(trained, rows.y).tolist()  # a class that neither is known nor has a row has no area
    if labels != trained and len(labels) > np.unique(rows.y).size:
        raise ValueError("no row is of one of the classes that the model knows.")
    return labels


def method_of(metric: str) -> tuple[str, ...]:
    """Return the estimator's methods of which the scorer calls the first that there is."""
    method = scorer_of(metric)._response_method
    return (method,) if isinstance(method, str) else tuple(method)


def scores_of(metrics: Sequence[str], rows: Answered, *, name: str, side: str) -> dict[str, float]:
    """Return every metric's score, but what one test row has none of; EvaluationError where one fails or is NaN."""
    scores: dict[str, float] = {}
    alone = rows.n == 1 and side == "test"
    for metric in metrics:
        try:
            value = score(metric, rows)
        except EvaluationError:
            raise
        except Exception as error:
            if alone and isinstance(error, ValueError):
                continue
            raise EvaluationError(_undefined(metric, rows, name, side, first_line(error))) from cause_of(error)
        if not np.isnan(value):
            scores[metric] = value
        elif not alone:
            raise EvaluationError(_undefined(metric, rows, name, side, "the score is not a number."))
    return scores


def _undefined(metric: str, rows: Answered, name: str, side: str, because: str) -> str:
    y, classes = rows.y, getattr(rows.answers, "classes_", None)
    if not y.size:
        return f"{name} has no {side} row; decide a split of the rows that there are."
    if bad := _not_finite(metric, rows):
        why = f"the model's answers for {bad:,} of its {y.size:,} {side} rows are not finite numbers"
        remedy = "Use a model that answers every row with one, or exclude the features that it overflows on"
        return f"{name}: {metric} is undefined: {why}. {remedy}."
    if classes is None:
        held = f"values of {shown(f'{y.min():g} to {y.max():g}')}"
        remedy = "fewer folds, or another metric such as neg_mean_absolute_error"
    else:
        held = f"{describe_classes(y)} of the model's {len(classes)}"
        remedy = "a strategy that stratifies, fewer folds, or another metric such as accuracy"
    rows_hold = "row holds" if y.size == 1 else "rows hold"
    return f"{name}: {metric} is undefined: its {y.size:,} {side} {rows_hold} {held}; {because} Use {remedy}."


def _not_finite(metric: str, rows: Answered) -> int:
    """Return for how many rows what the metric reads of a model is NaN or infinite."""
    method = next((name for name in method_of(metric) if hasattr(rows.answers, name)), None)
    try:
        answer = np.asarray(getattr(rows.answers, str(method))(rows.X))
    except Exception:  # there are no answers, and their error is told
        return 0
    return int(np.sum(~np.isfinite(answer.reshape(rows.n, -1)).all(axis=1))) if answer.dtype.kind == "f" else 0


def first_line(error: Exception) -> str:
    """Return the first line of an error's message, as a sentence."""
    line = reason_of(error) if is_deployed() else str(error).strip().partition("\n")[0].rstrip()
    return line if line.endswith(".") else line + "."
