"""A Prefect flow that checks what it is asked before anything starts, and runs without Prefect too.

Called by a person it starts the embedded server where there is no other, and a mistake is one sentence. Deployed, or as
a subflow of somebody's flow, it behaves as any flow.
"""

from __future__ import annotations

import contextlib
import inspect
import logging
import os
import sys
from collections.abc import Callable, Iterator, Mapping
from contextvars import ContextVar
from dataclasses import dataclass
from functools import partial, partialmethod, wraps
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar, Unpack, cast, get_type_hints, overload

import prefect
from evenfold.estimates import EvaluationError
from evenfold.splitters import EvenfoldError
from evenfold.tasks import parameters
from evenfold.tasks.runtime.files import naming_once, room
from evenfold.tasks.runtime.home import CONSOLE, Home, overlapping
from evenfold.tasks.runtime.limits import task_runner
from evenfold.tasks.runtime.progress import at_stop, crash, through_outages
from evenfold.tasks.runtime.server import api_of
from evenfold.tasks.runtime.signing import require_team_key
from evenfold.tasks.steps import running
from prefect import get_client, settings
from prefect.context import FlowRunContext, get_settings_context
from prefect.logging.handlers import PrefectConsoleHandler
from prefect.states import Failed
from prefect.types.entrypoint import EntrypointType
from pydantic_core import to_jsonable_python

from . import definitions
from .requests import Request

if TYPE_CHECKING:
    from evenfold.tasks.parameters import Data, Model, Spec
    from evenfold.tasks.requests import EvaluateFields

    from .outcomes import Evaluation, Segments

P = ParamSpec("P")
R = TypeVar("R")
Check = Callable[[Request], str]


@dataclass
class _Call:
    """A call of this process's, checked; and what its flow came to: where the answer to its last state is lost, Prefect
    asks again, and is answered with the state alone.
    """

    request: Request
    name: str  # what its check called it
    came_to: Any = None
    flow_run: Any = None  # its id, from before it is said to run


_CALL: ContextVar[_Call | None] = ContextVar("evenfold_call", default=None)


def published(fn: Callable[P, R], check: Check, run: Callable[[Request], R]) -> Flow[P, R]:
    """Return the flow that does ``run`` when ``check``, which names the run, has not raised for bad input."""

    def checked(request: Request) -> str:
        require_team_key()
        return check(request)

    request_type = Request.to(fn)
    signature = request_type.signature
    hints = {p.name: p.annotation for p in signature.parameters.values()}
    body = _guarded(fn, request_type, checked, run)
    body.__signature__ = signature  # type: ignore[attr-defined]
    body.__annotations__ = {**hints, "return": signature.return_annotation}
    lines = [f"    {p.name}: {parameters.Flag.of(p.annotation).words}" for p in signature.parameters.values()]
    body.__doc__ = "\n".join([inspect.getdoc(fn) or "", "", "Args:", *lines])
    body.__module__ = __name__.rpartition(".")[0]  # where a deployment finds it
    body.check, body.asked = checked, request_type  # type: ignore[attr-defined]
    run_name = _run_name(fn.__name__, request_type, check)
    flow = Flow(body, name=fn.__name__, flow_run_name=run_name, on_crashed=[_fail_mistaken])
    # People read them without what Prefect's form and the flags are made of.
    types = get_type_hints(type("_", (), {"__annotations__": hints}))
    flow.__signature__ = signature.replace(  # type: ignore[attr-defined]
        parameters=[p.replace(annotation=types[p.name]) for p in signature.parameters.values()]
    )
    return flow


def _fail_mistaken(flow: Any, flow_run: Any, state: Any) -> None:  # noqa: ARG001 (a hook has these three)
    """End a run as Failed that crashed for unknown parameters, which Prefect's API takes and its engine does not."""
    fields = inspect.signature(flow.fn).parameters
    if others := sorted(flow_run.parameters.keys() - fields.keys()):
        end: Any = Failed(message=f"{flow.name} has no parameter {', '.join(others)}; it takes {', '.join(fields)}.")
        with get_client(sync_client=True) as client:
            client.set_flow_run_state(flow_run.id, end, force=True)
        for hook in flow.on_failure_hooks:
            hook(flow, flow_run, end)


def _run_name(name: str, request_type: type[Request], check: Check) -> Callable[[], str]:
    def run_name() -> str:
        context, call = FlowRunContext.get(), _CALL.get()
        if call is not None:
            call.flow_run = context and context.flow_run and context.flow_run.id
            return f"{name} {call.name}"
        try:
            return f"{name} {check(request_type.read((context and context.parameters) or {}))}"
        except Exception:  # a name is no reason to fail; the flow itself says what is wrong
            return name

    return run_name


def _guarded(
    fn: Callable[P, R], request_type: type[Request], check: Check, run: Callable[[Request], R]
) -> Callable[P, R]:
    """Return the function that refuses bad input first, and does ``run`` then.

    A mistake makes the flow run Failed with its sentence; where a user asked for retries, after these.
    """

    def performed(call: _Call | None, arguments: Mapping[str, object]) -> R:
        request = call.request if call else request_type.read(arguments)
        if call is None:  # nobody has checked it yet
            check(request)
        home = Home.here()
        home.make()
        with room(home), running(request.engine, getattr(request, "refresh", False)):
            return through_outages(partial(run, request))

    @wraps(fn)
    def body(*args: P.args, **kwargs: P.kwargs) -> R:
        call, context = _CALL.get(), FlowRunContext.get()
        token = _CALL.set(None)  # what this flow calls is checked anew
        flow_run: Any = context and context.flow_run
        try:
            came_to: Any = performed(call, inspect.signature(fn).bind(*args, **kwargs).arguments)
        except BaseException as error:
            came_to = error
            # Prefect tries again of what is raised, and takes a state for a result.
            if not isinstance(error, EvenfoldError) or flow_run is None:
                raise
            if flow_run.run_count <= (flow_run.empirical_policy.retries or 0):
                raise
            return cast(R, Failed(message=str(error), data=error))
        finally:
            _CALL.reset(token)
            if call is not None:
                call.came_to = came_to
        return cast(R, came_to)

    return body


