"""The whole estimator of a specification on a problem: what encodes, evens out and transforms, round the model."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
from evenfold.splitters import BalancedGroupKFold, Splitter, StratifiedKFold
from imblearn.over_sampling import RandomOverSampler
from imblearn.pipeline import Pipeline as SamplingPipeline
from imblearn.under_sampling import RandomUnderSampler
from numpy.typing import NDArray
from sklearn.compose import TransformedTargetRegressor, make_column_transformer
from sklearn.model_selection import FixedThresholdClassifier, TunedThresholdClassifierCV
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import OneHotEncoder, OrdinalEncoder

from ._errors import ModelError
from ._options import class_weight_names, target_transformer
from .model_spec import Balance, ModelSpec
from .problem import IntArray, Problem

INNER_FOLDS = 5


def assemble(
    model: ModelSpec,
    problem: Problem,
    seed: int,
    train: IntArray | None = None,
    inner: Splitter | None = None,
) -> Any:
    """Return the unfitted estimator that ``fit_and_score`` fits, ready for scikit-learn's ``clone``.

    From the inside out: the model; a sampler that evens out the classes of the rows it is fitted on, and of no
    others; an encoder of text (0/1 columns or ordinal codes learnt from training rows; values never seen become all
    zeros, or -1; categories stay as they are for estimators that read them from the column's type); a transform of
    the target that is inverted in predictions; a threshold.

    ``train``: the training rows, which ``threshold: prevalence`` and ``tuned`` need: the share of the positive class
    among them, and the pairs of the inner cross-validation on them by ``inner`` (default: 5 shuffled folds that
    stratify, or keep groups whole where the problem has groups or training rows repeat).
    """
    model = model.completed(problem.task, len(problem.classes))
    estimator = _weighing_classes(model.build(seed), model)
    steps = [*_encoding(model, problem, estimator), *_sampling(model.balance, seed), ("model", estimator)]
    if len(steps) > 1:
        estimator = (SamplingPipeline if any(name == "balance" for name, _ in steps) else Pipeline)(steps)
    if model.target_transform is not None:
        estimator = TransformedTargetRegressor(estimator, transformer=target_transformer(model, seed))
    return estimator if model.threshold is None else _deciding(estimator, model, problem, seed, train, inner)


def _weighing_classes(estimator: Any, model: ModelSpec) -> Any:
    if model.balance is None or model.balance.method != "class_weight":
        return estimator
    return estimator.set_params(**dict.fromkeys(class_weight_names(estimator), "balanced"))


def _sampling(balance: Balance | None, seed: int) -> list[tuple[str, Any]]:
    if balance is None or balance.method == "class_weight":
        return []
    over = balance.method == "oversample"
    sizes = partial(_oversampled if over else _undersampled, ratio=balance.ratio)
    sampler = RandomOverSampler if over else RandomUnderSampler
    return [("balance", sampler(sampling_strategy=sizes, random_state=seed))]


def _undersampled(y: NDArray[Any], ratio: float) -> dict[Any, int]:
    """Return rows to keep per class: no class has more than the rarest class's rows / ratio."""
    classes, counts = np.unique(y, return_counts=True)
    most = int(counts.min() / ratio)
    return {label: min(count, most) for label, count in zip(classes.tolist(), counts.tolist(), strict=True)}


def _oversampled(y: NDArray[Any], ratio: float) -> dict[Any, int]:
    """Return rows to make per class: no class has fewer than ratio x the largest class's rows."""
    classes, counts = np.unique(y, return_counts=True)
    least = int(np.ceil(counts.max() * ratio))
    return {label: max(count, least) for label, count in zip(classes.tolist(), counts.tolist(), strict=True)}


def _encoding(model: ModelSpec, problem: Problem, estimator: Any) -> list[tuple[str, Any]]:
    native = getattr(estimator, "categorical_features", None) == "from_dtype"
    columns = [name for name in problem.encoded if not (native and problem.X[name].dtype == "category")]
    if not columns:
        return []
    one = (
        OneHotEncoder(handle_unknown="ignore", sparse_output=False)
        if model.text == "onehot"
        else OrdinalEncoder(handle_unknown="use_encoded_value", unknown_value=-1)
    )
    # As a frame, so that categories which stay keep their type.
    made = make_column_transformer((one, columns), remainder="passthrough")
    return [("encode", made.set_output(transform="pandas"))]


def _deciding(
    estimator: Any, model: ModelSpec, problem: Problem, seed: int, train: IntArray | None, inner: Splitter | None
) -> Any:
    if isinstance(model.threshold, float):
        return FixedThresholdClassifier(estimator, threshold=model.threshold, response_method="predict_proba")
    if train is None:
        raise ModelError(f"threshold: {model.threshold} depends on the training rows; pass train, their positions.")
    if model.threshold == "prevalence":
        share = float(np.mean(problem.y[train] == problem.classes[1]))
        return FixedThresholdClassifier(estimator, threshold=share, response_method="predict_proba")
    pairs = inner_pairs(problem, train, seed, inner)
    return TunedThresholdClassifierCV(estimator, scoring="balanced_accuracy", cv=pairs, random_state=seed)


def inner_pairs(problem: Problem, train: IntArray, seed: int, inner: Splitter | None = None) -> list[Any]:
    """Return the pairs of a cross-validation inside the training rows, as positions among them.

    Groups stay whole; where training rows repeat, as in a bootstrap, the copies of a row are a group, so that no row
    is on both sides. Raises ModelError where ``inner`` keeps no groups and there are some, SplitError where the rows
    are too few.
    """
    y, groups = problem.y[train], None if problem.groups is None else problem.groups[train]
    if groups is None and np.unique(train).size < train.size:
        groups = train
    if inner is None:
        inner = (StratifiedKFold if groups is None else BalancedGroupKFold)(INNER_FOLDS, random_state=seed)
    if groups is not None and not inner.needs.groups:
        raise ModelError(
            f"the inner strategy {type(inner).__name__} keeps no groups whole, and the training rows have groups or "
            "repeat; leave it out, or use BalancedGroupKFold."
        )
    return list(inner.split(np.zeros((train.size, 1)), y, groups))
