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
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from dataclasses import dataclass
from functools import partial, partialmethod, update_wrapper
from typing import TYPE_CHECKING, Any, Generic, ParamSpec, TypeVar, cast

import prefect
from evenfold.estimates import EvaluationError
from evenfold.splitters import EvenfoldError
from evenfold.tasks.parameters import Flag
from evenfold.tasks.runtime.home import CONSOLE, Home, overlapping
from evenfold.tasks.runtime.limits import task_runner
from evenfold.tasks.runtime.progress import at_stop, room, setting, through_outages
from evenfold.tasks.runtime.server import api_of
from evenfold.tasks.runtime.signing import require_team_key
from evenfold.tasks.steps import running
from prefect import get_client, settings
from prefect.context import FlowRunContext, get_settings_context
from prefect.logging.handlers import PrefectConsoleHandler
from prefect.states import Crashed, Failed
from prefect.task_runners import ThreadPoolTaskRunner
from prefect.types.entrypoint import EntrypointType

from .requests import Request

P = ParamSpec("P")
R = TypeVar("R")
Check = Callable[[Request], str]


@dataclass
class Call:
    """A call in this process, checked before anything starts: its request, the run's name and id, what it came to.

    Where the answer to a run's last state is lost, Prefect asks again, and is answered with the state alone.
    """

    request: Request
    name: str
    flow_run: Any = None
    came_to: Any = None

    def crash(self) -> None:
        """End the run as crashed, as Prefect calls what was stopped; nothing where there is none yet."""
        if self.flow_run is not None:
            with get_client(sync_client=True) as client:
                client.set_flow_run_state(self.flow_run, Crashed(message="Stopped by a signal."))


_CALL: ContextVar[Call | None] = ContextVar("evenfold_call", default=None)


class FlowBody(Generic[P, R]):
    """The function of a flow, as ``declared``: it refuses what ``check`` raises for, and returns what ``run`` does.

    ``check`` also says what the request is about, which names the flow run.
    """

    __name__: str

    def __init__(self, declared: Callable[P, R], check: Check, run: Callable[[Request], R]) -> None:
        update_wrapper(self, declared)
        self.request_type, self.check, self.run = Request.to(declared), check, run
        self.__signature__ = self.request_type.signature
        self.__module__ = __name__.rpartition(".")[0]  # where a deployment finds it
        words = [f"    {p.name}: {Flag.of(p.annotation).words}" for p in self.__signature__.parameters.values()]
        self.__doc__ = "\n".join([inspect.getdoc(declared) or "", "", "Args:", *words])

    def checked(self, request: Request) -> Call:
        """Return the call of a request; raises what bad input raises."""
        require_team_key()
        return Call(request, f"{self.__name__} {self.check(request)}")

    def title(self) -> str:
        """Return the name of the flow run under way: the flow's own where its input is bad, which the run says."""
        context, call = FlowRunContext.get(), _CALL.get()
        if context is not None and call is not None:
            call.flow_run = context.flow_run and context.flow_run.id
        with contextlib.suppress(Exception):
            return (call or self.checked(self.request_type.read((context and context.parameters) or {}))).name
        return self.__name__

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        """Return what the request comes to; of a mistake the flow run is Failed with its sentence."""
        context, call = FlowRunContext.get(), _CALL.get()
        with setting(_CALL, None):  # what this flow calls is checked anew
            try:
                if call is None:
                    call = self.checked(self.request_type.read(self.__signature__.bind(*args, **kwargs).arguments))
                request, home = call.request, Home.here()
                home.make()
                with room(home), running(request.engine, getattr(request, "refresh", False)):
                    call.came_to = through_outages(partial(self.run, request))
            except BaseException as error:
                if call is not None:
                    call.came_to = error
                if context is None or not isinstance(error, EvenfoldError):
                    raise
                return cast(R, Failed(message=str(error), data=error))  # without the pages of a traceback
        return cast(R, call.came_to)


class BySettings(ThreadPoolTaskRunner[Any]):
    """The task runner that the settings ask for when a run begins."""

    def duplicate(self) -> Any:
        """Return it."""
        return task_runner()


