"""Steps: plain Prefect tasks around functions whose results are kept by content, run by Prefect or without it."""

from __future__ import annotations

import hashlib
import inspect
import os
import re
import sys
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import BrokenExecutor, Future, ThreadPoolExecutor, as_completed as ended
from contextlib import contextmanager, suppress
from contextvars import ContextVar, copy_context
from dataclasses import dataclass
from functools import partial, update_wrapper
from types import ModuleType
from typing import Any, Generic, ParamSpec, TypeVar
from uuid import UUID, uuid4

from evenfold.splitters.errors import EvaluationError, EvenfoldError, is_deployed, redacted
from evenfold.tasks.runtime.home import Settings, environment
from evenfold.tasks.runtime.limits import ALONE, task_runner
from evenfold.tasks.runtime.progress import log, setting, shown_in_a_notebook
from evenfold.tasks.store import kept, ready
from prefect import Task
from prefect.artifacts import create_markdown_artifact, create_table_artifact
from prefect.cache_policies import NO_CACHE, CachePolicy
from prefect.context import FlowRunContext, TaskRunContext
from prefect.events import emit_event
from prefect.futures import as_completed
from prefect.runtime import flow_run
from prefect.settings import PREFECT_TASKS_REFRESH_CACHE, PREFECT_UI_URL
from prefect.task_runners import ProcessPoolTaskRunner, ThreadPoolTaskRunner

from .outcomes import Outcome

REFRESHING: ContextVar[bool] = ContextVar("evenfold_refreshing", default=False)  # where no task run of ours says it
P = ParamSpec("P")
R = TypeVar("R")


class StepBody(Generic[P, R]):
    """The function of a step, with what names its runs and its results.

    In a task run its result is looked for and kept in the content store, unless an option of the user's own says when
    or where Prefect keeps it. Called by hand it computes.
    """

    __name__: str

    def __init__(
        self, fn: Callable[P, R], key_of: Callable[..., str | None] | None, run_name: Callable[..., str] | None
    ) -> None:
        self.fn, self.key_of, self.run_name = fn, key_of, run_name
        update_wrapper(self, fn)

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        """Return what the function returns for these arguments."""
        run = TaskRunContext.get()
        if run is None or run.task.fn is not self or not _in_store(run.task):
            return self.fn(*args, **kwargs)
        # Whoever waited for another's computation has its result; a state would be all that a plain call returns.
        return self.kept(args, kwargs)[0]

    def kept(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> tuple[R, bool]:
        """Return what is kept of the function for these arguments, or compute and keep it; and whether it was kept."""
        key = self.key_of(*args, **kwargs) if self.key_of else None
        make = partial(self.fn, *args, **kwargs)
        return (make(), False) if key is None else kept(key, make, is_refreshing())

    def title(self, parameters: dict[str, Any]) -> str:
        """Return the name of a task run: the task's own where what it takes is not known yet, or bad."""
        with suppress(Exception):  # the run itself says what is wrong
            if self.run_name is not None:
                return self.run_name(**parameters)
        return self.__name__.replace("_", " ")

    def __reduce__(self) -> Any:
        # A worker process has the function already, under the name of its task; what it lacks are the settings.
        settings = environment("EVENFOLD_") | ({"EVENFOLD_CLOSED": "1"} if is_deployed() else {})
        return _arrived, (sys.modules[self.fn.__module__], self.fn.__name__, settings)


def _arrived(room: ModuleType, name: str, settings: dict[str, str]) -> StepBody[Any, Any]:
    for variable, value in settings.items():
        # Not over what the worker's own machine says, as of its folders.
        os.environ.setdefault(variable, value)
    body: StepBody[Any, Any] = getattr(room, name).fn
    return body


class ByContent(CachePolicy):
    """A result's key is made of what it depends on: content, specification and versions, in whatever flow.

    What is whole in the content store is a hit of Prefect's. Where ``result_storage`` or ``cache_expiration`` of the
    user's is set, Prefect's own is asked alone, and made again where a file that it names is damaged; of
    ``persist_result=False`` Prefect makes ``NO_CACHE``. On a task that is no step of evenfold's nothing is kept.
    """

    def compute_key(
        self, task_ctx: TaskRunContext, inputs: dict[str, Any], flow_parameters: dict[str, Any], **kwargs: Any
    ) -> str | None:
        """Return the key of these inputs; None where none is to be kept, or they are bad: the task then says why.

        On a hit it is that of what is kept, which ``StepBody`` would find as well; on a miss one that nothing has yet,
        for Prefect to persist what the task computes.
        """
        key, body = None, task_ctx.task.fn
        if not isinstance(body, StepBody):  # which Prefect logs
            raise TypeError(f"ByContent finds no key for {task_ctx.task.name}; give it a policy such as INPUTS.")
        with suppress(EvenfoldError):
            if body.key_of:
                key = body.key_of(**inputs)
        if key is None:
            return None
        place = task_ctx.result_store
        if not _in_store(task_ctx.task):
            while place.exists(key) and isinstance(value := place.read(key).result, Outcome) and not value.intact():
                key += "+"  # a file that Prefect keeps is not ours to replace
        elif is_refreshing() or (held := ready(key)) is None:
            key += f"-{uuid4().hex[:16]}"
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
    key_of: Callable[..., str | None] | None = None, run_name: Callable[..., str] | None = None, retries: int = 2
) -> Callable[[Callable[P, R]], Task[P, R]]:
    """Return a decorator that makes a function a Prefect task.

    ``key_of``, of its parameters: the key of its result, or None: nothing is cached. ``run_name``: of a task run.
    """

    def made(fn: Callable[P, R]) -> Task[P, R]:
        body = StepBody(fn, key_of, run_name)
        return Task(
            body,
            name=fn.__name__.replace("_", " "),
            task_run_name=body.title,  # type: ignore[arg-type]
            cache_policy=ByContent() if key_of else NO_CACHE,
            persist_result=True if key_of else None,  # for a policy of the user's own, as Prefect has it
            result_serializer="json" if key_of else None,
            retries=retries,
            retry_delay_seconds=[2.0, 8.0, 30.0][:retries] or None,
            retry_condition_fn=worth_another_try,
        )

    return made


