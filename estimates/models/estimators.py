"""Estimators, made of what names them, and the default ones; what suits them and a target; fits with weights."""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from evenfold.estimates.metrics.record import MOST_SHOWN_CLASSES, Answered, Responses, Task
from evenfold.estimates.metrics.registry import ALIASES, METRICS
from evenfold.estimates.metrics.scoring import OF, first_line, imported, method_of, name_of, of_positive, path_in, score
from evenfold.splitters.errors import ModelError, meant, reason_of, shown
from evenfold.splitters.numbers import is_number
from evenfold.splitters.untrusted import ESTIMATOR, FUNCTION, PART, TRANSFORMER, Role, check_params, refusal
from numpy.typing import NDArray
from sklearn import config_context
from sklearn.base import BaseEstimator, clone, is_classifier
from sklearn.ensemble import StackingClassifier, StackingRegressor
from sklearn.linear_model import LogisticRegression, RidgeCV
from sklearn.metrics import get_scorer, get_scorer_names
from sklearn.model_selection import TunedThresholdClassifierCV

if TYPE_CHECKING:
    from .spec import ModelSpec

BOOSTING = "sklearn.ensemble:HistGradientBoosting"
DEFAULTS: dict[str, tuple[str, tuple[str, ...]]] = {  # the model and the metrics
    "regression": (f"{BOOSTING}Regressor", ("r2", "neg_mean_absolute_error", "neg_root_mean_squared_error")),
    "binary": (f"{BOOSTING}Classifier", ("roc_auc", "accuracy", "balanced_accuracy")),
    "multiclass": (f"{BOOSTING}Classifier", ("accuracy", "balanced_accuracy", "neg_log_loss")),
}
TASK_OF_OPTION = {"balance": "classification", "threshold": "classification", "target_transform": "regression"}


def nearest(name: str, among: Iterable[str]) -> str:
    """Return ``; did you mean 'a' or 'b'?`` with the closest of ``among``, or their list where none is close."""
    names = [str(name) for name in among]
    by_lower = {each.lower(): each for each in reversed(names)}
    if hint := meant(name.lower(), by_lower, most=3, cutoff=0.6, show=lambda match: repr(by_lower[match])):
        return f"; {hint}"
    return f"; choose one of {', '.join(names[:12])}{' …' if len(names) > 12 else ''}." if names else "."


