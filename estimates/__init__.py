"""What is trained and what was learnt: models, scores, estimates. Pure."""

from ._assemble import assemble
from ._errors import EvaluationError, ModelError
from ._fit import FIT_VERSION, fit_and_score, fitted
from ._score_key import score_key
from .bootstrap import BootstrapEstimate, bootstrap_estimate, bootstrap_score_estimate
from .defaults import DEFAULTS, Default, default_for, infer_task
from .draws import DrawScores, bootstrap_aggregate, score_draws
from .estimate import Estimate, Interval, aggregate, pooled_score
from .factories import scaled_logistic_regression
from .fold_score import FoldScore
from .metrics import check_metrics
from .model_spec import Balance, ModelSpec, Transform
from .no_information import no_information_rate
from .problem import Problem
from .row_losses import ROW_LOSSES, RowLoss, losses_of, row_loss

__all__ = [
    "DEFAULTS",
    "FIT_VERSION",
    "ROW_LOSSES",
    "Balance",
    "BootstrapEstimate",
    "Default",
    "DrawScores",
    "Estimate",
    "EvaluationError",
    "FoldScore",
    "Interval",
    "ModelError",
    "ModelSpec",
    "Problem",
    "RowLoss",
    "Transform",
    "aggregate",
    "assemble",
    "bootstrap_aggregate",
    "bootstrap_estimate",
    "bootstrap_score_estimate",
    "check_metrics",
    "default_for",
    "fit_and_score",
    "fitted",
    "infer_task",
    "losses_of",
    "no_information_rate",
    "pooled_score",
    "row_loss",
    "scaled_logistic_regression",
    "score_draws",
    "score_key",
]