def is_refreshing() -> bool:
    """Return whether the task run under way is to compute again what the cache holds."""
    run = TaskRunContext.get()
    if run is None or not isinstance(run.task.fn, StepBody):  # of a task of the user's, which runs ours plainly
        return REFRESHING.get()
    refresh = run.task.refresh_cache
    return bool(PREFECT_TASKS_REFRESH_CACHE.value() if refresh is None else refresh)


def worth_another_try(task: Any, run: Any, state: Any) -> bool:
    """Return whether a step may succeed next time: not where the data, the model or the request are to blame."""
    error = state.result(raise_on_failure=False)
    # Ours says what went wrong; what caused it says whether that may pass.
    if isinstance(error, EvaluationError):
        error = error.__cause__
    return isinstance(error, Exception) and not isinstance(error, (ValueError, TypeError, LookupError, AttributeError))


def flow_run_tags() -> dict[str, str]:
    """Return what a record says about the flow run that made it: its id, and its page where there is one."""
    run, ui = flow_run.get_id(), PREFECT_UI_URL.value()
    url = {"prefect.flow_run_url": f"{ui}/runs/flow-run/{run}"} if ui else {}
    return {"prefect.flow_run_id": run} | url if run else {}


_ENGINE: ContextVar[str] = ContextVar("evenfold_engine", default="prefect")


@contextmanager
def running(engine: str, refresh: bool = False) -> Iterator[None]:
    """Run the steps inside the block with ``engine``; ``refresh`` computes again what the cache holds."""
    alone = engine == "plain"
    with setting(_ENGINE, engine), setting(ALONE, alone), setting(REFRESHING, refresh), shown_in_a_notebook():
        yield


def under_prefect() -> bool:
    """Return whether a flow or task run of Prefect's is under way, and steps are run by it."""
    running = FlowRunContext.get() is not None or TaskRunContext.get() is not None
    return running and _ENGINE.get() == "prefect"


@dataclass(frozen=True)
class Finished(Generic[R]):
    """The result of a step: its value or its error, and whether it came from the cache."""

    returned: R | None = None
    error: Exception | None = None
    cached: bool = False

    @property
    def value(self) -> R:
        """Return the step's value; raise what the step raised."""
        if self.error is not None:
            raise self.error
        return self.returned  # type: ignore[return-value]


def workers_at_once() -> int | None:
    """Return how many steps run at once; None on a cluster, whose size is not known here."""
    flow = FlowRunContext.get()
    here = flow is None or isinstance(flow.task_runner, (ThreadPoolTaskRunner, ProcessPoolTaskRunner))
    return Settings.here().n_workers if here or _ENGINE.get() == "plain" else None


