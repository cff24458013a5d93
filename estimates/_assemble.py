"""The whole estimator of a specification on a problem: what encodes, evens out and transforms, round the model."""

from __future__ import annotations

from typing import Any

from sklearn.compose import make_column_transformer
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, OrdinalEncoder

from .model_spec import ModelSpec
from .problem import Problem


def assemble(model: ModelSpec, problem: Problem, seed: int) -> Any:
    """Return the unfitted estimator that ``fit_and_score`` fits, ready for scikit-learn's ``clone``.

    Text becomes 0/1 columns or ordinal codes, learnt from training rows only; values never seen in training become
    all zeros, or -1. Categories stay as they are for estimators that read them from the column's type.
    """
    model = model.completed(problem.task, len(problem.classes))
    estimator = model.build(seed)
    encoded = _to_encode(problem, estimator)
    return make_pipeline(_encoder(model, encoded), estimator) if encoded else estimator


def _to_encode(problem: Problem, estimator: Any) -> list[str]:
    native = getattr(estimator, "categorical_features", None) == "from_dtype"
    return [name for name in problem.encoded if not (native and problem.X[name].dtype == "category")]


def _encoder(model: ModelSpec, columns: list[str]) -> Any:
    one = (
        OneHotEncoder(handle_unknown="ignore", sparse_output=False)
        if model.text == "onehot"
        else OrdinalEncoder(handle_unknown="use_encoded_value", unknown_value=-1)
    )
    # As a frame, so that categories which stay keep their type.
    made = make_column_transformer((one, columns), remainder="passthrough", verbose_feature_names_out=True)
    return made.set_output(transform="pandas")
