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
from ._run import evaluate, extend, split, tune

__all__ = [
    "EvaluateRequest",
    "Evaluation",
    "ExtendOutcome",
    "ExtendRequest",
    "SplitOutcome",
    "SplitRequest",
    "TuneRequest",
    "Tuning",
    "compare_runs",
    "evaluate",
    "extend",
    "split",
    "tune",
]