class Flow(prefect.Flow[P, R]):
    """A flow of evenfold's: a ``prefect.Flow``, whose task runner is the one that the settings ask for."""

    @property
    def asked(self) -> type[Request]:
        """The class of what it is asked."""
        return cast(type[Request], vars(self.fn)["asked"])

    @property
    def task_runner(self) -> Any:
        """The task runner: a user's choice, or by ``EVENFOLD_RUNNER``."""
        return vars(self).get("task_runner") or task_runner()

    @task_runner.setter
    def task_runner(self, _: Any) -> None:
        return  # Prefect's default, which it sets when a flow is made

    def with_options(self, *args: Any, **options: Any) -> Flow[P, R]:
        """Return the flow with other options; see ``prefect.Flow.with_options``."""
        flow: Any = super().with_options(*args, **options)
        flow.__class__ = type(self)
        return cast(Flow[P, R], flow)

    def serialize_parameters(self, parameters: dict[str, Any]) -> dict[str, Any]:
        """Return parameters as Prefect keeps them; its own way imports FastAPI, a tenth of a short command."""
        return cast(dict[str, Any], to_jsonable_python(parameters, serialize_unknown=True))

    # They name its module: by path, an import that fails is no error.
    to_deployment = partialmethod(prefect.Flow.to_deployment, entrypoint_type=EntrypointType.MODULE_PATH)
    serve = partialmethod(prefect.Flow.serve, entrypoint_type=EntrypointType.MODULE_PATH)
    deploy = partialmethod(prefect.Flow.deploy, entrypoint_type=EntrypointType.MODULE_PATH)

    def _called(self, *args: Any, return_state: bool = False, wait_for: Any = None, **kwargs: Any) -> Any:
        """Run the flow; bad input raises before anything is started or recorded, and leaves nothing of a frame."""
        as_any_flow = FlowRunContext.get() is not None or return_state
        with naming_once():
            request = self.asked.called(args, kwargs)
            name = "" if as_any_flow else vars(self.fn)["check"](request)
        parameters = request.parameters
        if as_any_flow:
            as_any: Any = super().__call__
            return as_any(return_state=return_state, wait_for=wait_for, **parameters)
        call = _Call(request, name)
        token = _CALL.set(call)
        try:
            if request.engine == "plain":
                plainly: Any = self.fn
                return plainly(**parameters)
            return self._started(Home.here(), call)
        finally:
            _CALL.reset(token)

    if not TYPE_CHECKING:  # its type is that of Prefect's own, which knows the parameters
        __call__ = _called

    def _started(self, home: Home, call: _Call) -> Any:
        home.make()
        with room(home), _served(home), at_stop(lambda: crash(call.flow_run)):
            under_prefect: Any = super().__call__
            state = under_prefect(return_state=True, **call.request.parameters)
        if isinstance(call.came_to, EvenfoldError):
            raise call.came_to.with_traceback(None)
        if isinstance(call.came_to, BaseException):
            raise call.came_to
        if not state.is_completed():
            raise EvaluationError(f"Prefect ended the flow as {state.name} ({state.message}); run it again.")
        return call.came_to

    def __reduce__(self) -> Any:
        return getattr, (sys.modules[self.__module__], self.fn.__name__)  # a worker has it already


@contextlib.contextmanager
def _served(home: Home) -> Iterator[None]:
    """Name a server to the flow: the one that is set, the one that is kept for the home, or this process's own.

    The settings of ours hold except where the user has set them.
    """
    if settings.PREFECT_API_URL.value():
        yield
        return
    chosen = {setting.name for setting in get_settings_context().profile.settings} | set(os.environ)
    ours: dict[Any, Any] = {
        settings.PREFECT_API_URL: api_of(home),
        settings.PREFECT_API_TLS_INSECURE_SKIP_VERIFY: True,  # no TLS here: each client would read all authorities
        settings.PREFECT_UI_URL: "",  # a link to a page that ends with this process is of no use in a record
        settings.PREFECT_HOME: home.path / "prefect",
        settings.PREFECT_LOCAL_STORAGE_PATH: home.path / "prefect" / "storage",
        # The heartbeat thread holds every flow's end up for about a second, and only a real server looks at it.
        settings.PREFECT_FLOWS_HEARTBEAT_FREQUENCY: None,
    }
    free = {setting: value for setting, value in ours.items() if setting.name not in chosen}
    with _quiet(), settings.temporary_settings(free):
        yield


@overlapping  # flows may run in threads
def _quiet() -> Iterator[None]:
    """Keep Prefect's lines off the terminal, unless the user has asked for a level: mistakes are told in a sentence."""
    chosen = settings.get_current_settings().to_environment_variables(exclude_unset=True) | os.environ
    handlers = [] if {"PREFECT_LOGGING_LEVEL", CONSOLE} & chosen.keys() else logging.getLogger().handlers
    levels = {handler: handler.level for handler in handlers if isinstance(handler, PrefectConsoleHandler)}
    for handler in levels:
        handler.setLevel(logging.CRITICAL)
    if levels:
        os.environ[CONSOLE] = "CRITICAL"  # for processes that import Prefect later
    try:
        yield
    finally:
        for handler, level in levels.items():
            handler.setLevel(level)
        if levels:
            os.environ.pop(CONSOLE, None)


# Each flow is made when it is asked for, since the forms of all take seconds.
if TYPE_CHECKING:

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
