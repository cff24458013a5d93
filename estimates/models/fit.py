"""One model, one split, one score: the step that every evaluation repeats, and the key of all that it depends on."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from dataclasses import replace
from functools import partial
from time import perf_counter
from typing import Any

import numpy as np
import pandas as pd
import sklearn
from evenfold.estimates.metrics.record import Answered, Responses, codes_of, confidence, describe_classes
from evenfold.estimates.metrics.registry import depends_on_model, metric_of
from evenfold.estimates.metrics.scoring import is_mean_of_classes, scores_of
from evenfold.estimates.models.corrections import CodedLabels
from evenfold.estimates.models.encoding import encoding_step, encodings
from evenfold.estimates.models.estimators import class_weight_names, fit_with, target_transformer
from evenfold.estimates.models.problem import IntArray, Problem
from evenfold.estimates.models.spec import Balance, ModelSpec
from evenfold.estimates.results import FoldScore, hearing, permutation_importance
from evenfold.splitters import BalancedGroupKFold, Splitter, StratifiedKFold
from evenfold.splitters.errors import EvaluationError, ModelError, amount, cause_of, is_deployed, reason_of
from evenfold.splitters.naming import distribution_of
from evenfold.splitters.numbers import digest_json
from evenfold.splitters.untrusted import FUNCTION, resolve
from numpy.typing import NDArray
from sklearn.base import BaseEstimator
from sklearn.compose import TransformedTargetRegressor, make_column_transformer
from sklearn.model_selection import FixedThresholdClassifier, TunedThresholdClassifierCV
from sklearn.pipeline import Pipeline

INNER_FOLDS = 5
# Raise it when a change here can change a score: it is part of every score key.
FIT_VERSION = 6


def assemble(problem: Problem, seed: int, train: IntArray | None = None, inner: Splitter | None = None) -> Any:
    """Return the unfitted estimator that ``fit_and_score`` fits, ready for scikit-learn's ``clone``.

    From the inside out: the model; a sampler that evens out classes; an encoder of text and categories; a transform of
    the target; a threshold. ``train``: the training rows, for ``threshold: prevalence`` (the share of the positive
    class) and ``tuned`` (the pairs of the inner cross-validation by ``inner``, see ``inner_pairs``).
    """
    model = problem.model
    estimator = model.build(seed)
    if model.balance is not None and model.balance.method == "class_weight":
        # Where rows have weights, these even out the classes: many a "balanced" counts rows alone.
        class_weight = "balanced" if model.weights is None else None
        estimator.set_params(**dict.fromkeys(class_weight_names(estimator), class_weight))
    ways = encodings(model, estimator, problem.X, problem.encoded, problem.own)
    encoder, estimator = encoding_step(model, estimator, problem.X, ways)
    sampling, pipeline = _sampling(model.balance, seed)
    steps = [*_without_empty(estimator, problem, train), *encoder, *sampling, ("model", estimator)]
    if len(steps) > 1:
        estimator = pipeline(steps)
    if model.target_transform is not None:
        estimator = TransformedTargetRegressor(estimator, transformer=target_transformer(model, seed))
    return estimator if model.threshold is None else _deciding(estimator, problem, seed, train, inner)


def _sampling(balance: Balance | None, seed: int) -> tuple[list[tuple[str, Any]], Any]:
    """Return the step that samples, or none, and the kind of pipeline: one that leaves the rows that it predicts."""
    if balance is None or balance.method == "class_weight":
        return [], Pipeline
    # Half a second for whoever fits no such model.
    from imblearn.over_sampling import RandomOverSampler
    from imblearn.pipeline import Pipeline as SamplingPipeline
    from imblearn.under_sampling import RandomUnderSampler

    over = balance.method == "oversample"
    sizes = partial(_oversampled if over else _undersampled, ratio=balance.ratio)
    sampler = (RandomOverSampler if over else RandomUnderSampler)(sampling_strategy=sizes, random_state=seed)
    return [("balance", sampler)], SamplingPipeline


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


def _without_empty(estimator: Any, problem: Problem, train: IntArray | None) -> list[tuple[str, Any]]:
    """Return the step that drops features without a value in the training rows, on which scikit-learn's trees fail."""
    if train is None or not hasattr(estimator, "_bin_data"):
        return []
    numbers = [X for name, X in problem.X.items() if name not in problem.encoded and X.dtype.kind == "f"]
    empty = [X.name for X in numbers if X.isna().any() and X.iloc[train].isna().all()]
    drop = make_column_transformer(("drop", empty), remainder="passthrough", verbose_feature_names_out=False)
    return [("drop", drop.set_output(transform="pandas"))] if empty else []