class Flow(prefect.Flow[P, R]):
    """A flow of evenfold's: a ``prefect.Flow`` that refuses bad input before anything is started."""

    request_type: type[Request]  # of its body, whose attributes are the flow's

    def with_options(self, *args: Any, **options: Any) -> Flow[P, R]:
        """Return the flow with other options; see ``prefect.Flow.with_options``."""
        flow: Any = super().with_options(*args, **options)
        flow.__class__ = type(self)
        return cast(Flow[P, R], flow)

    # They name its module: by path, an import that fails is no error.
    to_deployment = partialmethod(prefect.Flow.to_deployment, entrypoint_type=EntrypointType.MODULE_PATH)
    serve = partialmethod(prefect.Flow.serve, entrypoint_type=EntrypointType.MODULE_PATH)
    deploy = partialmethod(prefect.Flow.deploy, entrypoint_type=EntrypointType.MODULE_PATH)

    def _called(self, *args: Any, return_state: bool = False, wait_for: Any = None, **kwargs: Any) -> Any:
        """Run the flow; a person's bad input raises before anything is started."""
        body, under_prefect = cast(FlowBody[P, R], self.fn), cast(Any, super().__call__)
        request = self.request_type.called(args, kwargs)
        if FlowRunContext.get() is not None or return_state:  # as any flow
            return under_prefect(return_state=return_state, wait_for=wait_for, **request.parameters)
        call, home = body.checked(request), Home.here()
        with setting(_CALL, call):
            if request.engine == "plain":
                return cast(Any, body)()
            home.make()
            with room(home), _served(home), at_stop(call.crash):
                state = under_prefect(return_state=True, **request.parameters)
        if isinstance(call.came_to, BaseException):
            raise call.came_to.with_traceback(None) if isinstance(call.came_to, EvenfoldError) else call.came_to
        if not state.is_completed():
            raise EvaluationError(f"Prefect ended the flow as {state.name} ({state.message}); run it again.")
        return call.came_to

    if not TYPE_CHECKING:  # its type is that of Prefect's own, which knows the parameters
        __call__ = _called

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
    if {"PREFECT_LOGGING_LEVEL", CONSOLE} & chosen.keys():
        yield
        return
    levels = {each: each.level for each in logging.getLogger().handlers if isinstance(each, PrefectConsoleHandler)}
    os.environ[CONSOLE] = "CRITICAL"  # for processes that import Prefect later
    for handler in levels:
        handler.setLevel(logging.CRITICAL)
    try:
        yield
    finally:
        os.environ.pop(CONSOLE, None)
        for handler, level in levels.items():
            handler.setLevel(level)


def fail_mistaken(flow: Any, flow_run: Any, state: Any) -> None:  # noqa: ARG001 (a hook has these three)
    """End a run as Failed that crashed for unknown parameters, which Prefect's API takes and its engine does not."""
    fields = inspect.signature(flow.fn).parameters
    if others := sorted(flow_run.parameters.keys() - fields.keys()):
        end: Any = Failed(message=f"{flow.name} has no parameter {', '.join(others)}; it takes {', '.join(fields)}.")
        with get_client(sync_client=True) as client:
            client.set_flow_run_state(flow_run.id, end, force=True)
        for hook in flow.on_failure_hooks:
            hook(flow, flow_run, end)


def flow(declared: Callable[P, Any], check: Check) -> Callable[[Callable[[Request], R]], Flow[P, R]]:
    """Return a decorator that makes of what is done for a request the flow that takes the parameters of ``declared``.

    ``check`` raises for bad input before anything is started, and returns what the request is about.
    """

    def made(run: Callable[[Request], R]) -> Flow[P, R]:
        body = FlowBody(declared, check, run)
        runner: Any = BySettings()
        # A request says what is wrong with it in a sentence, before Prefect would.
        flow = Flow(
            body, body.__name__, flow_run_name=body.title, task_runner=runner, validate_parameters=False,
            on_crashed=[fail_mistaken],
        )  # fmt: skip
        flow.__signature__ = body.request_type.readable  # type: ignore[attr-defined]
        return flow

    return made