def named_estimator(path: str, params: Mapping[str, Any], role: Role = ESTIMATOR) -> Any:
    """Return the unfitted estimator that the class or factory function at ``path`` makes of ``params``.

    A parameter with ``__`` in its name is set on the part it names; ``{"estimator": path, "params": {...}}``, also
    inside a parameter, becomes such a part (or a splitter, distribution or scorer), ``{"function": path}`` the function
    or class itself, ``{"frame": {column: values}}`` a frame, and ``{"mapping": [[key, value], ...]}`` one keyed by
    numbers. Raises ModelError where the path does not import, refuses the parameters, or makes what does not play
    ``role``, and UntrustedNameError for what may not be imported here.
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
    is_named = isinstance(value, Mapping) and isinstance(value.get("estimator"), str)
    return is_named and value.keys() <= {"estimator", "params"}


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
    states = (name for name, value in estimator.get_params(deep=True).items() if value is None)
    unset = dict.fromkeys((name for name in states if name.rpartition("__")[2] == "random_state"), seed)
    return estimator.set_params(**unset) if unset else estimator


def _made(path: str, maker: Any, params: Mapping[str, object]) -> Any:
    try:
        return maker(**params)
    except TypeError as error:
        accepted = [name for name in inspect.signature(maker).parameters if name not in ("self", "args", "kwargs")]
        unknown = [name for name in params if name not in accepted]
        near = nearest(unknown[0], accepted) if unknown and accepted else ""
        raise ModelError(f"{path!r} does not accept its parameters: {refusal(error)}{near}") from None
    except Exception as error:
        raise ModelError(f"{path!r} cannot be made: {type(error).__name__}: {error}") from error


def default_for(task: Task, n_classes: int = 0) -> tuple[str, tuple[str, ...]]:
    """Return the default model and metrics of a task and, for classification, a number of classes."""
    return DEFAULTS[task if task == "regression" else "binary" if n_classes == 2 else "multiclass"]


def infer_task(target: pd.Series) -> Task:
    """Return the task that a target column is of; raises ModelError for a column that is no target (dates)."""
    kind = getattr(target.dtype, "kind", "O")
    if is_number(kind, lambda: target.dropna().unique()):
        return "regression"
    if kind in "iufbOUST":
        return "classification"
    what = f"{target.dtype}, neither numbers nor classes"
    raise ModelError(f"target {target.name!r} holds {what}; choose another target.")


def named_for(metrics: Iterable[str], task: Task, classes: tuple[Any, ...], positive: Any) -> tuple[str, ...]:
    """Return metrics, or their aliases, as they are named for a target.

    Raises ModelError for what is no scorer, or fails on a few invented rows of such a target, before any fit.
    """
    names = of_positive([name_of(ALIASES.get(metric.lower(), metric)) for metric in metrics], classes, positive)
    suited = ", ".join(default_for(task, len(classes))[1])
    scorers = {*get_scorer_names(), *METRICS}
    for metric in names:
        if metric.partition(OF)[0] not in scorers and not path_in(metric):
            close = nearest(metric, sorted(scorers | set(ALIASES)))
            advice = close if "did you mean" in close else f"; choose one such as {suited}."
            raise ModelError(f"{metric!r} is not a scikit-learn scorer{advice}")
        if error := error_of(metric, task, classes):
            lacking = isinstance(error, AttributeError)
            needs = f"it needs {' or '.join(method_of(metric))}." if lacking else first_line(error)
            listing = ", ".join(shown(repr(label)) for label in classes[:MOST_SHOWN_CLASSES])
            of_classes = f" ({listing})" if classes else ""
            related = [name for name in sorted(scorers) if name.startswith(f"{metric}_")]
            alike = "".join(f"{name}, " for name in related if not error_of(name, task, classes))
            what = f"cannot score this {task} target{of_classes}: {needs}"
            raise ModelError(f"metric {metric!r} {what} Metrics that can: {alike}{suited}.") from None
    return names


def error_of(metric: str, task: Task, classes: tuple[Any, ...], *, weighed: bool = False) -> Exception | None:
    """Return why a scorer cannot score such a target, or weigh its rows: tried on invented ones, None where it can."""
    y: NDArray[Any] = np.arange(1.0, 5.0) + 0.5  # fractions, which scorers of classes refuse
    answers = Responses({"predict": y})
    if task == "classification":
        labels = np.asarray(classes)
        codes = np.repeat(np.arange(len(classes)), 2)
        sure = np.eye(len(classes))[codes]
        decision = sure[:, 1] if len(classes) == 2 else sure
        perfect = {"predict": labels[codes], "predict_proba": sure, "decision_function": decision}
        answers, y = Responses(perfect, classes), labels[codes]
    try:
        score(metric, Answered(answers, y, weights=np.ones(y.size) if weighed else None))
    except Exception as error:  # a scorer raises what it likes
        return error
    return None


def check_options(model: ModelSpec, task: Task, classes: tuple[Any, ...], y: NDArray[Any], target: str) -> None:
    """Raise ModelError for an option that the task, the classes, the target or the estimator cannot bear."""
    estimator = model.build(0)
    for name, suited in TASK_OF_OPTION.items():
        if getattr(model, name) is not None and task != suited:
            raise ModelError(f"{name} is for {suited}, and the task is {task}; leave it out.")
    _check_balance(model, estimator)
    _check_threshold(model, classes, estimator)
    if model.target_transform is not None:
        transformer = target_transformer(model)
        try:
            clone(transformer).fit(np.asarray(y, dtype=np.float64).reshape(-1, 1))
        except Exception as error:
            what = f"target {target!r} ({shown(f'{y.min():g} to {y.max():g}')}): {reason_of(error)}"
            name = model.target_transform.transformer
            raise ModelError(f"target_transform {name!r} cannot transform {what}") from None
    for metric in model.metrics:
        methods = method_of(metric)
        if not any(hasattr(estimator, method) for method in methods):
            lacking = f"needs {' or '.join(methods)}, and {model.estimator!r} has none"
            raise ModelError(f"metric {metric!r} {lacking}; choose another metric, or another estimator.")
    if model.weights and not any(map(_takes_weights, parts_of(estimator))):
        # A meta-estimator passes on what it gets: scikit-learn's routing tells it where, or raises.
        inside = any(isinstance(value, BaseEstimator) for value in estimator.get_params(deep=False).values())
        kinds = {each.kind for each in inspect.signature(estimator.fit).parameters.values()}
        if not inside or inspect.Parameter.VAR_KEYWORD not in kinds:
            raise ModelError(f"weights is taken by no part of {model.estimator!r}; leave it out.")


def target_transformer(model: ModelSpec, seed: int = 0) -> Any:
    """Return the unfitted transformer of the target; raises ModelError where it cannot be made or inverted."""
    transform = model.target_transform
    assert transform is not None
    return seeded(named_estimator(transform.transformer, transform.params, TRANSFORMER), seed)


def class_weight_names(estimator: Any) -> list[str]:
    """Return the parameters named ``class_weight`` of an estimator and its parts."""
    return [name for name in estimator.get_params(deep=True) if name.rpartition("__")[2] == "class_weight"]


def parts_of(estimator: Any) -> list[Any]:
    """Return the estimator and every part of it that can be fitted."""
    parts = estimator.get_params(deep=True).values()
    return [estimator, *(part for part in parts if isinstance(part, BaseEstimator) and hasattr(part, "fit"))]


def fit_with(estimator: Any, X: Any, y: NDArray[Any], weights: NDArray[np.float64] | None) -> Any:
    """Fit an estimator, and hand the weights of rows, where there are some, to every part of it that takes them."""
    if weights is None:
        return estimator.fit(X, y)
    with config_context(enable_metadata_routing=True):
        for part in parts_of(estimator):
            if _takes_weights(part) and hasattr(part, "set_fit_request"):
                # Weights are for what predicts; a scaler before it stays unweighted, as scikit-learn has it by default.
                part.set_fit_request(sample_weight=hasattr(part, "predict"))
            if isinstance(part, TunedThresholdClassifierCV):
                part.scoring = get_scorer("balanced_accuracy").set_score_request(sample_weight=True)
        fitted = estimator.fit(X, y, sample_weight=weights)
    _forget_requests(estimator)
    return fitted


def _forget_requests(fitted: Any) -> None:
    """Drop a fitted estimator's metadata requests, in all that it holds: circles, which no file of skops can hold."""
    waiting, visited = [fitted], set()
    while waiting:
        held = waiting.pop()
        if id(held) in visited:
            continue
        visited.add(id(held))
        if isinstance(held, np.ndarray):
            waiting += held.ravel().tolist() if held.dtype == object else []
        elif isinstance(held, (list, tuple)):
            waiting += held
        elif isinstance(held, dict):
            waiting += held.values()
        elif not isinstance(held, type) and hasattr(held, "__dict__"):
            vars(held).pop("_metadata_request", None)
            waiting += vars(held).values()


