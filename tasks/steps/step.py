"""A Prefect task whose results are named by content: computed once, locked, checked before they are trusted."""

from __future__ import annotations

import contextlib
import inspect
import os
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager
from contextvars import ContextVar
from dataclasses import dataclass
from functools import wraps
from pathlib import Path
from types import ModuleType, NoneType
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar, get_args

import prefect.results
from evenfold.estimates import EvaluationError
from evenfold.splitters import EvenfoldError
from evenfold.tasks.outcomes import Outcome
from evenfold.tasks.results.store import results_of
from evenfold.tasks.results.trusted import ResultFolder, check_record
from evenfold.tasks.runtime.files import Named, naming_once, needed, write_aside
from evenfold.tasks.runtime.home import Home
from evenfold.tasks.runtime.locks import FileLocks, none_left_locked
from evenfold.tasks.runtime.progress import log
from evenfold.tasks.runtime.settings import travelling
from evenfold.tasks.runtime.stopping import at_work_on, halt_where_stopping
from prefect import Task, tags, unmapped
from prefect.cache_policies import NO_CACHE, CachePolicy
from prefect.client.schemas.objects import State
from prefect.context import FlowRunContext, TaskRunContext
from prefect.serializers import JSONSerializer
from prefect.settings import PREFECT_UI_URL
from prefect.tasks import TaskRunNameCallbackWithParameters
from prefect.transactions import IsolationLevel, Transaction, get_transaction

REFRESHING: ContextVar[bool] = ContextVar("evenfold_refreshing", default=False)  # where no task run says it
P = ParamSpec("P")
R = TypeVar("R")
RETRY_SECONDS = (2, 8, 30)
MISTAKES = (ValueError, TypeError, LookupError, AttributeError)  # the same however often they are tried
UNDER_KEY: ContextVar[str | None] = ContextVar("evenfold_under_key", default=None)  # where no task run says it


@dataclass
class ByContent(CachePolicy):
    """A result's key is made of what it depends on: content, specification and versions, in whatever file or flow.

    A key is held by one task at a time, so two flows that want the same result compute it once. What is kept under
    a key is checked first, and computed anew where it is damaged or gone.
    """

    key_of: Callable[..., str | None] | None = None

    def compute_key(
        self, task_ctx: TaskRunContext, inputs: dict[str, Any], flow_parameters: dict[str, Any], **kwargs: Any
    ) -> str | None:
        """Return the key of these inputs; None, which is never kept, where they are bad: the task then says why."""
        assert self.key_of is not None
        with naming_once(leave=True):  # to the run itself
            try:
                key = self.key_of(**inputs)
            except EvenfoldError:
                return None
            if key is not None and _is_kept(task_ctx, key):
                needed(*inputs.values())  # the run may end with it
            return key


def _chosen(task: Task[..., Any]) -> Any:
    """Return the storage that a user chose for the results of a task, where one did."""
    return vars(task).get("_chosen_storage")


def _is_kept(task_ctx: TaskRunContext, key: str) -> bool:
    """Return whether a sound result is kept under ``key``, wherever the task keeps its own; drop a damaged one.

    A user's own storage is emptied there where a file that the result names is damaged or gone: it is then no result to
    Prefect, which computes it again; what Prefect cannot read is none to it anyway.
    """
    if _chosen(task_ctx.task) is None:
        return ready(key) is not None
    ask: Any = prefect.results.call_explicitly_sync_block_method  # type: ignore[attr-defined]
    storage = task_ctx.result_store.result_storage
    try:
        record: Any = prefect.results.ResultRecord.deserialize(ask(storage, "read_path", (key,), {}))  # type: ignore[attr-defined]
    except Exception:
        return False
    if isinstance(record.result, Outcome) and not record.result.intact():
        ask(storage, "write_path", (key, b""), {})
        return False
    return True


