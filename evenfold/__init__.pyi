from .estimates import EvaluationError as EvaluationError, ModelError as ModelError, ModelSpec as ModelSpec
from .flows import (
    GateError as GateError,
    adopt as adopt,
    compare as compare,
    evaluate as evaluate,
    extend as extend,
    load_split as load_split,
    plan as plan,
    retrain as retrain,
    split as split,
    tune as tune,
)
from .manifests import (
    SplitSpec as SplitSpec,
    audit as audit,
    decide as decide,
    measure as measure,
    read_manifest as read_manifest,
    verify as verify,
)
from .splitters import EvenfoldError as EvenfoldError, SplitError as SplitError
from .tasks import log_scores as log_scores

__version__: str
