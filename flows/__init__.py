"""The order of tasks, and the command line."""

from ._requests import EvaluateRequest, Evaluation, SplitOutcome, SplitRequest
from ._run import evaluate, split

__all__ = ["EvaluateRequest", "Evaluation", "SplitOutcome", "SplitRequest", "evaluate", "split"]