def run(task: Task[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
    """Return what a step returns; raises what it raises."""
    return finished(task, *args, **kwargs).value


def finished(task: Task[P, R], *args: P.args, **kwargs: P.kwargs) -> Finished[R]:
    """Return what a step came to in this very process: a worker elsewhere knows of no tracking server."""
    if _ENGINE.get() == "plain":
        return finished_here(task, *args, **kwargs)
    here: Any = _fresh(task)
    return _came_to(here(*args, return_state=True, **kwargs))


def finished_each(
    task: Task[..., R], calls: Sequence[tuple[Any, ...]], **shared: Any
) -> Iterator[tuple[int, Finished[R]]]:
    """Yield the number of each call and what it came to, in the order in which they finish."""
    if _ENGINE.get() == "plain":
        yield from _in_threads(partial(finished_here, task, **shared), calls)
        return
    fresh = _fresh(task)
    lost = yield from _submitted(lambda args: fresh.submit(*args, **shared), dict(enumerate(calls)))
    if lost:
        log("a worker process died", again=len(lost))
        with task_runner() as runner:
            # By the new runner itself, which takes parameters by name: the task's own submit() goes to the broken pool.
            bind = inspect.signature(task.fn).bind
            lost = yield from _submitted(lambda args: runner.submit(fresh, bind(*args, **shared).arguments), lost)
        error = EvaluationError(
            f"{task.name}: 2 worker processes died under it, as when memory runs out; set EVENFOLD_WORKERS lower or "
            "use larger machines, and run it again"
        )
        yield from ((number, Finished(error=error)) for number in lost)


def _fresh(task: Task[P, R]) -> Task[P, R]:
    return task.with_options(refresh_cache=True) if REFRESHING.get() else task


def _came_to(state: Any) -> Finished[Any]:
    value = state.result(raise_on_failure=False)
    return Finished(error=value) if isinstance(value, Exception) else Finished(value, cached=state.name == "Cached")


def _submitted(
    submit: Callable[[tuple[Any, ...]], Any], calls: dict[int, tuple[Any, ...]]
) -> Generator[tuple[int, Finished[Any]], None, dict[int, tuple[Any, ...]]]:
    """Yield what each call came to, but for those whose pool broke under them, which are returned."""
    futures: dict[Any, int] = {}
    with suppress(BrokenExecutor):  # a pool that broke under earlier calls takes no more
        for number, args in calls.items():
            futures[submit(args)] = number
    lost = dict(calls)
    for future in as_completed(list(futures)):
        with suppress(BrokenExecutor):
            future.wait()
            done = _came_to(future.state)
            if not isinstance(done.error, BrokenExecutor):
                del lost[futures[future]]
                yield futures[future], done
    return lost


def _in_threads(
    call: Callable[..., Finished[R]], calls: Sequence[tuple[Any, ...]]
) -> Iterator[tuple[int, Finished[R]]]:
    workers = min(Settings.here().n_workers, len(calls))
    if workers < 2:
        yield from ((number, call(*args)) for number, args in enumerate(calls))
        return
    pool = ThreadPoolExecutor(workers)
    futures: dict[Future[Finished[R]], int] = {}
    try:
        for number, args in enumerate(calls):
            context = copy_context()
            context.run(ALONE.set, False)
            futures[pool.submit(context.run, call, *args)] = number
        yield from ((futures[future], future.result()) for future in ended(futures))
    finally:  # whoever stops waits for none
        pool.shutdown(wait=False, cancel_futures=True)


def finished_here(task: Task[P, R], *args: P.args, **kwargs: P.kwargs) -> Finished[R]:
    """Return what a step came to without a task run of its own; its result is kept and found where a task's is."""
    assert isinstance(task.fn, StepBody)
    try:
        value, cached = task.fn.kept(args, kwargs)
        return Finished(value, cached=cached)
    except Exception as error:
        return Finished(error=error)


def publish(name: str, content: str | list[dict[str, object]], description: str) -> None:
    """Show Markdown, or rows of a table, as an artifact of the run under way; ``name`` stays from run to run."""
    if not under_prefect():
        return
    key = re.sub(r"[^a-z0-9]+", "-", f"evenfold-{name}".lower()).strip("-")
    if isinstance(content, str):
        create_markdown_artifact(content, key=key, description=description)
    elif content:
        create_table_artifact(content, key=key, description=description)


def tell(sentences: Iterable[str]) -> None:
    """Write sentences to the log of the run under way, where there is one: what the terminal says, too."""
    if under_prefect():
        for sentence in sentences:
            log(sentence)


def happened(what: str, split: str, words: str, id: UUID | None = None, **facts: Any) -> None:
    """Tell Prefect what has happened to a split in a flow run, as the event ``evenfold.<what>``, for automations.

    ``words`` says it in a sentence. ``id``: of what happens once, whoever tells it.
    """
    if what == "retrain.failed" or under_prefect():  # a hook tells of it, after the run
        about = {"prefect.resource.id": f"evenfold.split.{split}", "prefect.resource.name": split}
        emit_event(event=f"evenfold.{what}", resource=about, payload={"words": redacted(words), **facts}, id=id)
