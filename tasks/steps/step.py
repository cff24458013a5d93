"""A step is a plain Prefect task around a function whose result is named by content: computed once, locked, checked."""

from __future__ import annotations

import contextlib
import hashlib
import os
import sys
from collections.abc import Callable, Iterator, Mapping
from contextvars import ContextVar
from dataclasses import dataclass
from functools import update_wrapper
from types import ModuleType
from typing import Any, Generic, ParamSpec, TypeVar

from evenfold.estimates import EvaluationError
from evenfold.splitters import EvenfoldError
from evenfold.tasks.outcomes import Outcome
from evenfold.tasks.results.store import kept, ready
from evenfold.tasks.runtime.files import naming_once
from evenfold.tasks.runtime.home import travelling
from prefect import Task
from prefect.cache_policies import NO_CACHE, CachePolicy
from prefect.context import TaskRunContext
from prefect.runtime import flow_run
from prefect.settings import PREFECT_TASKS_REFRESH_CACHE, PREFECT_UI_URL
from prefect.states import Completed

REFRESHING: ContextVar[bool] = ContextVar("evenfold_refreshing", default=False)  # where no task run says it
UNDER_KEY: ContextVar[str | None] = ContextVar("evenfold_under_key", default=None)
P = ParamSpec("P")
R = TypeVar("R")
RETRY_SECONDS = (2, 8, 30)
MISTAKES = (ValueError, TypeError, LookupError, AttributeError)  # the same however often they are tried


