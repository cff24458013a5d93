"""Prefect around plain steps: caching by our keys, locks that free themselves, names that read well."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import BrokenExecutor
from contextvars import ContextVar
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import prefect
from evenfold.estimates import EvaluationError, ModelError
from evenfold.splitters import SplitError
from evenfold.tasks.results.bucket import bucket_of
from prefect import flow, get_run_logger, task
from prefect.artifacts import create_markdown_artifact
from prefect.cache_policies import NO_CACHE, CachePolicy
from prefect.context import FlowRunContext, TaskRunContext
from prefect.exceptions import MissingContextError
from prefect.futures import as_completed
from prefect.settings import PREFECT_API_URL, PREFECT_FLOWS_HEARTBEAT_FREQUENCY, PREFECT_UI_URL, temporary_settings
from prefect.states import Completed, Failed
from prefect.transactions import IsolationLevel

from .engine import Call, Done, performed
from .home import Home, default_workers
from .locks import FileLocks, locked
from .orphans import guard

FETCHED = "fetched"


class Step:
    """A plain step as the function of a Prefect task: importable, so that processes on any machine can run it.

    Its name keeps two steps from sharing one task key. Where results lie travels along.
    """

    def __init__(self, step: Callable[..., Any], home: Home) -> None:
        self.step = step
        self.home = home
        self.settings = {name: os.environ[name] for name in ("EVENFOLD_HOME", "EVENFOLD_RESULTS") if name in os.environ}
        self.__name__ = self.__qualname__ = step.__name__
        self.__module__ = step.__module__
        self.__doc__ = step.__doc__

    def __call__(
        self,
        key: str | None,
        arguments: dict[str, Any],
        look: bool = True,
        limit: float | None = None,
        called: str = "",
    ) -> Any:
        """Return what the step returns, or what the shared bucket keeps of it where ``look`` allows that."""
        for name, value in self.settings.items():
            os.environ.setdefault(name, value)
        started = time.monotonic()
        bucket = bucket_of(self.home) if key else None
        known = bucket.result(key) if bucket and key and look else None
        value = performed(self.step, arguments, limit, called) if known is None else known | {FETCHED: True}
        if bucket and key and known is None:
            bucket.keep(key, value)
        seconds = round(time.monotonic() - started, 3)
        log(self.__name__, **_facts(arguments), seconds=seconds, fetched=known is not None, **_peak(value))
        return value


def _facts(arguments: dict[str, Any]) -> dict[str, Any]:
    """Return what names a step in the log: the split, and the fold or the draws."""
    split = arguments.get("split")
    facts = {"split_id": split["split_id"]} if isinstance(split, dict) else {}
    named = {"i": "fold", "first": "first", "last": "last"}
    return facts | {name: arguments[key] for key, name in named.items() if key in arguments}


def _peak(value: Any) -> dict[str, Any]:
    known = isinstance(value, dict) and "peak_memory_mb" in value
    return {"peak_memory_mb": value["peak_memory_mb"]} if known else {}


def log(message: str, **facts: Any) -> None:
    """Write a line of ``message name=value ...`` to the log of the run under way, where there is one."""
    told = " ".join(f"{name}={value}" for name, value in facts.items())
    with contextlib.suppress(MissingContextError):
        get_run_logger().info(f"{message} {told}".strip())


def worth_another_try(task: Any, run: Any, state: Any) -> bool:
    """Return whether a step may succeed next time: not where the data, the model or the request are to blame."""
    error = state.result(raise_on_failure=False)
    if isinstance(error, EvaluationError):
        error = error.__cause__
    return isinstance(error, Exception) and not isinstance(error, (SplitError, ModelError, ValueError, TypeError))


RUNNERS = ("threads", "processes", "dask", "ray")


def runner_name() -> str:
    """Return the setting ``EVENFOLD_RUNNER``, threads unless it says otherwise; SplitError for an unknown one."""
    name = os.environ.get("EVENFOLD_RUNNER") or "threads"
    if name not in RUNNERS:
        raise SplitError(f"EVENFOLD_RUNNER is {name!r}; choose {', '.join(RUNNERS[:-1])} or {RUNNERS[-1]}.")
    return name


def task_runner() -> Any:
    """Return the Prefect task runner that the setting asks for.

    Threads and processes run ``EVENFOLD_WORKERS`` tasks at once. ``EVENFOLD_RUNNER_ADDRESS`` names a running Dask
    scheduler (tcp://host:8786) or Ray cluster (ray://host:10001); without it both start one of their own for the
    flow. Workers on other machines need evenfold installed and ``EVENFOLD_HOME`` or ``EVENFOLD_RESULTS`` on a path
    that all of them see.
    """
    return _MADE[runner_name()](default_workers())


def _threads(workers: int) -> Any:
    from prefect.task_runners import ThreadPoolTaskRunner

    return ThreadPoolTaskRunner(max_workers=workers)


def _processes(workers: int) -> Any:
    from prefect.task_runners import ProcessPoolTaskRunner

    return ProcessPoolTaskRunner(max_workers=workers)


def _dask(workers: int) -> Any:
    try:
        from prefect_dask import DaskTaskRunner
    except ModuleNotFoundError as error:
        raise _extra_missing("dask", error) from None
    made: Any = DaskTaskRunner
    address = os.environ.get("EVENFOLD_RUNNER_ADDRESS")
    alone = {"n_workers": workers, "threads_per_worker": 1, "dashboard_address": None}
    return made(address=address) if address else made(cluster_kwargs=alone)


def _ray(workers: int) -> Any:
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    try:
        from prefect_ray import RayTaskRunner
    except ModuleNotFoundError as error:
        raise _extra_missing("ray", error) from None
    made: Any = RayTaskRunner
    address = os.environ.get("EVENFOLD_RUNNER_ADDRESS")
    return made(address=address) if address else made(init_kwargs={"num_cpus": workers, "include_dashboard": False})


_MADE = {"threads": _threads, "processes": _processes, "dask": _dask, "ray": _ray}


def _extra_missing(name: str, error: ModuleNotFoundError) -> SplitError:
    return SplitError(f"EVENFOLD_RUNNER is {name!r} and {error.name} is not installed; pip install 'evenfold[{name}]'.")


RETRY_SECONDS = (2, 8, 30)
DIED_TWICE = (
    "2 worker processes died under it, as when memory runs out; set EVENFOLD_WORKERS lower or use larger machines, "
    "and run it again"
)


@dataclass
class ByKey(CachePolicy):
    """Results by the key that a call carries: content, specification and versions, never arguments or source text.

    A key is held by one task at a time, so two flows that want the same result compute it once.
    """

    def compute_key(
        self, task_ctx: TaskRunContext, inputs: dict[str, Any], flow_parameters: dict[str, Any], **kwargs: Any
    ) -> str | None:
        """Return the call's own key."""
        return str(inputs["key"])


class PrefectEngine:
    """Runs each call as a Prefect task of the flow run that is under way."""

    name = "prefect"

    def __init__(self, home: Home, refresh: bool = False) -> None:
        guard()
        self.home = home
        self.refresh = refresh
        self.threads = max(1, (os.cpu_count() or 1) // default_workers())

    def run(self, call: Call) -> Done:
        """Return the outcome of one call, made in the flow's own thread; raises what it raises."""
        done = self._told(call, self._made(call)(**self._given(call), return_state=True))
        if done.cached and not call.intact(done.value):
            done = self._told(call, self._made(call, refresh=True)(**self._given(call), return_state=True))
        if done.error:
            raise done.error
        return done

    def map(self, calls: Sequence[Call]) -> Iterator[Done]:
        """Yield the outcome of each call, in the order in which they finish.

        A process that dies takes its whole pool along: what had not finished is run again, once, in a new pool.
        """
        lost: list[Call] = []
        for done in self._outcomes({self._submit(call): call for call in calls}):
            if isinstance(done.error, BrokenExecutor):
                lost.append(done.call)
            else:
                yield done
        if lost:
            log("a worker process died", again=len(lost))
            yield from self._in_another_pool(lost)

    def _in_another_pool(self, calls: Sequence[Call]) -> Iterator[Done]:
        with task_runner() as runner:
            made = {runner.submit(self._made(each), self._given(each)): each for each in calls}
            for done in self._outcomes(made):
                if isinstance(done.error, BrokenExecutor):
                    yield Done(done.call, error=EvaluationError(f"{done.call.name}: {DIED_TWICE}"))
                else:
                    yield done

    def _outcomes(self, futures: dict[Any, Call]) -> Iterator[Done]:
        for future in as_completed(list(futures)):
            try:
                yield self._outcome(futures[future], future)
            except BrokenExecutor as error:
                yield Done(futures[future], error=error)

    def tags(self) -> dict[str, str]:
        """Return the flow run's id, and its page where there is a user interface."""
        context = FlowRunContext.get()
        if context is None or context.flow_run is None:
            return {}
        run, ui = str(context.flow_run.id), PREFECT_UI_URL.value()
        return {"prefect.flow_run_id": run} | ({"prefect.flow_run_url": f"{ui}/runs/flow-run/{run}"} if ui else {})

    def note(self, key: str, markdown: str) -> None:
        """Show Markdown as an artifact of the flow run; ``key`` names it from run to run."""
        create_markdown_artifact(markdown, key="".join(c if c.isalnum() else "-" for c in key.lower()).strip("-"))

    def _made(self, call: Call, refresh: bool = False) -> Any:
        options: dict[str, Any] = {"task_run_name": call.name}
        if call.key is not None and (refresh or self.refresh):
            options["refresh_cache"] = True
        made = _task(call.step, call.key is not None, self.home, self.home.shared, call.retries)
        return made.with_options(**options)

    def _given(self, call: Call) -> dict[str, Any]:
        more = {"limit": call.limit, "called": call.name} if call.limit else {}
        return {"key": call.key, "arguments": call.arguments, "look": not self.refresh, **more}

    def _submit(self, call: Call, refresh: bool = False) -> Any:
        return self._made(call, refresh).submit(**self._given(call))

    def _outcome(self, call: Call, future: Any) -> Done:
        future.wait()
        done = self._told(call, future.state)
        if future.state.name == "Cached" and not call.intact(done.value):
            return self._outcome(call, self._submit(call, refresh=True))
        return done

    def _told(self, call: Call, state: Any) -> Done:
        value = state.result(raise_on_failure=False)
        if isinstance(value, Exception):
            return Done(call, error=value)
        fetched = isinstance(value, dict) and value.pop(FETCHED, False)
        return Done(call, value=value, cached=fetched or state.name == "Cached")


@cache
def _task(step: Callable[..., Any], keyed: bool, home: Home, shared: Path, retries: int) -> Any:
    """Return the Prefect task of a step; ``shared`` is where results lie now, which a setting may change."""
    locks = FileLocks(home.locks)
    policy = ByKey(isolation_level=IsolationLevel.SERIALIZABLE, lock_manager=locks) if keyed else NO_CACHE
    decorate: Any = task  # its overloads do not know a function beside options
    return decorate(
        Step(step, home),
        name=step.__name__.replace("_", " "),
        cache_policy=policy,
        persist_result=keyed,
        result_serializer="json" if keyed else None,
        result_storage=home.results if keyed else None,
        retries=retries,
        retry_delay_seconds=list(RETRY_SECONDS[:retries]) or None,
        retry_condition_fn=worth_another_try,
    )


@dataclass
class _UnderWay:
    """A body on its way into a flow and out of it; the flow's function must not hold it, for workers load that."""

    body: Callable[[PrefectEngine], Any]
    home: Home
    name: str
    raised: list[Exception] = field(default_factory=list)
    returned: list[Any] = field(default_factory=list)


_UNDER_WAY: ContextVar[_UnderWay] = ContextVar("evenfold_under_way")


def run_as_flow(body: Callable[[PrefectEngine], Any], home: Home, name: str, subject: str, request: Any) -> Any:
    """Return what ``body`` returns, run as a Prefect flow; raises what it raises.

    An error makes the flow run Failed with its sentence, and is raised here without Prefect's traceback.
    """
    guard()  # before the embedded server starts
    _start_server(home)
    under_way = _UnderWay(body, home, name)
    decorate: Any = flow
    made = decorate(
        _run, name=name, flow_run_name=f"{name} {subject}", task_runner=task_runner(), validate_parameters=False
    )
    token = _UNDER_WAY.set(under_way)
    try:
        _start_server(home)
        with _quiet_exit():
            state = made(request=request.model_dump(mode="json"), return_state=True)
    finally:
        _UNDER_WAY.reset(token)
    if under_way.raised:
        raise under_way.raised[0]
    if not under_way.returned:
        raise EvaluationError(f"Prefect ended the flow as {state.name} ({state.message}); run it again.")
    return under_way.returned[0]


def _run(request: dict[str, Any]) -> Any:
    under_way = _UNDER_WAY.get()
    try:
        engine = PrefectEngine(under_way.home, refresh=bool(request.get("refresh")))
        under_way.returned.append(under_way.body(engine))
    except Exception as error:
        under_way.raised.append(error)
        return Failed(message=str(error))
    return Completed(message="evaluated" if under_way.name == "evaluate" else "done")


def _start_server(home: Home) -> None:
    """Start the embedded server, where there is no other; in a new home one after the other: its migrations race."""
    if PREFECT_API_URL.value():
        return
    from prefect.server.api.server import SubprocessASGIServer

    ready = home.locks / f"prefect-{prefect.__version__}"
    with contextlib.nullcontext() if ready.exists() else locked(home.locks, "prefect server"):
        SubprocessASGIServer().start()
        ready.parent.mkdir(parents=True, exist_ok=True)
        ready.touch()


@contextlib.contextmanager
def _quiet_exit() -> Iterator[None]:
    # The heartbeat thread holds every flow's end up for about a second, and only a real server looks at it.
    if PREFECT_API_URL.value() or os.environ.get("PREFECT_FLOWS_HEARTBEAT_FREQUENCY"):
        yield
    else:
        with temporary_settings({PREFECT_FLOWS_HEARTBEAT_FREQUENCY: None}):
            yield
