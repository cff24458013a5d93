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
import threading
from collections.abc import Callable, Iterator, Mapping
from contextvars import ContextVar, copy_context
from functools import partial, wraps
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar, cast, get_type_hints

import prefect
import prefect.settings
from evenfold.estimates import Comparison, EvaluationError, ModelSpec
from evenfold.manifests import SplitSpec
from evenfold.splitters import EvenfoldError
from evenfold.tasks import parameters
from evenfold.tasks.requests import signature_of
from evenfold.tasks.runtime.files import asking, needed, room
from evenfold.tasks.runtime.home import Home, embedded_settings
from evenfold.tasks.runtime.runners import task_runner
from evenfold.tasks.runtime.server import api_of, cancel_run, kept_server, one_authority
from evenfold.tasks.runtime.settings import EMBEDDED, LOGGED
from evenfold.tasks.runtime.shared import overlapping
from evenfold.tasks.runtime.signing import require_team_key
from evenfold.tasks.runtime.stopping import at_stop, halt_where_stopping
from evenfold.tasks.steps.running import running
from prefect.client.schemas.objects import State
from prefect.context import FlowRunContext, get_settings_context
from prefect.settings import (
    PREFECT_API_URL,
    PREFECT_FLOWS_HEARTBEAT_FREQUENCY,
    PREFECT_UI_URL,
    get_current_settings,
    temporary_settings,
)
from prefect.states import Failed
from prefect.types.entrypoint import EntrypointType
from pydantic_core import PydanticSerializationError, to_jsonable_python

from . import outcomes
from .requests import Request
from .unattended import has_tries_left, left_to_another, refuse_unknown, run_under_way, through_outages

P = ParamSpec("P")
R = TypeVar("R")
S = TypeVar("S")
Check = Callable[[Request], str]
_NAMES = {
    **vars(parameters),
    **vars(outcomes),
    "SplitSpec": SplitSpec,
    "ModelSpec": ModelSpec,
    "Comparison": Comparison,
}
_CHECKED: ContextVar[Request | None] = ContextVar("evenfold_checked", default=None)
BEGIN_SECONDS = 1.0


class _Begun:
    """The flow run that this process has started, which a stop marks as cancelled: known before it is RUNNING.

    ``came_to`` is what it returned, or the mistake it ended with. Where the answer to its last state is lost, Prefect
    asks again, and its server answers with the state alone.
    """

    def __init__(self) -> None:
        self.run: Any = None
        self.came_to: Any = None
        self.known = threading.Event()

    def is_run(self, run: Any) -> None:
        """Say which run it is, once: what is called later is a flow inside it."""
        if not self.known.is_set():
            self.run = run
            self.known.set()

    def cancel(self) -> None:
        """Mark the run as cancelled, where one was begun."""
        if self.known.wait(BEGIN_SECONDS):
            cancel_run(self.run)


_BEGUN: ContextVar[_Begun | None] = ContextVar("evenfold_begun", default=None)


def published(fn: Callable[P, R], check: Check, run: Callable[[Request], R]) -> Flow[P, R]:
    """Return the flow of a declaration, which does ``run`` with what it is asked.

    ``check`` raises for bad input, and returns what the run is about.
    """

    def checked(request: Request) -> str:
        require_team_key(Home.here())
        return check(request)

    declared, names = signature_of(fn), _NAMES | fn.__globals__
    holder = type("_", (), {"__annotations__": {p.name: p.annotation for p in declared.parameters.values()}})
    hints = get_type_hints(holder, names, include_extras=True)  # types of other rooms are looked up here
    hints["return"] = get_type_hints(fn, names, include_extras=True)["return"]
    signature = declared.replace(
        parameters=[p.replace(annotation=hints[p.name]) for p in declared.parameters.values()],
        return_annotation=hints["return"],
    )
    asked = Request.to(fn.__name__, signature)
    body = _guarded(fn, asked, checked, run)
    body.__signature__ = signature  # type: ignore[attr-defined]
    body.__annotations__ = hints
    body.__doc__ = _described(fn, declared)
    body.__module__ = __name__.rpartition(".")[0]  # where a deployment finds it
    named = _run_name(fn.__name__, asked, check)
    flow = Flow(body, name=fn.__name__, flow_run_name=named, on_crashed=[refuse_unknown])
    flow.check, flow.asked = checked, asked
    return flow


