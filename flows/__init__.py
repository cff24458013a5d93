"""The order of tasks, and the command line."""

from ._compare import compare_runs
from ._requests import (
    EvaluateRequest,
    Evaluation,
    ExtendOutcome,
    ExtendRequest,
    SplitOutcome,
    SplitRequest,
    TuneRequest,
    Tuning,
)
from ._retrain_request import GateError, Retraining, RetrainRequest
from ._run import evaluate, extend, retrain, split, tune

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
    "TuneRequest",
    "Tuning",
    "compare_runs",
    "evaluate",
    "extend",
    "retrain",
    "split",
    "tune",
]
