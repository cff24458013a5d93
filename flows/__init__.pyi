from .comparison import compare_runs as compare_runs
from .requests import (
    EvaluateRequest as EvaluateRequest,
    Evaluation as Evaluation,
    ExtendOutcome as ExtendOutcome,
    ExtendRequest as ExtendRequest,
    GateError as GateError,
    Retraining as Retraining,
    RetrainRequest as RetrainRequest,
    SplitOutcome as SplitOutcome,
    SplitRequest as SplitRequest,
    TuneRequest as TuneRequest,
    Tuning as Tuning,
)
from .run import (
    evaluate as evaluate,
    extend as extend,
    load_split as load_split,
    retrain as retrain,
    split as split,
    tune as tune,
)