def _described(fn: Callable[..., Any], signature: inspect.Signature) -> str:
    """Return a docstring that lists the parameters with their descriptions, from which Prefect makes its form."""
    lines = [f"    {p.name}: {parameters.Flag.of(p.annotation).words}" for p in signature.parameters.values()]
    return "\n".join([inspect.getdoc(fn) or "", "", "Args:", *lines])


def _run_name(name: str, asked: type[Request], check: Check) -> Callable[[], str]:
    def run_name() -> str:
        context, begun = FlowRunContext.get(), _BEGUN.get()
        if begun is not None and context is not None and context.flow_run is not None:
            begun.is_run(context.flow_run.id)
            halt_where_stopping()
        try:
            request = _CHECKED.get() or asked.read((context.parameters if context else None) or {})
            return f"{name} {check(request)}"
        except Exception:  # a name is no reason to fail; the flow itself says what is wrong
            return name

    return run_name


def _guarded(fn: Callable[P, R], asked: type[Request], check: Check, run: Callable[[Request], R]) -> Callable[P, R]:
    """Return what refuses bad input first, and does ``run`` then.

    A mistake makes the flow run Failed with its sentence; where a user asked for retries, after these.
    """

    @wraps(fn)
    def body(*args: P.args, **kwargs: P.kwargs) -> R:
        token = _CHECKED.set(None)  # what this flow calls is checked anew
        request = token.old_value
        try:
            if not isinstance(request, asked):  # _called has not checked this very call
                request = asked.read(inspect.signature(fn).bind(*args, **kwargs).arguments)
                check(request)
            home = Home.here()
            home.make()
            left = left_to_another()
            if left is not None:
                return cast(R, left)
            with room(home), _marked(), running(request.engine, getattr(request, "refresh", False)):
                return _noted(through_outages(partial(run, request)))
        except EvenfoldError as error:
            if FlowRunContext.get() is None or has_tries_left():
                raise
            return cast(R, Failed(message=str(error), data=_noted(error)))  # as Prefect takes a state for a result
        finally:
            _CHECKED.reset(token)

    return body


def _begun_here() -> _Begun | None:
    """Return what is known of the run under way, where a call in this process has started it; None in a flow inside."""
    run, begun = run_under_way(), _BEGUN.get()
    return begun if run is not None and begun is not None and begun.run == run.id else None


def _noted(value: S) -> S:
    """Return ``value``, noted as what the run under way came to."""
    begun = _begun_here()
    if begun is not None:
        begun.came_to = value
    return value


def _marked() -> contextlib.AbstractContextManager[None]:
    """Return a block inside which a stopped process marks the flow run under way, if there is one, as cancelled."""
    run = run_under_way()
    if run is None or _begun_here() is not None:
        return contextlib.nullcontext()
    return at_stop(partial(copy_context().run, cancel_run, run.id))


@contextlib.contextmanager
def _cancelled_at_stop() -> Iterator[_Begun]:
    """Let a stopped process mark the flow run that is started inside the block as cancelled, from its first moment."""
    begun = _Begun()
    token = _BEGUN.set(begun)
    try:
        with at_stop(partial(copy_context().run, begun.cancel)):
            yield begun
    finally:
        _BEGUN.reset(token)


