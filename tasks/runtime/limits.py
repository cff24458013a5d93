"""Runners of fits, threads, processes, Dask or Ray; and limits: seconds, after which one is killed, and threads."""

from __future__ import annotations

import contextlib
import gc
import os
import re
import resource
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import BrokenExecutor, wait
from contextvars import ContextVar
from functools import cache
from multiprocessing.util import Finalize
from typing import Any, TypeVar

from evenfold.splitters.errors import EvaluationError, EvenfoldError, SplitError
from evenfold.splitters.naming import READ
from evenfold.splitters.numbers import thread_pools
from evenfold.splitters.untrusted import import_beforehand
from joblib.externals import loky

from .home import Settings, cores, environment, overlapping

R = TypeVar("R")
START_SECONDS = 300.0
MOST_SECONDS = 2e6  # the system waits no longer than 2**31 milliseconds
CORES = "LOKY_MAX_CPU_COUNT"
ALONE: ContextVar[bool] = ContextVar("evenfold_alone", default=False)


def within(seconds: float | None, name: str, function: Callable[..., R], *arguments: Any) -> R:
    """Return what ``function`` returns, run in a process of its own that is killed after ``seconds``; None: no limit.

    The process is like this one and ends with it; imports do not count. Raises EvaluationError, which names the step,
    when the time is up, or the process dies or does not start, and what the function raises.
    """
    if seconds is None:
        return function(*arguments)
    if not seconds > 0:
        raise EvaluationError(f"{name}: time_limit={seconds} is no time to fit in; give more than 0 seconds, or None.")
    try:
        pool, is_usable = _worker(name, seconds, function.__module__), False
        try:
            fit = pool.submit(_run, function, arguments)
            if not wait([fit], min(seconds, MOST_SECONDS)).done:
                took = f"{name} took more than its {seconds:g} s and was stopped"
                raise EvaluationError(f"{took}; raise time_limit, or use a lighter model.")
            is_usable = isinstance(fit.exception(), EvenfoldError)
            result: R
            result, is_usable = fit.result()
            return result
        finally:
            if is_usable:
                _IDLE[os.getpid()].append(pool)
            else:
                pool.shutdown(kill_workers=True)
    except BrokenExecutor as error:
        codes = ", ".join(re.findall(r"\w+\(-?\d+\)", str(error)))
        raise EvaluationError(f"{name}: its process ended with {codes or 'an error'} and no result.") from None


_IDLE: dict[int, list[Any]] = {}  # of each process, for a fork has none


def _worker(name: str, seconds: float, module: str) -> Any:
    """Return a process that is like this one, with what a fit needs imported: one that waits, or a new one."""
    variables = environment() | {CORES: str(cores())}  # not the share that a fit beside it has
    if os.getpid() not in _IDLE:  # a process of a pool waits for those that it has started before loky would end them
        Finalize(None, lambda: [pool.shutdown(kill_workers=True) for pool in _IDLE[os.getpid()]], exitpriority=100)
    idle = _IDLE.setdefault(os.getpid(), [])
    loaded = [module for module in list(sys.modules) if module.partition(".")[0] in ("sklearn", "imblearn")]
    while True:
        try:
            pool, is_new = idle.pop(), False
        except IndexError:
            pool, is_new = loky.ProcessPoolExecutor(1, initializer=begin_worker, initargs=(os.getpid(),)), True
        is_alike = False
        try:
            ready = pool.submit(_prepare, sys.path, variables, os.getcwd(), [module, *loaded])
            if not wait([ready], START_SECONDS).done:
                late = f"its process did not start within {START_SECONDS:g} s"
                raise EvaluationError(f"{name}: {late}; is the machine busy?")
            if is_alike := ready.result():
                return pool
        except BrokenExecutor:
            if is_new:  # else somebody has killed it while it waited
                raise
        except AssertionError:  # of multiprocessing
            raise EvaluationError(
                f"{name}: time_limit={seconds:g} asks for a process, and a daemon, such as a worker of Dask, may start "
                "none; start Dask's workers with the setting distributed.worker.daemon: false."
            ) from None
        finally:
            if not is_alike:
                pool.shutdown(kill_workers=True)


def _prepare(path: list[str], variables: dict[str, str], folder: str, modules: list[str]) -> bool:
    """Make this process like the one that asks for a fit; return whether the user's code is as it was read here."""
    sys.path[:] = path
    os.environ.clear()
    os.environ.update(variables)
    os.chdir(folder)
    gc.disable()  # nothing of what is imported is garbage
    import_beforehand(modules)
    gc.enable()
    _peak_before()
    with contextlib.suppress(OSError):  # a file that is gone
        stamps = [((status := os.stat(file)).st_mtime_ns, status.st_size) for file in READ]
        return stamps == [source.stamp for source in READ.values()]
    return False


