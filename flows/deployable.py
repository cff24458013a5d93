"""The flows as Prefect's objects: each is made when it is asked for, since the forms of all take seconds."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar, Unpack, overload

from . import definitions
from .flow import Flow, published

P = ParamSpec("P")
R = TypeVar("R")

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
        if name == "split":
            from .splitting import check_split as check, run_split as run
        elif name == "evaluate":
            from .evaluation import check_evaluation as check, run_evaluation as run
        elif name == "tune":
            from .tuning import check_tuning as check, run_tuning as run
        elif name == "extend":
            from .splitting import check_extension as check, run_extension as run
        elif name == "retrain":
            from .retraining import check_evaluation as check, run_retraining as run, tell_failed
        elif name == "compare":
            from .comparison import check_comparison as check, run_comparison as run
        else:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        flow = published(getattr(definitions, name), check, run)
        if name == "retrain":
            flow.on_failure(tell_failed)
        globals()[name] = flow
        return flow