def _deciding(estimator: Any, problem: Problem, seed: int, train: IntArray | None, inner: Splitter | None) -> Any:
    threshold = problem.model.threshold
    if not isinstance(threshold, float):
        if train is None:
            raise ModelError(f"threshold: {threshold} depends on the training rows; pass train, their positions.")
        if threshold == "tuned":
            pairs = inner_pairs(problem, train, seed, inner)
            return TunedThresholdClassifierCV(estimator, scoring="balanced_accuracy", cv=pairs, random_state=seed)
        threshold = float(np.average(problem.y[train] == problem.positive, weights=problem.mass(train)))
    positive = {"pos_label": problem.positive} if problem.positive != problem.classes[1] else {}
    return FixedThresholdClassifier(estimator, threshold=threshold, response_method="predict_proba", **positive)


def inner_pairs(problem: Problem, train: IntArray, seed: int, inner: Splitter | None = None) -> list[Any]:
    """Return the pairs of a cross-validation inside the training rows, as positions among them.

    Groups, and a bootstrap's copies of a row, stay whole. ``inner``: by default 5 shuffled folds that stratify or keep
    groups. Raises ModelError where it keeps none that there are, SplitError where the rows are too few.
    """
    y, groups = problem.y[train], None if problem.groups is None else problem.groups[train]
    if groups is None and np.unique(train).size < train.size:
        groups = train
    if inner is None:
        inner = (StratifiedKFold if groups is None else BalancedGroupKFold)(INNER_FOLDS, random_state=seed)
    if groups is not None and not inner.needs.groups:
        what = f"{type(inner).__name__} keeps no groups whole, and the training rows have groups or repeat"
        raise ModelError(f"the inner strategy {what}; leave it out, or use BalancedGroupKFold.")
    return list(inner.split(np.zeros((train.size, 1)), y, groups))


def fit_and_score(
    problem: Problem, train: IntArray, test: IntArray, *, seed: int, name: str, repeat: int = 0, fold: int = 0,
    inner: Splitter | None = None, importance: bool = False,
) -> tuple[FoldScore, pd.DataFrame]:  # fmt: skip
    """Fit on the rows ``train``; return the scores on ``test`` and on ``train``, and the predictions of ``test``.

    Equal arguments give equal results, times aside, and where training knows every class the scores of scikit-learn's
    ``cross_validate`` with ``assemble(problem, seed)``. Rows are positions; those of ``train`` may repeat. ``inner``:
    see ``inner_pairs``. ``importance``: measured unless the model says ``none``. Raises EvaluationError where the fit
    fails or a metric is undefined, ModelError for a predicted label that is no class of the problem.
    """
    started = perf_counter()
    with hearing() as heard:
        estimator = fitted(problem, train, seed=seed, name=name, inner=inner)
    between, metrics = perf_counter(), problem.model.metrics
    answers, on_train = (Responses.of(estimator, problem.X.iloc[rows]) for rows in (test, train))
    with hearing() as of_scores:
        try:
            if len(test):
                answers.say("predict")
        except Exception as error:  # a model raises what it likes
            what = f"the model cannot predict its {len(test):,} test rows: {reason_with_advice(problem.X, error)}"
            raise EvaluationError(f"{name}: {what}") from cause_of(error)
        scores = scores_of(metrics, problem.answered(answers, test), name=name, side="test")
        apparent = scores_of(metrics, problem.answered(on_train, train), name=name, side="training")
    heard += of_scores if len(test) > 1 else []  # what one row has no score of is not worth a warning each
    predictions, uses = predictions_of(problem, test, answers, repeat, fold, name=name), {}
    if importance and problem.model.importance == "auto":
        uses = permutation_importance(estimator, problem, test, len(train), seed=seed, path=(repeat, fold))
    seconds = between - started, perf_counter() - between
    about = (name, repeat, fold, scores, apparent, len(train), len(test), *seconds, tuple(heard), uses)
    return FoldScore(*about), predictions


def fit_predictions(
    problem: Problem, train: IntArray, test: IntArray, *, seed: int, name: str = "a further fit", repeat: int = 0,
    fold: int = 0, inner: Splitter | None = None,
) -> pd.DataFrame:  # fmt: skip
    """Fit on the rows ``train`` and return the predictions of ``test``, as ``fit_and_score`` does; warnings unheard."""
    with hearing():
        estimator = fitted(problem, train, seed=seed, name=name, inner=inner)
        return predictions_of(problem, test, Responses.of(estimator, problem.X.iloc[test]), repeat, fold, name=name)


