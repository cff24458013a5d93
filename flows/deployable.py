"""The flows as Prefect's objects: each is made when it is asked for, since the forms of all take seconds."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

from . import definitions
from .flow import Flow, published

P = ParamSpec("P")
R = TypeVar("R")
PLACES = {
    "split": ("splitting", "check_split", "run_split"),
    "evaluate": ("evaluation", "check_evaluation", "run_evaluation"),
    "tune": ("tuning", "check_tuning", "run_tuning"),
    "extend": ("splitting", "check_extension", "run_extension"),
    "retrain": ("retraining", "check_evaluation", "run_retraining"),
    "compare": ("comparison", "check_comparison", "run_comparison"),
}


if TYPE_CHECKING:

    def _typed(declared: Callable[P, R]) -> Flow[P, R]: ...

    split, evaluate, tune = _typed(definitions.split), _typed(definitions.evaluate), _typed(definitions.tune)
    extend, retrain, compare = _typed(definitions.extend), _typed(definitions.retrain), _typed(definitions.compare)
else:

    def __getattr__(name: str) -> Any:
        if name not in PLACES:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        room, check, run = PLACES[name]
        place = import_module(f"{__package__}.{room}")
        flow = published(getattr(definitions, name), getattr(place, check), getattr(place, run))
        if name == "retrain":
            flow.on_failure(place.tell_failed)
        globals()[name] = flow
        return flow