class Flow(prefect.Flow[P, R]):
    """A flow of evenfold's: a ``prefect.Flow``, whose task runner is the one that the settings ask for."""

    check: Check
    asked: type[Request]

    @property
    def task_runner(self) -> Any:
        """The task runner: a user's choice, or by ``EVENFOLD_RUNNER``."""
        return vars(self).get("_chosen_runner") or task_runner()

    @task_runner.setter
    def task_runner(self, _: Any) -> None:
        return  # Prefect's default, which it sets when a flow is made

    def with_options(self, *args: Any, **options: Any) -> Flow[P, R]:
        """Return the flow with other options; see ``prefect.Flow.with_options``."""
        made = super().with_options(*args, **options)
        flow: Flow[P, R] = object.__new__(type(self))
        vars(flow).update(vars(made) | {"check": self.check, "asked": self.asked})
        runner = options.get("task_runner") or vars(self).get("_chosen_runner")
        vars(flow).pop("task_runner", None)
        vars(flow)["_chosen_runner"] = runner() if isinstance(runner, type) else runner
        return flow

    def serialize_parameters(self, parameters: dict[str, Any]) -> dict[str, Any]:
        """Return parameters as Prefect keeps them; see ``prefect.Flow.serialize_parameters``, which imports FastAPI."""
        plain = (str, int, float, list, dict, SplitSpec, ModelSpec, type(None))
        if all(isinstance(value, plain) for value in parameters.values()):
            with contextlib.suppress(PydanticSerializationError):
                return {name: to_jsonable_python(value) for name, value in parameters.items()}
        return super().serialize_parameters(parameters)

    def to_deployment(self, *args: Any, **options: Any) -> Any:
        """Return a deployment, found by its module; see ``prefect.Flow.to_deployment``."""
        return super().to_deployment(*args, **_by_module(options))

    def serve(self, *args: Any, **options: Any) -> Any:
        """Serve a deployment, found by its module; see ``prefect.Flow.serve``."""
        return super().serve(*args, **_by_module(options))

    def deploy(self, *args: Any, **options: Any) -> Any:
        """Deploy, found by its module; see ``prefect.Flow.deploy``."""
        return super().deploy(*args, **_by_module(options))

    def _called(self, *args: Any, return_state: bool = False, wait_for: Any = None, **kwargs: Any) -> Any:
        """Run the flow and return what it came to; see its function.

        Bad input raises before anything is started or written.
        """
        given = self._named(args, kwargs)
        home = Home.here()
        # A frame becomes a file, for parameters travel as JSON; where the request is refused, the file goes again.
        with asking(given["data"], home, accepted=False) if "data" in given else contextlib.nullcontext() as path:
            request = self.asked.read(given if path is None else given | {"data": path})
            parameters = request.parameters
            if FlowRunContext.get() is not None or return_state:  # as any flow
                as_any: Any = super().__call__
                answer = as_any(return_state=return_state, wait_for=wait_for, **parameters)
                if not isinstance(answer, State) or answer.is_completed():
                    needed(given.get("data"))
                return answer
            self.check(request)
            needed(given.get("data"))
        token = _CHECKED.set(request)
        try:
            if request.engine == "plain":
                plainly: Any = self.fn
                return plainly(**parameters)
            return self._started(home, parameters)
        finally:
            _CHECKED.reset(token)

    if not TYPE_CHECKING:  # its type is that of Prefect's own, which knows the parameters
        __call__ = _called

    def _named(self, args: tuple[object, ...], kwargs: dict[str, object]) -> dict[str, object]:
        """Return values by their names; TypeError as Python's, save for names unknown, which are refused later."""
        signature = inspect.signature(self.fn)
        unnamed = [name for name, each in signature.parameters.items() if each.kind is each.POSITIONAL_OR_KEYWORD]
        if len(args) > len(unnamed):
            raise TypeError(
                f"{self.fn.__name__} takes {len(unnamed)} values without a name ({', '.join(unnamed)}) and was given "
                f"{len(args)}; name the others."
            )
        known = {name: value for name, value in kwargs.items() if name in signature.parameters}
        try:
            return signature.bind_partial(*args, **known).arguments | kwargs
        except TypeError as error:
            raise TypeError(f"{self.fn.__name__}: {error}") from None

    def _started(self, home: Home, parameters: Mapping[str, object]) -> Any:
        home.make()
        with room(home), _quiet(), _served(home), _cancelled_at_stop() as begun:
            under_prefect: Any = super().__call__
            state = under_prefect(return_state=True, **parameters)
        told_alone = state.data is None and (state.is_completed() or state.is_failed())
        # Where an event loop runs, as in a notebook, Prefect would return what is to be awaited.
        value: Any = begun.came_to if told_alone else state.result(raise_on_failure=False, _sync=True)
        if isinstance(value, EvenfoldError):
            raise value.with_traceback(None)
        if isinstance(value, BaseException):
            raise value
        if not state.is_completed():
            raise EvaluationError(f"Prefect ended the flow as {state.name} ({state.message}); run it again.")
        return value

    def __reduce__(self) -> Any:
        return getattr, (sys.modules[self.__module__], self.fn.__name__)  # a worker has it already


