from .comparison import compare as compare
from .evaluation import evaluate as evaluate
from .outcomes import (
    Evaluation as Evaluation,
    ExtendOutcome as ExtendOutcome,
    GateError as GateError,
    Segments as Segments,
    SplitOutcome as SplitOutcome,
    Tuning as Tuning,
)
from .planning import plan as plan
from .retraining import Retraining as Retraining, retrain as retrain
from .splitting import adopt as adopt, extend as extend, load_split as load_split, split as split
from .tuning import tune as tune
