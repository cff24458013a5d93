"""The flows as Prefect's objects: each is made when it is asked for, since the forms of all take seconds."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar, Unpack, overload

from . import definitions
from .flow import Flow, published

P = ParamSpec("P")
R = TypeVar("R")
CHECKS = {
    "split": ("check_split", "run_split"),
    "evaluate": ("check_evaluation", "run_evaluation"),
    "tune": ("check_tuning", "run_tuning"),
    "extend": ("check_extension", "run_extension"),
    "retrain": ("check_evaluation", "run_retraining"),
    "compare": ("check_comparison", "run_comparison"),
}


if TYPE_CHECKING:
    from evenfold.tasks.parameters import Data, Model, Spec
    from evenfold.tasks.requests import EvaluateFields

    from .outcomes import Evaluation, Segments

    def _typed(declared: Callable[P, R]) -> Flow[P, R]: ...

    class _Evaluate(Flow[..., Evaluation]):
        @overload  # type: ignore[override,no-overload-impl]
        def __call__(
            self, data: Data, spec: Spec = ..., model: Model = ..., *, by: str, **fields: Unpack[EvaluateFields]
        ) -> Segments: ...
        @overload
        def __call__(
            self, data: Data, spec: Spec = ..., model: Model = ..., *, by: None = ..., **fields: Unpack[EvaluateFields]
        ) -> Evaluation: ...

    evaluate: _Evaluate
    split, tune = _typed(definitions.split), _typed(definitions.tune)
    extend, retrain, compare = _typed(definitions.extend), _typed(definitions.retrain), _typed(definitions.compare)
else:

    def __getattr__(name: str) -> Any:
        if name not in CHECKS:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        if name == "compare":
            from . import comparison as place
        elif name == "evaluate":
            from . import evaluation as place
        elif name == "tune":
            from . import tuning as place
        elif name == "retrain":
            from . import retraining as place
        else:
            from . import splitting as place
        check, run = CHECKS[name]
        flow = published(getattr(definitions, name), getattr(place, check), getattr(place, run))
        if name == "retrain":
            flow.on_failure(place.tell_failed)
        globals()[name] = flow
        return flow