def _by_module(options: dict[str, Any]) -> dict[str, Any]:
    # Prefect's path loader returns a placeholder flow, and no error, where an import fails.
    return {"entrypoint_type": EntrypointType.MODULE_PATH} | options


@contextlib.contextmanager
def _served(home: Home) -> Iterator[None]:
    """Name a server to the flow: the one that is set, the one that is kept for the home, or this process's own.

    Its settings and its place below the home hold except where the user has set them.
    """
    if PREFECT_API_URL.value():
        yield
        return
    chosen = {setting.name for setting in get_settings_context().profile.settings} | set(os.environ)
    ours = {name: value for name, value in embedded_settings(home).items() if name not in chosen}
    # The heartbeat thread holds every flow's end up for about a second, and only a real server looks at it.
    quick = {} if "PREFECT_FLOWS_HEARTBEAT_FREQUENCY" in chosen else {PREFECT_FLOWS_HEARTBEAT_FREQUENCY: None}
    settings: Any = {getattr(prefect.settings, name): value for name, value in ours.items()} | quick
    kept = kept_server(home)
    # A server of this process's own starts with these settings; to put them into force takes a twentieth of a second.
    with contextlib.nullcontext() if kept else temporary_settings(settings):
        # A link to a page that ends with this process is of no use in a record.
        named: Any = {PREFECT_API_URL: kept.api if kept else api_of(home), PREFECT_UI_URL: ""}
        named |= {} if "PREFECT_API_SSL_CERT_FILE" in chosen else one_authority(home)
        with temporary_settings(settings | named):
            yield


@overlapping  # flows may run in threads
def _quiet() -> Iterator[None]:
    """Keep Prefect's lines off the terminal, unless the user has asked for them: mistakes are told in a sentence."""
    set_anywhere = get_current_settings().to_environment_variables(exclude_unset=True) | os.environ
    ours = set_anywhere.get("PREFECT_LOGGING_LEVEL") in (None, EMBEDDED["PREFECT_LOGGING_LEVEL"])
    levels = {logger: logging.getLogger(logger).level for logger in LOGGED}
    logged = [name for name in LOGGED.values() if ours and name not in set_anywhere]
    os.environ.update(dict.fromkeys(logged, "INFO"))  # for processes that import Prefect later
    for logger, name in LOGGED.items():  # Prefect's setup_logging would read every setting for it, a tenth of a second
        if name in os.environ:
            logging.getLogger(logger).setLevel(os.environ[name])
    handlers = logging.getLogger().handlers if ours else []
    shown = [handler for handler in handlers if isinstance(handler, logging.StreamHandler)]
    for handler in shown:  # by a filter: what is logged goes to Prefect's page, not to the terminal
        handler.addFilter(_only_critical)
    try:
        yield
    finally:
        for handler in shown:
            handler.removeFilter(_only_critical)
        for name in logged:
            os.environ.pop(name, None)
        for logger, level in levels.items():
            logging.getLogger(logger).setLevel(level)


def _only_critical(record: logging.LogRecord) -> bool:
    return record.levelno >= logging.CRITICAL or not record.name.startswith("prefect")