def _run(function: Callable[..., R], arguments: tuple[Any, ...]) -> tuple[R, bool]:
    """Return what a function returns, and whether this process is small: grown by 300 MB it would be ended by loky."""
    return function(*arguments), _peak() - _peak_before() < 200_000


def _peak() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss  # in kB on Linux


_peak_before = cache(_peak)


def begin_worker(parent: int) -> None:
    """Have this process, and what it starts, killed within a second of its parent's end."""
    os.setpgrp()

    def watch() -> None:  # PR_SET_PDEATHSIG would end it with the thread that started it
        while os.getppid() == parent:
            time.sleep(0.5)
        os.killpg(0, signal.SIGKILL)

    threading.Thread(target=watch, daemon=True).start()


@contextlib.contextmanager
def limited(cells: int) -> Iterator[None]:
    """Let a fit to a table of ``cells`` use its share of the threads and one BLAS thread in the block, ``unlogged``.

    All fits at once use each core once that ``OMP_NUM_THREADS``, ``LOKY_MAX_CPU_COUNT``, the processor's affinity and
    the container's quota leave; a small table needs one thread. One BLAS thread rounds alike whatever else runs.
    """
    share = cores() if ALONE.get() else max(1, cores() // Settings.here().n_workers)
    setting = os.environ.get("OMP_NUM_THREADS", "").partition(",")[0]
    share = min(share, int(setting)) if setting.isdecimal() and int(setting) else share
    # With fewer cells each, threads wait for one another longer than they work.
    threads = max(1, min(share, cells // 100_000))
    limits = {"openmp": threads, "blas": 1}
    with thread_pools().limit(limits=limits), _joblib_limited(share), unlogged():
        yield


@overlapping
def _joblib_limited(share: int) -> Iterator[None]:
    # What asks joblib for all cores means the share of this fit: scikit-learn's n_jobs=-1, LightGBM as it comes.
    before, os.environ[CORES] = os.environ.get(CORES), str(share)
    try:
        yield
    finally:
        os.environ.pop(CORES, None)
        if before is not None:
            os.environ[CORES] = before


@overlapping
def unlogged() -> Iterator[None]:
    """Keep fits of ours out of MLflow's autologging, which is off in the whole process until all blocks end."""
    autologging: Any = sys.modules.get("mlflow.utils.autologging_utils")
    # In the settings of each library: to leave MLflow's own block would turn all on inside one of the user's.
    settings = [] if autologging is None else list(autologging.AUTOLOGGING_INTEGRATIONS.values())
    on = [each for each in settings if not each.get("disable", True)]
    for each in on:
        each["disable"] = True
    try:
        yield
    finally:
        for each in on:
            each["disable"] = False


def task_runner() -> Any:
    """Return the Prefect task runner that the setting asks for.

    Threads and processes run ``EVENFOLD_WORKERS`` tasks at once. ``EVENFOLD_RUNNER_ADDRESS`` names a Dask scheduler
    (tcp://host:8786) or Ray cluster (ray://host:10001); without it both start their own. Workers elsewhere need
    evenfold, and ``EVENFOLD_HOME`` or ``EVENFOLD_RESULTS`` on a path that all of them see.
    """
    settings = Settings.here()
    n_workers, address, runner = settings.n_workers, settings.runner_address, settings.runner
    if runner == "threads":
        from prefect.task_runners import ThreadPoolTaskRunner

        return ThreadPoolTaskRunner(max_workers=n_workers)
    if runner == "processes":
        return _processes(n_workers)
    alone: dict[str, Any]
    try:
        if runner == "dask":
            import dask
            from prefect_dask import DaskTaskRunner as Cluster

            dask.config.set({"distributed.worker.daemon": False})  # a daemon may not start what a time limit kills
            alone = {"cluster_kwargs": {"n_workers": n_workers, "threads_per_worker": 1, "dashboard_address": None}}
        else:
            os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
            from prefect_ray import RayTaskRunner as Cluster

            alone = {"init_kwargs": {"num_cpus": n_workers, "include_dashboard": False}}
    except ModuleNotFoundError as error:
        package = f"pip install 'evenfold[{runner}]'"
        raise SplitError(f"EVENFOLD_RUNNER is {runner!r} and {error.name} is not installed; {package}.") from None
    return Cluster(address=address) if address else Cluster(**alone)


def _processes(n_workers: int) -> Any:
    from prefect.context import SettingsContext, get_settings_context
    from prefect.task_runners import ProcessPoolTaskRunner

    of_flow = get_settings_context()

    def as_in_the_flow() -> Any:
        """Begin the thread that sends on what workers tell; by itself it would start a server, which stays."""
        SettingsContext(profile=of_flow.profile, settings=of_flow.settings).__enter__()
        return lambda message_type, message_payload: (message_type, message_payload)

    return ProcessPoolTaskRunner(n_workers, [as_in_the_flow], begin_worker, (os.getpid(),))
