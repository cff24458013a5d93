"""What is trained and what was learnt: models, scores, estimates. Pure."""

from ._aggregate import aggregate, pooled_score
from ._assemble import assemble
from ._bootstrap import bootstrap_aggregate
from ._choose import Choice, choose
from ._compare import Comparison, compare
from ._errors import EvaluationError, ModelError
from ._fit import FIT_VERSION, fit_and_score, fitted
from ._report import evaluation_html
from ._report_folds import fold_count_html
from ._resampled import resampled_aggregate
from ._score_key import score_key
from ._studies import fold_count_study, stratification_study
from .bootstrap import BootstrapEstimate, bootstrap_estimate, bootstrap_score_estimate
from .classes import class_scores, confusion_table
from .defaults import DEFAULTS, Default, default_for, infer_task
from .draws import DrawScores, score_draws
from .estimate import Estimate
from .factories import scaled_logistic_regression
from .fold_score import FoldScore
from .influence import influence_of, pooled_rows_interval, resampled_interval
from .interval import Interval
from .intervals import CorrectedT, bootstrap_interval, corrected_resampled_t, pooled_interval
from .metrics import check_metrics
from .model_spec import Balance, ModelSpec, Transform
from .nested import nested_cv_interval, nested_interval, nested_losses
from .no_information import no_information_rate
from .problem import Problem
from .row_losses import ROW_LOSSES, RowLoss, losses_of, row_loss
from .selection import BestOfMany, bias_corrected_best, bias_corrected_best_score, one_standard_error
from .verdict import overfitting, small_folds

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
    "evaluation_html",
    "fit_and_score",
    "fitted",
    "fold_count_html",
    "fold_count_study",
    "infer_task",
    "influence_of",
    "losses_of",
    "nested_cv_interval",
    "nested_interval",
    "nested_losses",
    "no_information_rate",
    "one_standard_error",
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
    "small_folds",
    "stratification_study",
]