class Body(Generic[P, R]):
    """The function of a step, with what names its runs and its results.

    In a task run of the step, the result is looked for and kept in the content store, unless an option of the user's
    own says when or where Prefect keeps it. Called by hand it computes. ``message``: what a run's state says of it.
    """

    __name__: str

    def __init__(
        self,
        fn: Callable[P, R],
        key_of: Callable[..., str | None] | None,
        run_name: Callable[..., str] | None,
        message: Callable[[R], str] | None = None,
    ) -> None:
        self.fn, self.key_of, self.run_name, self.message = fn, key_of, run_name, message
        update_wrapper(self, fn)

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        """Return what the function returns for these arguments."""
        run = TaskRunContext.get()
        if run is None or run.task.fn is not self:
            return self._performed(args, kwargs)
        if _in_store(run.task):
            value, cached = self.kept(args, kwargs, is_refreshing())
            # Whoever waited for another's computation has its result.
            return Completed(name="Cached", data=value) if cached else value  # type: ignore[return-value]
        value = self._performed(args, kwargs)
        # Prefect takes a state for what its task has come to, and its data for what it returned.
        return value if self.message is None else Completed(message=self.message(value), data=value)  # type: ignore[return-value]

    def kept(self, args: tuple[Any, ...], kwargs: Mapping[str, Any], again: bool) -> tuple[R, bool]:
        """Return what is kept of the function for these arguments, or compute and keep it; and whether it was kept."""
        with naming_once():
            key = self.key_of(*args, **kwargs) if self.key_of else None
            if key is None:
                return self._performed(args, kwargs), False
            token = UNDER_KEY.set(key)
            try:
                return kept(key, lambda: self._performed(args, kwargs), again)
            finally:
                UNDER_KEY.reset(token)

    def _performed(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> R:
        with naming_once():
            return self.fn(*args, **kwargs)

    def title(self, parameters: dict[str, Any]) -> str:
        """Return the name of a task run: the task's own where what it takes is not known yet, or bad."""
        with naming_once(), contextlib.suppress(Exception):  # the run itself says what is wrong
            if self.run_name is not None:
                return self.run_name(**parameters)
        return self.__name__.replace("_", " ")

    def __reduce__(self) -> Any:
        # A worker process has the function already, under the name of its task; what it lacks are the settings.
        return _arrived, (sys.modules[self.fn.__module__], self.fn.__name__, travelling())


def _arrived(room: ModuleType, name: str, settings: dict[str, str]) -> Body[Any, Any]:
    for setting, value in settings.items():
        # Not over what the worker's own machine says, as of its folders.
        os.environ.setdefault(setting, value)
    body: Body[Any, Any] = getattr(room, name).fn
    return body


@dataclass
class ByContent(CachePolicy):
    """A result's key is made of what it depends on: content, specification and versions, in whatever file or flow.

    What is whole in the content store, whoever put it there, is a hit of Prefect's. Where ``result_storage`` or
    ``cache_expiration`` of the user's is set, Prefect's own is asked alone, and made again where a file that it names
    is damaged.
    """

    body: Body[Any, Any] | None = None

    def compute_key(
        self, task_ctx: TaskRunContext, inputs: dict[str, Any], flow_parameters: dict[str, Any], **kwargs: Any
    ) -> str | None:
        """Return the key of these inputs; None where nothing is kept, or they are bad: the task then says why."""
        assert self.body is not None
        assert self.body.key_of is not None
        with naming_once():
            try:
                key = self.body.key_of(**inputs)
            except EvenfoldError:
                return None
        if key is None:
            return None
        place = task_ctx.result_store
        if not _in_store(task_ctx.task):
            while place.exists(key) and isinstance(value := place.read(key).result, Outcome) and not value.intact():
                key += "+"  # a file that Prefect keeps is not ours to replace
        elif is_refreshing() or (held := ready(key)) is None:
            return None
        else:
            # By what is kept, so that Prefect never takes an earlier one, or that of another home.
            key += f"-{hashlib.sha256(held.model_dump_json().encode()).hexdigest()[:16]}"
            if not place.exists(key):
                place.write(held, key)
        return key


def _in_store(task: Task[..., Any]) -> bool:
    """Return whether a task's results lie in the content store: no option of the user's own says otherwise."""
    own = task.result_storage is None and task.cache_expiration is None
    return own and isinstance(task.cache_policy, ByContent)


def step(
    key_of: Callable[..., str | None] | None = None,
    run_name: Callable[..., str] | None = None,
    retries: int = 2,
    message: Callable[[Any], str] | None = None,
) -> Callable[[Callable[P, R]], Task[P, R]]:
    """Return a decorator that makes a function a Prefect task.

    ``key_of`` takes its parameters and returns the key of its result; without it, or for None, nothing is cached.
    ``run_name``: what the task run is called, for the same; ``message``: what its state says, for what it returned.
    """

    def made(fn: Callable[P, R]) -> Task[P, R]:
        body = Body(fn, key_of, run_name, message)
        return Task(
            body,
            name=fn.__name__.replace("_", " "),
            task_run_name=body.title,  # type: ignore[arg-type]
            cache_policy=ByContent(body=body) if key_of else NO_CACHE,
            persist_result=key_of is not None,
            result_serializer="json" if key_of else None,
            retries=retries,
            retry_delay_seconds=list(RETRY_SECONDS[:retries]) or None,
            retry_condition_fn=worth_another_try,
        )

    return made


@contextlib.contextmanager
def refreshing(refresh: bool) -> Iterator[None]:
    """Compute again inside the block what the cache holds, or not."""
    token = REFRESHING.set(refresh)
    try:
        yield
    finally:
        REFRESHING.reset(token)


def is_refreshing() -> bool:
    """Return whether the task run under way is to compute again what the cache holds."""
    run = TaskRunContext.get()
    if run is None:
        return REFRESHING.get()
    refresh = run.task.refresh_cache
    return bool(PREFECT_TASKS_REFRESH_CACHE.value() if refresh is None else refresh)


def worth_another_try(task: Any, run: Any, state: Any) -> bool:
    """Return whether a step may succeed next time: not where the data, the model or the request are to blame."""
    error = state.result(raise_on_failure=False)
    # Ours says what went wrong; what caused it says whether that may pass.
    if isinstance(error, EvaluationError):
        error = error.__cause__
    return isinstance(error, Exception) and not isinstance(error, MISTAKES)


def flow_run_tags() -> dict[str, str]:
    """Return what a record says about the flow run that made it: its id, and its page where there is one."""
    run, ui = flow_run.get_id(), PREFECT_UI_URL.value()
    url = {"prefect.flow_run_url": f"{ui}/runs/flow-run/{run}"} if ui else {}
    return {"prefect.flow_run_id": run} | url if run else {}
