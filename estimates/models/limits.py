"""Limits of a fit: seconds, after which the process that it runs in is killed, and threads."""

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
from functools import cache, lru_cache
from multiprocessing.util import Finalize
from typing import Any, TypeVar

from evenfold.estimates.errors import EvaluationError
from evenfold.splitters.errors import EvenfoldError
from evenfold.splitters.naming import READ
from evenfold.splitters.process import cores, environment, overlapping
from evenfold.splitters.untrusted import import_beforehand
from joblib.externals import loky
from threadpoolctl import ThreadpoolController

R = TypeVar("R")
START_SECONDS = 300.0
MOST_SECONDS = 2e6  # the system waits no longer than 2**31 milliseconds
CORES = "LOKY_MAX_CPU_COUNT"


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


@lru_cache(maxsize=1)
def _pools(_modules: int) -> ThreadpoolController:
    return ThreadpoolController()  # looking for the loaded libraries takes milliseconds, and draws are many


@contextlib.contextmanager
def sharing(cells: int, share: int) -> Iterator[None]:
    """Let a fit to a table of ``cells`` use its ``share`` of the threads, and one BLAS thread, in the block.

    A small table needs one thread. One BLAS thread rounds alike whatever else runs.
    """
    # With fewer cells each, threads wait for one another longer than they work.
    threads = max(1, min(share, cells // 100_000))
    with _pools(len(sys.modules)).limit(limits={"openmp": threads, "blas": 1}), _joblib_limited(share):
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
