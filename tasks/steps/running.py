"""The running of a flow's steps, as Prefect tasks or plainly, and what Prefect hears of a run.

A pool whose worker dies takes every task in it along: what had not finished is run again in a new one. Whether a result
came from the cache is told. Without Prefect the same results are kept and found in the same place.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import BrokenExecutor, Future, ThreadPoolExecutor, as_completed as ended
from contextlib import contextmanager
from contextvars import ContextVar, copy_context
from dataclasses import dataclass
from functools import partial
from typing import Any, Generic, Literal, ParamSpec, TypeVar
from uuid import UUID

from evenfold.estimates import EvaluationError
from evenfold.tasks.runtime.home import Settings, redacted
from evenfold.tasks.runtime.limits import ALONE, task_runner
from evenfold.tasks.runtime.progress import log, shown_in_a_notebook
from evenfold.tasks.steps.step import REFRESHING, Body, refreshing
from prefect import Task
from prefect.artifacts import create_markdown_artifact, create_table_artifact
from prefect.context import FlowRunContext, TaskRunContext
from prefect.events import emit_event
from prefect.futures import as_completed
from prefect.task_runners import ProcessPoolTaskRunner, ThreadPoolTaskRunner

P = ParamSpec("P")
R = TypeVar("R")
EngineName = Literal["prefect", "plain"]
DIED_TWICE = (
    "2 worker processes died under it, as when memory runs out; set EVENFOLD_WORKERS lower or use larger machines, "
    "and run it again"
)

_ENGINE: ContextVar[EngineName] = ContextVar("evenfold_engine", default="prefect")


@contextmanager
def running(engine: EngineName, refresh: bool = False) -> Iterator[None]:
    """Run the steps inside the block with ``engine``; ``refresh`` computes again what the cache holds."""
    tokens = _ENGINE.set(engine), ALONE.set(engine == "plain")
    try:
        with refreshing(refresh), shown_in_a_notebook():
            yield
    finally:
        _ENGINE.reset(tokens[0])
        ALONE.reset(tokens[1])


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
    if flow is None or _ENGINE.get() == "plain":
        return Settings.here().n_workers
    pool = flow.task_runner
    return Settings.here().n_workers if isinstance(pool, (ThreadPoolTaskRunner, ProcessPoolTaskRunner)) else None


def run(step: Task[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
    """Return what a step returns; raises what it raises."""
    return finished(step, *args, **kwargs).value


def finished(step: Task[P, R], *args: P.args, **kwargs: P.kwargs) -> Finished[R]:
    """Return what a step came to."""
    if _ENGINE.get() == "plain":
        return finished_here(step, *args, **kwargs)
    submit: Any = _fresh(step)
    return _came_to(submit(*args, return_state=True, **kwargs))


def finished_each(
    step: Task[..., R], calls: Sequence[tuple[Any, ...]], **shared: Any
) -> Iterator[tuple[int, Finished[R]]]:
    """Yield the number of each call and what it came to, in the order in which they finish."""
    if _ENGINE.get() == "plain":
        yield from _in_threads(step, calls, shared)
        return
    fresh = _fresh(step)
    futures, lost = {}, []
    for number, args in enumerate(calls):
        try:
            futures[fresh.submit(*args, **shared)] = number
        except BrokenExecutor:  # a pool that broke under earlier calls takes no more
            lost.append(number)
    for number, done in _outcomes(futures):
        if isinstance(done.error, BrokenExecutor):
            lost.append(number)
        else:
            yield number, done
    if lost:
        log("a worker process died", again=len(lost))
        with task_runner() as runner:
            # By the new runner itself, which takes parameters by name: the task's own submit() goes to the broken pool.
            parameters = inspect.signature(step.fn)
            again = {runner.submit(fresh, parameters.bind(*calls[n], **shared).arguments): n for n in lost}
            for number, done in _outcomes(again):
                dead = isinstance(done.error, BrokenExecutor)
                yield number, Finished(error=EvaluationError(f"{step.name}: {DIED_TWICE}")) if dead else done


def _in_threads(
    step: Task[..., R], calls: Sequence[tuple[Any, ...]], shared: Mapping[str, Any]
) -> Iterator[tuple[int, Finished[R]]]:
    workers = min(Settings.here().n_workers, len(calls))
    if workers < 2:
        yield from ((number, finished_here(step, *args, **shared)) for number, args in enumerate(calls))
        return
    pool = ThreadPoolExecutor(workers)
    futures: dict[Future[Finished[R]], int] = {}
    try:
        for number, args in enumerate(calls):
            context = copy_context()
            context.run(ALONE.set, False)
            task = partial(finished_here, step, *args, **shared)
            futures[pool.submit(context.run, task)] = number
        yield from ((futures[future], future.result()) for future in ended(futures))
    finally:  # whoever stops waits for none
        pool.shutdown(wait=False, cancel_futures=True)


def _fresh(step: Task[P, R]) -> Task[P, R]:
    keeps = isinstance(step.fn, Body) and step.fn.key_of is not None
    return step.with_options(refresh_cache=True) if keeps and REFRESHING.get() else step


def _outcomes(futures: dict[Any, int]) -> Iterator[tuple[int, Finished[Any]]]:
    for future in as_completed(list(futures)):
        try:
            future.wait()
            yield futures[future], _came_to(future.state)
        except BrokenExecutor as error:
            yield futures[future], Finished(error=error)


def _came_to(state: Any) -> Finished[Any]:
    value = state.result(raise_on_failure=False)
    if isinstance(value, Exception):
        return Finished(error=value)
    return Finished(value, cached=state.name == "Cached")


def finished_here(step: Task[P, R], *args: P.args, **kwargs: P.kwargs) -> Finished[R]:
    """Return what a step came to without a task run of its own; its result is kept and found where a task's is."""
    assert isinstance(step.fn, Body)
    try:
        value, cached = step.fn.kept(args, kwargs, REFRESHING.get())
    except Exception as error:
        return Finished(error=error)
    return Finished(value, cached=cached)


def publish(name: str, content: str | list[dict[str, object]], description: str) -> None:
    """Show Markdown, or the rows of a table, as an artifact of the run under way, where there is one.

    ``name`` is the same from run to run, so that Prefect shows how a split or a score went on.
    """
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


Happening = Literal["split.extended", "audit.failed", "champion.promoted", "retrain.failed", "retrain.asked"]


def happened(what: Happening, split: str, words: str, id: UUID | None = None, **facts: Any) -> None:
    """Tell Prefect what has happened to a split, as the event ``evenfold.<what>`` that automations listen to.

    Only where a flow run is under way on a server; ``words`` says it in a sentence. ``id``: of what happens once,
    however many runs tell it; Prefect takes an event of each id once.
    """
    if under_prefect():
        tell_of(what, split, words, id, **facts)


def tell_of(what: Happening, split: str, words: str, id: UUID | None = None, **facts: Any) -> None:
    """Send the event ``evenfold.<what>`` that ``happened`` sends, also where the run has ended, as in its hooks."""
    about = {"prefect.resource.id": f"evenfold.split.{split}", "prefect.resource.name": split}
    emit_event(event=f"evenfold.{what}", resource=about, payload={"words": redacted(words), **facts}, id=id)