def ready(key: str) -> Outcome | None:
    """Return what is kept under ``key``, here or in the shared bucket; None where it is damaged, which is dropped."""
    home = Home.here()
    path = home.results / key
    value = _read(path)
    # What is ours, put under the key of something else by somebody else, is damaged too.
    if value is None or not value.intact() or getattr(value, "key", None) not in (None, key.partition("/")[2]):
        # Prefect looks for this very file next, and would take it for a hit.
        path.unlink(missing_ok=True)
        value = results_of(home).result(key)
        if value is not None:
            keep(key, value)
    return value


def _read(path: Path) -> Outcome | None:
    try:
        content = path.read_bytes()
        check_record(content)
        record: Any = prefect.results.ResultRecord.deserialize(content)  # type: ignore[attr-defined]
        value = record.result
    except Exception:  # half-written, of another version, or not there: computed again
        return None
    return value if isinstance(value, Outcome) else None


def keep(key: str, value: Outcome) -> None:
    """Keep a result here under its key, as Prefect's tasks do."""
    path = Home.here().results / key
    # A store of Prefect's would write the same after it had looked up four times what links the folders are.
    about: Any = {"serializer": JSONSerializer(), "storage_key": str(path.resolve())}
    record: Any = prefect.results.ResultRecord(result=value, metadata=about)  # type: ignore[attr-defined]
    write_aside(path, lambda aside: aside.write_bytes(record.serialize()))