def _takes_weights(part: Any) -> bool:
    """Return whether ``fit`` of this part, not of what is inside it, names weights of rows."""
    return "sample_weight" in inspect.signature(part.fit).parameters


def _check_balance(model: ModelSpec, estimator: Any) -> None:
    if model.balance is None:
        return
    method = model.balance.method
    if method == "class_weight" and not class_weight_names(estimator):
        raise ModelError(f"{model.estimator!r} has no class_weight; use balance: undersample or oversample.")
    if method == "class_weight" and model.balance.ratio != 1:
        raise ModelError(f"balance: class_weight makes classes equal, and ratio={model.balance.ratio:g}; leave it out.")
    if method != "class_weight" and model.weights:
        what = f"balance: {method} changes the rows, and weights has one value per row"
        raise ModelError(f"{what}; use balance: {{method: class_weight}}, or leave one of the two out.")


def _check_threshold(model: ModelSpec, classes: tuple[Any, ...], estimator: Any) -> None:
    if model.threshold is None:
        return
    if len(classes) != 2:
        raise ModelError(f"threshold is for two classes, and the target has {len(classes)}; leave it out.")
    if model.threshold == "prevalence" and model.balance is not None:
        twice = "each correct for the rarer class, together they correct twice"
        raise ModelError(f"threshold: prevalence and balance {twice}; leave one of the two out.")
    needed = ("predict_proba", "decision_function") if model.threshold == "tuned" else ("predict_proba",)
    if not any(hasattr(estimator, method) for method in needed):
        lacking = f"needs {' or '.join(needed)}, and {model.estimator!r} has none"
        raise ModelError(f"threshold: {model.threshold} {lacking}; use another estimator, or balance.")