def fitted(
    problem: Problem, train: IntArray, *, seed: int, name: str, inner: Splitter | None = None, arrays: bool = False
) -> Any:
    """Return the assembled estimator, fitted on the rows ``train``; raises EvaluationError where that fails.

    A classifier that takes no labels but 0, 1, … learns codes and says the labels. ``arrays``: see ``features_for``.
    """
    if problem.model.target_transform is not None:
        train = train[problem.mass(train) > 0]  # a transform of the target learns without weights

    def learn(labelled: Problem) -> Any:
        estimator = assemble(labelled, seed, train, inner)
        X, weights = features_for(labelled, estimator, arrays), _weights(labelled, train)
        return fit_with(estimator, take(X, train), labelled.y[train], weights)

    try:
        return _saying_labels(problem, train, learn)
    except ModelError:
        raise
    except Exception as error:
        held = f", which hold {describe_classes(problem.y[train])}" if problem.classes else ""
        what = f"the model could not be fitted on its {len(train):,} training rows{held}"
        raise EvaluationError(f"{name}: {what}: {reason_with_advice(problem.X, error)}") from cause_of(error)


def _saying_labels(problem: Problem, train: NDArray[np.int64], learn: Callable[[Problem], Any]) -> Any:
    """Return the model that ``learn`` fits; where it refuses the labels of the training rows, that of their codes."""
    try:
        return learn(problem)
    except (ValueError, TypeError) as error:
        labels = np.unique(problem.y[train])
        if not problem.classes or isinstance(error, ModelError) or np.array_equal(labels, np.arange(labels.size)):
            raise
        places = {label: code for code, label in enumerate(labels.tolist())}
        codes = np.array([places.get(label, -1) for label in problem.y.tolist()])
        model = problem.model.model_copy(update={"positive": places.get(problem.positive)})
        coded = replace(problem, y=codes, classes=tuple(places.values()), model=model)
        try:
            return CodedLabels(learn(coded), labels)
        except Exception:  # then the labels were not the reason
            raise error from None


def reason_with_advice(X: pd.DataFrame, error: Exception) -> str:
    """Return a model's error in one line, and what to do where it refused missing or infinite values."""
    first = str(error).strip().partition("\n")[0]
    reason = reason_of(error) if is_deployed() else f"{type(error).__name__}: {first}"
    numbers = X.select_dtypes("number")
    for word, what, holed, way in (
        ("NaN", "Missing", X.isna(), "fill them in a pipeline, make_pipeline(SimpleImputer(), ...)"),
        ("inf", "Infinite", numbers.isin([np.inf, -np.inf]), "correct or drop those rows"),
    ):
        if word in str(error) and (names := [str(name) for name in holed if holed[name].any()]):
            listing = ", ".join(names[:5]) + (f" and {len(names) - 5} more" if len(names) > 5 else "")
            others = "exclude what holds them, or leave the model out: the default model takes them as they are"
            return f"{reason} {what} values are in {listing}: {way}, {others}"
    return reason


def features_for(problem: Problem, estimator: Any, arrays: bool) -> Any:
    """Return the features, on request as an array, which is quicker, where that gives the same model."""
    if not arrays or problem.array is None:
        return problem.X
    parameters = estimator.get_params().values()
    parts = [estimator, *(part for part in parameters if isinstance(part, BaseEstimator))]
    foreign = any(distribution_of(type(part)) != distribution_of(BaseEstimator) for part in parts)
    return problem.X if foreign or any(_may_name(value, problem.features) for value in parameters) else problem.array


def _may_name(value: Any, features: Collection[str]) -> bool:
    if isinstance(value, Mapping):
        value = [*value, *value.values()]
    if isinstance(value, (list, tuple, set, frozenset, np.ndarray)):
        return any(_may_name(item, features) for item in value)
    if isinstance(value, str):
        return value in features
    return callable(value) and not isinstance(value, type)


def _weights(problem: Problem, train: IntArray) -> NDArray[np.float64] | None:
    if problem.weights is None:
        return None
    weights, balance = problem.weights[train], problem.model.balance
    if balance is None or balance.method != "class_weight":
        return weights
    # Times a factor per class, so that all classes that weigh anything weigh the same.
    classes, codes = np.unique(problem.y[train], return_inverse=True)
    masses = np.bincount(codes, weights=weights)
    factors = np.divide(masses.sum() / classes.size, masses, out=np.ones(classes.size), where=masses > 0)
    return np.asarray(weights * factors[codes])


