"""What is trained and what was learnt: models, scores, estimates. Pure."""

from ._assemble import assemble
from ._errors import EvaluationError, ModelError
from ._fit import FIT_VERSION, fit_and_score, fitted
from ._score_key import score_key
from .defaults import DEFAULTS, Default, default_for, infer_task
from .estimate import Estimate, Interval, aggregate, bootstrap_aggregate, pooled_score
from .factories import scaled_logistic_regression
from .fold_score import FoldScore
from .metrics import check_metrics
from .model_spec import Balance, ModelSpec, Transform
from .problem import Problem

__all__ = [
    "DEFAULTS",
    "FIT_VERSION",
    "Balance",
    "Default",
    "Estimate",
    "EvaluationError",
    "FoldScore",
    "Interval",
    "ModelError",
    "ModelSpec",
    "Problem",
    "Transform",
    "aggregate",
    "assemble",
    "bootstrap_aggregate",
    "check_metrics",
    "default_for",
    "fit_and_score",
    "fitted",
    "infer_task",
    "pooled_score",
    "scaled_logistic_regression",
    "score_key",
]
