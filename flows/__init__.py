"""The order of tasks, and the command line."""

from ._requests import EvaluateRequest, Evaluation, ExtendOutcome, ExtendRequest, SplitOutcome, SplitRequest
from ._retrain_request import GateError, Retraining, RetrainRequest
from ._run import evaluate, extend, load_split, retrain, split

__all__ = [
    "EvaluateRequest",
    "Evaluation",
    "ExtendOutcome",
    "ExtendRequest",
    "GateError",
    "RetrainRequest",
    "Retraining",
    "SplitOutcome",
    "SplitRequest",
    "evaluate",
    "extend",
    "load_split",
    "retrain",
    "split",
]