def take(X: Any, rows: IntArray) -> Any:
    """Return some rows of features."""
    # Taking along the contiguous axis keeps the layout that scikit-learn makes of a frame, and so every bit.
    return X.iloc[rows] if isinstance(X, pd.DataFrame) else X.T.take(rows, axis=1).T


def predictions_of(
    problem: Problem, test: IntArray, answers: Responses, repeat: int = 0, fold: int = 0, *, name: str
) -> pd.DataFrame:
    """Return a model's answers for the rows ``test``, a line each; an error begins with ``name``.

    Columns: row (its position), repeat, fold, y and prediction; proba_<class> for each class (0 for one that training
    lacked), or decision (decision_<class> for three or more) where there are no probabilities; weight.
    """
    columns: dict[str, object] = {
        "row": np.asarray(test, dtype=np.int64), "repeat": np.int32(repeat), "fold": np.int32(fold),
        "y": problem.y[test], "prediction": answers.say("predict"),
    }  # fmt: skip
    if problem.classes:
        try:
            codes_of(np.asarray(columns["prediction"]), problem.classes)
        except ModelError as error:
            raise ModelError(f"{name}: {error}") from None
        columns |= confidence(answers, problem.classes)
    if problem.weights is not None:
        columns["weight"] = problem.weights[test]
    return pd.DataFrame(columns)


def defined_scores(problem: Problem, answers: Responses, name: str) -> tuple[dict[str, float], list[str]]:
    """Return the scores of answers for all rows that are defined, and a sentence on each other, or not of every class.

    ``name``: of the rows. Raises EvaluationError where no metric is defined.
    """
    on_test: dict[str, float] = {}
    weighing = problem.y if problem.weights is None else problem.y[problem.weights > 0]
    answered = Answered(answers, problem.y, problem.classes, problem.weights)
    for metric in problem.model.metrics:
        loss = metric_of(metric).loss
        if not depends_on_model(metric, weighing, problem.classes):
            continue
        if loss is None:
            with suppress(EvaluationError):
                of_rows = replace(answered, classes=(), held=True)
                on_test |= scores_of([metric], of_rows, name=f"the rows of {name}", side="test")
        elif hasattr(answers, loss.reads) and answered.mass.any():  # the model knows the classes that lack rows
            value = loss.score(answered.mean(loss.of(answered)))
            on_test |= {metric: value} if np.isfinite(value) else {}
    held = describe_classes(weighing) if problem.classes else amount(np.unique(weighing).size, "different value")
    titles = [metric_of(metric).title for metric in problem.model.metrics if metric not in on_test]
    undefined = [f"{title} is not defined on {name} ({amount(weighing.size, 'row')} of {held})" for title in titles]
    if not on_test:
        raise EvaluationError(f"{'; '.join(undefined)}; score by another metric (--metric), or more rows.")
    means = [metric_of(metric).title for metric in on_test if is_mean_of_classes(metric)]
    if means and np.unique(weighing).size < len(problem.classes):
        undefined += [f"{'; '.join(means)}: of the {held} of {len(problem.classes)} that {name} holds"]
    return on_test, [f"{sentence}." for sentence in undefined]


def score_key(model: ModelSpec, *, membership: str, fingerprint: str, **others: Any) -> str:
    """Return the hexadecimal SHA-256 of ``score_parts`` and the digests of the rows and of their values."""
    return digest_json({**score_parts(model, **others), "membership": membership, "fingerprint": fingerprint})


def score_parts(
    model: ModelSpec, *, seed: int, inner: Mapping[str, Any] | None = None, code: Mapping[str, str] | None = None
) -> dict[str, object]:
    """Return all that a score depends on but for the rows and their values, versions of libraries included.

    ``model``: a completed specification (``Problem.model``). ``inner``: the inner strategy as JSON. ``code``: the
    user's, by default as it is now.
    """
    if model.estimator is None:
        raise ModelError("the model names no estimator yet; use Problem.model, which is complete.")
    own = model.code if code is None else code
    return {
        **({} if inner is None else {"inner": dict(inner)}),
        **({"code": dict(own)} if own else {}),  # what names libraries alone keeps the key that it had
        "model": model.canonical() | {"metrics": list(model.metrics)},
        "seed": int(seed),
        "scikit-learn": sklearn.__version__,
        "fit": FIT_VERSION,
        "estimator": ", ".join(dict.fromkeys(distribution_of(resolve(path, FUNCTION)) for path in model.import_paths)),
    }
