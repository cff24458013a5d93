from .bootstrap import (
    BootstrapEstimate as BootstrapEstimate,
    Multiplicities as Multiplicities,
    bootstrap_aggregate as bootstrap_aggregate,
    bootstrap_estimate as bootstrap_estimate,
    resampled_aggregate as resampled_aggregate,
)
from .comparison import Comparison as Comparison, compare as compare, compare_all as compare_all
from .errors import EvaluationError as EvaluationError, ModelError as ModelError
from .folds import (
    aggregate as aggregate,
    baseline_of_draws as baseline_of_draws,
    baseline_predictions as baseline_predictions,
)
from .intervals.evidence import Evidence as Evidence
from .intervals.methods import CorrectedT as CorrectedT, corrected_resampled_t as corrected_resampled_t
from .intervals.registry import (
    INTERVALS as INTERVALS,
    IntervalMethod as IntervalMethod,
    bootstrap_interval as bootstrap_interval,
    further_splits as further_splits,
    interval_for as interval_for,
    nested_interval as nested_interval,
)
from .levels import (
    LevelScore as LevelScore,
    level_scores as level_scores,
    level_scores_of_draws as level_scores_of_draws,
    widest_gap as widest_gap,
)
from .metrics.record import Answered as Answered, Metric as Metric, RowLoss as RowLoss
from .metrics.registry import (
    METRICS as METRICS,
    depends_on_model as depends_on_model,
    influence_of as influence_of,
    metric_of as metric_of,
    no_information_rate as no_information_rate,
)
from .models.draws import DrawScores as DrawScores, score_draws as score_draws
from .models.estimators import DEFAULTS as DEFAULTS, default_for as default_for, infer_task as infer_task
from .models.fit import (
    FIT_VERSION as FIT_VERSION,
    assemble as assemble,
    fit_and_score as fit_and_score,
    fit_predictions as fit_predictions,
    fitted as fitted,
    score_key as score_key,
    score_parts as score_parts,
)
from .models.problem import Problem as Problem
from .models.spec import (
    Balance as Balance,
    ModelSpec as ModelSpec,
    Transform as Transform,
    scaled_logistic_regression as scaled_logistic_regression,
)
from .promotion import Decision as Decision, to_spend as to_spend
from .results import (
    Baseline as Baseline,
    Confusion as Confusion,
    Declined as Declined,
    Estimate as Estimate,
    FoldScore as FoldScore,
    Interval as Interval,
    importance_table as importance_table,
    permutation_importance as permutation_importance,
)
from .selection import (
    BestOfMany as BestOfMany,
    Choice as Choice,
    bias_corrected_best as bias_corrected_best,
    choose as choose,
    choose_by_draws as choose_by_draws,
    chosen_inside as chosen_inside,
    simplest_near_best as simplest_near_best,
    unit_means as unit_means,
)
from .studies import fold_count_study as fold_count_study, stratification_study as stratification_study
