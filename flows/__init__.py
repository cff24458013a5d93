"""The order of tasks, and the command line."""

from ._requests import EvaluateRequest, Evaluation, ExtendOutcome, ExtendRequest, SplitOutcome, SplitRequest
from ._run import evaluate, extend, split

__all__ = [
    "EvaluateRequest",
    "Evaluation",
    "ExtendOutcome",
    "ExtendRequest",
    "SplitOutcome",
    "SplitRequest",
    "evaluate",
    "extend",
    "split",
]
