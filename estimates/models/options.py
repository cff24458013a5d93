"""Checks of the options of a model against its problem, before anything is fitted."""

from __future__ import annotations

from collections.abc import Sequence
from inspect import Parameter, signature
from typing import Any

import numpy as np
from evenfold.estimates.errors import ModelError
from evenfold.estimates.metrics.record import MOST_SHOWN_CLASSES, Answered, Replay
from evenfold.estimates.metrics.registry import ALIASES, METRICS
from evenfold.estimates.metrics.scoring import OF, first_line, method_of, path_in, score
from evenfold.splitters.deployed import reason_of, shown
from evenfold.splitters.importing import TRANSFORMER
from numpy.typing import NDArray
from sklearn import config_context
from sklearn.base import BaseEstimator, clone
from sklearn.metrics import get_scorer, get_scorer_names
from sklearn.model_selection import TunedThresholdClassifierCV

from .estimators import named_estimator, nearest, seeded
from .spec import ModelSpec, Task, default_for


def check_metrics(metrics: Sequence[str], task: Task, classes: tuple[Any, ...]) -> None:
    """Raise ModelError for a name that is no scorer, and for a scorer that cannot score such a target.

    Each scorer is tried on a few invented rows with perfect predictions, before anything is fitted.
    """
    suited = ", ".join(default_for(task, len(classes))[1])
    scorers = {*get_scorer_names(), *METRICS}
    for metric in metrics:
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
            raise ModelError(
                f"metric {metric!r} cannot score this {task} target{of_classes}: {needs} "
                f"Metrics that can: {alike}{suited}."
            ) from None


def error_of(metric: str, task: Task, classes: tuple[Any, ...], *, weighed: bool = False) -> Exception | None:
    """Return why a scorer cannot score such a target, or weigh its rows: tried on invented ones, None where it can."""
    y: NDArray[Any] = np.arange(1.0, 5.0) + 0.5  # fractions, which scorers of classes refuse
    answers = Replay({"predict": y})
    if task == "classification":
        labels = np.asarray(classes)
        codes = np.repeat(np.arange(len(classes)), 2)
        sure = np.eye(len(classes))[codes]
        decision = sure[:, 1] if len(classes) == 2 else sure
        perfect = {"predict": labels[codes], "predict_proba": sure, "decision_function": decision}
        answers, y = Replay(perfect, classes), labels[codes]
    try:
        score(metric, Answered(answers, y, weights=np.ones(y.size) if weighed else None))
    except Exception as error:  # a scorer raises what it likes
        return error
    return None


def check_options(model: ModelSpec, task: Task, classes: tuple[Any, ...], y: NDArray[Any], target: str) -> None:
    """Raise ModelError for an option that the task, the classes, the target or the estimator cannot bear."""
    estimator = model.build(0)
    for name, value, suited in (
        ("balance", model.balance, "classification"),
        ("threshold", model.threshold, "classification"),
        ("target_transform", model.target_transform, "regression"),
    ):
        if value is not None and task != suited:
            raise ModelError(f"{name} is for {suited}, and the task is {task}; leave it out.")
    _check_balance(model, estimator)
    _check_threshold(model, classes, estimator)
    if model.target_transform is not None:
        transformer = target_transformer(model)
        try:
            clone(transformer).fit(np.asarray(y, dtype=np.float64).reshape(-1, 1))
        except Exception as error:
            raise ModelError(
                f"target_transform {model.target_transform.transformer!r} cannot transform target {target!r} "
                f"({shown(f'{y.min():g} to {y.max():g}')}): {reason_of(error)}"
            ) from None
    for metric in model.metrics:
        methods = method_of(metric)
        if not any(hasattr(estimator, method) for method in methods):
            raise ModelError(
                f"metric {metric!r} needs {' or '.join(methods)}, and {model.estimator!r} has none; "
                "choose another metric, or another estimator."
            )
    if model.weights and not any(map(_takes_weights, parts_of(estimator))):
        # A meta-estimator passes on what it gets: scikit-learn's routing tells it where, or raises.
        inside = any(isinstance(value, BaseEstimator) for value in estimator.get_params(deep=False).values())
        if not inside or all(
            each.kind != Parameter.VAR_KEYWORD for each in signature(estimator.fit).parameters.values()
        ):
            raise ModelError(f"weights is taken by no part of {model.estimator!r}; leave it out.")


def target_transformer(model: ModelSpec, seed: int = 0) -> Any:
    """Return the unfitted transformer of the target; raises ModelError where it cannot be made or inverted."""
    assert model.target_transform is not None
    path = model.target_transform.transformer
    transformer = named_estimator(path, model.target_transform.params, TRANSFORMER)
    return seeded(transformer, seed)


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
    return "sample_weight" in signature(part.fit).parameters


def _check_balance(model: ModelSpec, estimator: Any) -> None:
    if model.balance is None:
        return
    method = model.balance.method
    if method == "class_weight" and not class_weight_names(estimator):
        raise ModelError(
            f"{model.estimator!r} has no class_weight; use balance: {{method: undersample}} or oversample."
        )
    if method == "class_weight" and model.balance.ratio != 1:
        raise ModelError(f"balance: class_weight makes classes equal, and ratio={model.balance.ratio:g}; leave it out.")
    if method != "class_weight" and model.weights:
        raise ModelError(
            f"balance: {method} changes the rows, and weights has one value per row; "
            "use balance: {method: class_weight}, or leave one of the two out."
        )


def _check_threshold(model: ModelSpec, classes: tuple[Any, ...], estimator: Any) -> None:
    if model.threshold is None:
        return
    if len(classes) != 2:
        raise ModelError(f"threshold is for two classes, and the target has {len(classes)}; leave it out.")
    if model.threshold == "prevalence" and model.balance is not None:
        raise ModelError(
            "threshold: prevalence and balance each correct for the rarer class, together they correct twice; "
            "leave one of the two out."
        )
    needed = ("predict_proba", "decision_function") if model.threshold == "tuned" else ("predict_proba",)
    if not any(hasattr(estimator, method) for method in needed):
        raise ModelError(
            f"threshold: {model.threshold} needs {' or '.join(needed)}, and {model.estimator!r} has none; "
            "use another estimator, or balance."
        )