class Step(Task[P, R]):
    """A task of evenfold's: a ``prefect.Task`` that keeps its results below the home that is in force when it runs.

    ``key_of`` takes the task's parameters and returns the key of its result; without it, or where it returns None,
    nothing is ever cached.
    ``run_name`` and ``run_tags`` take the same and return what the task run is called and found by.
    """

    def __init__(
        self,
        fn: Callable[P, R],
        key_of: Callable[..., str | None] | None = None,
        run_name: Callable[..., str] | None = None,
        run_tags: Callable[..., list[str]] | None = None,
        retries: int = 2,
    ) -> None:
        self.key_of, self.run_tags = key_of, run_tags
        name = fn.__name__.replace("_", " ")
        super().__init__(
            fn=_kept(fn),
            name=name,
            task_run_name=_Named(name, run_name),
            cache_policy=ByContent(isolation_level=IsolationLevel.SERIALIZABLE, lock_manager=FileLocks(), key_of=key_of)
            if key_of
            else NO_CACHE,
            persist_result=key_of is not None,
            result_serializer="json" if key_of else None,
            retries=retries,
            retry_delay_seconds=list(RETRY_SECONDS[:retries]) or None,
            retry_condition_fn=worth_another_try,
        )

    # Prefect keeps one storage for the life of a task; here a setting decides at each run, unless a user chose one.
    @property
    def result_storage(self) -> Any:
        """Where results lie: the home's folder."""
        chosen = _chosen(self)
        if chosen is not None or self.key_of is None:
            return chosen
        return ResultFolder(basepath=str(Home.here().results))

    @result_storage.setter
    def result_storage(self, chosen: Any) -> None:
        vars(self)["_chosen_storage"] = chosen

    def with_options(self, *args: Any, **options: Any) -> Step[P, R]:
        """Return the task with other options; see ``prefect.Task.with_options``."""
        # Prefect takes a folder by its path alone, and ours is asked for anew at each run.
        ours = self.key_of is not None and _chosen(self) is None
        place = {"result_storage": Home.here().results} if ours else {}
        made = super().with_options(*args, **{**place, **options})
        # Prefect returns a plain Task; it becomes a step past __init__, which would wrap the function a second time.
        state = vars(made) | {"key_of": self.key_of, "run_tags": self.run_tags}
        state["_chosen_storage"] = options.get("result_storage", _chosen(self))
        state.pop("result_storage", None)
        return _restored(type(self), state)

    def _tagged(self, args: tuple[object, ...], kwargs: Mapping[str, object]) -> AbstractContextManager[Any]:
        """Return a context in which the task runs have the tags that say what they are about."""
        if self.run_tags is None:
            return contextlib.nullcontext()
        named = [arg.value if isinstance(arg, unmapped) else arg for arg in args]
        given = {name: arg.value if isinstance(arg, unmapped) else arg for name, arg in kwargs.items()}
        try:
            return tags(*self.run_tags(*named, **given))
        except Exception:  # a future that is not there yet, or bad input, of which the task itself says what is wrong
            return contextlib.nullcontext()

    @contextlib.contextmanager
    def _run_as(self, args: tuple[object, ...], kwargs: Mapping[str, object]) -> Iterator[Named]:
        """Let task runs begin inside the block: with their tags, and in no transaction but their own.

        Somebody's task or transaction around ours would write our result, and free its lock, only when it ends itself:
        the same step inside it, or another in the other order, would wait for ever. What is named by its content is
        right whatever becomes of that one; where it is to be undone by a hook, it stays part of it.
        """
        token = Transaction.__var__.set(None) if self._is_alone() else None  # type: ignore[arg-type]
        try:
            with naming_once() as named, self._tagged(args, _without(kwargs)):
                yield named
        finally:
            if token is not None:
                Transaction.__var__.reset(token)

    def _is_alone(self) -> bool:
        return isinstance(self.cache_policy, ByContent) and not self.on_rollback_hooks

    if not TYPE_CHECKING:  # their types are those of Prefect's own, which know the parameters

        def __call__(self, *args: Any, **kwargs: Any) -> Any:
            """Run the task; see ``prefect.Task.__call__``.

            Raises EvaluationError where a task that it waits for has failed: Prefect answers None there.
            """
            halt_where_stopping()
            # Its time may be over while its transaction opens; what is part of another's is released with that one.
            with self._run_as(args, kwargs), none_left_locked() if self._is_alone() else contextlib.nullcontext():
                answer = super().__call__(*args, **kwargs)
                if answer is None and not _may_be_none(self.fn):
                    raise EvaluationError(
                        f"`{self.fn.__name__}` did not run: a task that it waits for has failed; see its state."
                    )
                return answer

        def submit(self, *args: Any, **kwargs: Any) -> Any:
            """Submit the task; see ``prefect.Task.submit``."""
            halt_where_stopping()
            with self._run_as(args, kwargs) as named:
                answer = super().submit(*args, **kwargs)
                named.end_after([] if isinstance(answer, State) else [answer])
                return answer

        def map(self, *args: Any, **kwargs: Any) -> Any:
            """Map the task; see ``prefect.Task.map``."""
            with self._run_as(args, kwargs) as named:
                answer = super().map(*args, **kwargs)
                named.end_after(
                    [] if kwargs.get("deferred") else [each for each in answer if not isinstance(each, State)]
                )
                return answer

    def __reduce__(self) -> Any:
        # A worker process has the function already, under the name of this task; what it lacks are the settings.
        state = {name: value for name, value in vars(self).items() if name not in ("fn", "key_of", "run_tags")}
        return _arrived, (sys.modules[self.__module__], self.fn.__name__, state, travelling())


def _may_be_none(fn: Callable[..., object]) -> bool:
    """Return whether a function says that it may return None, or nothing."""
    returned = inspect.signature(fn, eval_str=True).return_annotation
    return returned in (None, Any, inspect.Signature.empty) or NoneType in get_args(returned)


def _without(kwargs: Mapping[str, object]) -> dict[str, object]:
    return {name: value for name, value in kwargs.items() if name not in ("return_state", "wait_for", "deferred")}


def _restored(kind: type[Step[P, R]], state: Mapping[str, object]) -> Step[P, R]:
    step = object.__new__(kind)
    vars(step).update(state)
    return step


def _arrived(room: ModuleType, name: str, state: dict[str, object], settings: dict[str, str]) -> Step[Any, Any]:
    for setting, value in settings.items():
        # Not over what the worker's own machine says, as of its folders.
        os.environ.setdefault(setting, value)
    known: Step[Any, Any] = getattr(room, name)
    return _restored(type(known), state | {attr: vars(known)[attr] for attr in ("fn", "key_of", "run_tags")})


