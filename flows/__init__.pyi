from .comparison import compare_runs as compare_runs
from .deployable.comparing import compare as compare
from .deployable.evaluating import evaluate as evaluate
from .deployable.extending import extend as extend
from .deployable.retraining import retrain as retrain
from .deployable.splitting import split as split
from .deployable.tuning import tune as tune
from .outcomes import (
    Evaluation as Evaluation,
    ExtendOutcome as ExtendOutcome,
    GateError as GateError,
    Retraining as Retraining,
    SplitOutcome as SplitOutcome,
    Tuning as Tuning,
)
from .splitting import load_split as load_split
