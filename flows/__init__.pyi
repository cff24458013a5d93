from .flow import (
    compare as compare,
    evaluate as evaluate,
    extend as extend,
    retrain as retrain,
    split as split,
    tune as tune,
)
from .outcomes import (
    Evaluation as Evaluation,
    ExtendOutcome as ExtendOutcome,
    GateError as GateError,
    Retraining as Retraining,
    Segments as Segments,
    SplitOutcome as SplitOutcome,
    Tuning as Tuning,
)
from .planning import plan as plan
from .splitting import adopt as adopt, load_split as load_split
