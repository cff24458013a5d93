"""What is trained and what was learnt: models, scores, estimates. Pure."""

from evenfold.estimates.intervals.intervals import (
    CorrectedT,
    bootstrap_interval,
    corrected_resampled_t,
    pooled_interval,
)
from evenfold.estimates.intervals.nested import nested_cv_interval, nested_interval, nested_losses
from evenfold.estimates.metrics.classes import class_scores, confusion_table
from evenfold.estimates.metrics.influence import influence_of, pooled_rows_interval, resampled_interval
from evenfold.estimates.metrics.metrics import check_metrics
from evenfold.estimates.metrics.registry import ROW_LOSSES, RowLoss, losses_of, no_information_rate, row_loss
from evenfold.estimates.models.fit import FIT_VERSION, assemble, fit_and_score, fitted, score_key
from evenfold.estimates.models.problem import Problem
from evenfold.estimates.models.spec import (
    DEFAULTS,
    Balance,
    Default,
    ModelSpec,
    Transform,
    default_for,
    infer_task,
    scaled_logistic_regression,
)

from .bootstrap import (
    BootstrapEstimate,
    bootstrap_aggregate,
    bootstrap_estimate,
    bootstrap_score_estimate,
    resampled_aggregate,
)
from .comparison import Comparison, compare
from .draws import DrawScores, score_draws
from .folds import aggregate, overfitting, pooled_score, small_folds
from .results import Estimate, EvaluationError, FoldScore, Interval, ModelError
from .selection import BestOfMany, Choice, bias_corrected_best, bias_corrected_best_score, choose, simplest_near_best
from .studies import fold_count_study, stratification_study

__all__ = [
    "DEFAULTS",
    "FIT_VERSION",
    "ROW_LOSSES",
    "Balance",
    "BestOfMany",
    "BootstrapEstimate",
    "Choice",
    "Comparison",
    "CorrectedT",
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
    "bias_corrected_best",
    "bias_corrected_best_score",
    "bootstrap_aggregate",
    "bootstrap_estimate",
    "bootstrap_interval",
    "bootstrap_score_estimate",
    "check_metrics",
    "choose",
    "class_scores",
    "compare",
    "confusion_table",
    "corrected_resampled_t",
    "default_for",
    "fit_and_score",
    "fitted",
    "fold_count_study",
    "infer_task",
    "influence_of",
    "losses_of",
    "nested_cv_interval",
    "nested_interval",
    "nested_losses",
    "no_information_rate",
    "overfitting",
    "pooled_interval",
    "pooled_rows_interval",
    "pooled_score",
    "resampled_aggregate",
    "resampled_interval",
    "row_loss",
    "scaled_logistic_regression",
    "score_draws",
    "score_key",
    "simplest_near_best",
    "small_folds",
    "stratification_study",
]