@dataclass(frozen=True)
class _Named(TaskRunNameCallbackWithParameters):
    """The name of a task run; the task's own where what it takes is not known yet, or bad."""

    otherwise: str
    run_name: Callable[..., str] | None

    def __call__(self, parameters: dict[str, Any]) -> str:
        with naming_once(leave=True):  # to the run itself
            return _or(self.otherwise, self.run_name, parameters)


def _or(otherwise: R, function: Callable[..., R] | None, parameters: Mapping[str, object]) -> R:
    if function is None:
        return otherwise
    try:
        return function(**parameters)
    except Exception:  # a name or tag is no reason to fail; the task itself says what is wrong
        return otherwise


def step(
    key_of: Callable[..., str | None] | None = None,
    run_name: Callable[..., str] | None = None,
    run_tags: Callable[..., list[str]] | None = None,
    retries: int = 2,
) -> Callable[[Callable[P, R]], Step[P, R]]:
    """Return a decorator that makes a function a ``Step``."""
    return lambda fn: Step(fn, key_of, run_name, run_tags, retries)


def _kept(fn: Callable[P, R]) -> Callable[P, R]:
    """Return ``fn`` such that in a task run its result is given to the bucket too, and its seconds to the log."""

    @wraps(fn)
    def perform(*args: P.args, **kwargs: P.kwargs) -> R:
        started = time.monotonic()
        with at_work_on(_task_run()), naming_once():
            value = fn(*args, **kwargs)
            needed(*args, *kwargs.values())
        key = _key_of_run(fn)
        if key is not None and isinstance(value, Outcome):
            results_of(Home.here()).keep(key, value)
        if not _is_part_of_another():  # of many short fits in one run, the run's own line says what they took
            log(f"{fn.__name__.replace('_', ' ')} took {time.monotonic() - started:.3g} s")
        return value

    return perform


# Workers get ``perform`` by value, which may name no context variable: these functions have those for it.
def _task_run() -> Any:
    run = TaskRunContext.get()
    return run.task_run.id if run is not None else None


def _key_of_run(fn: Callable[..., Any]) -> str | None:
    """Return the key of the task run of ``fn`` under way; whoever set a key by hand keeps the result as well."""
    return current_key(fn) if TaskRunContext.get() and UNDER_KEY.get() is None else None


def _is_part_of_another() -> bool:
    """Return whether a step is done inside the task run of another one, under a key that was set by hand."""
    return UNDER_KEY.get() is not None


def current_key(fn: Callable[..., Any]) -> str | None:
    """Return the key of ours under which the result of ``fn`` will be kept, where a task run of it is under way.

    None where a user's own key or cache policy names it: that says nothing of the data that it was made of.
    """
    if UNDER_KEY.get() is not None:
        return UNDER_KEY.get()
    run, transaction = TaskRunContext.get(), get_transaction()
    # A step that is called inside the task run of somebody's own must not keep its result under that one's key.
    mine = run is not None and getattr(run.task.fn, "__wrapped__", None) is fn
    mine = mine and isinstance(run.task.cache_policy, ByContent)  # type: ignore[union-attr]
    return transaction.key if mine and transaction is not None else None


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
    return REFRESHING.get() if run is None else bool(run.task.refresh_cache)


def worth_another_try(task: Any, run: Any, state: Any) -> bool:
    """Return whether a step may succeed next time: not where the data, the model or the request are to blame."""
    error = state.result(raise_on_failure=False)
    # Ours says what went wrong; what caused it says whether that may pass.
    if isinstance(error, EvaluationError):
        error = error.__cause__
    return isinstance(error, Exception) and not isinstance(error, MISTAKES)


def flow_run_tags() -> dict[str, str]:
    """Return what a record says about the flow run that made it: its id, and its page where there is one."""
    flow, task = FlowRunContext.get(), TaskRunContext.get()
    run = flow.flow_run.id if flow and flow.flow_run else task.task_run.flow_run_id if task else None
    if run is None:
        return {}
    ui = PREFECT_UI_URL.value()
    return {"prefect.flow_run_id": str(run)} | ({"prefect.flow_run_url": f"{ui}/runs/flow-run/{run}"} if ui else {})
