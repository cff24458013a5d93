"""The order of tasks, and the command line."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .comparison import compare_runs
    from .requests import (
        EvaluateRequest,
        Evaluation,
        ExtendOutcome,
        ExtendRequest,
        GateError,
        Retraining,
        RetrainRequest,
        SplitOutcome,
        SplitRequest,
        TuneRequest,
        Tuning,
    )
    from .run import evaluate, extend, load_split, retrain, split, tune

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
    "load_split",
    "retrain",
    "split",
    "tune",
]

# Imported when asked for: the command line's help and completion need none of it, and it takes seconds.
_ROOMS = {
    "_compare": ["compare_runs"],
    "_retrain_request": ["GateError", "RetrainRequest", "Retraining"],
    "_run": ["evaluate", "extend", "load_split", "retrain", "split", "tune"],
}
_PLACES = {name: room for room, names in _ROOMS.items() for name in names}


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f".{_PLACES.get(name, '_requests')}", __name__), name)
