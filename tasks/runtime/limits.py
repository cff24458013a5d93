"""Limits of a fit: seconds, after which its process is killed, and threads."""

from __future__ import annotations

import contextlib
import os
import pickle
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from contextvars import ContextVar
from functools import lru_cache
from pathlib import Path
from typing import Any, TypeVar

from evenfold.estimates import EvaluationError, ModelError
from evenfold.splitters import SplitError
from threadpoolctl import ThreadpoolController

from .settings import Settings

R = TypeVar("R")
START_SECONDS = 300.0
ALONE: ContextVar[bool] = ContextVar("evenfold_alone", default=False)


def within(seconds: float | None, name: str, function: Callable[..., R], *arguments: Any) -> R:
    """Return what ``function`` returns, run in a process of its own that is killed after ``seconds``; None: no limit.

    The process's imports, some 3 seconds where nothing else runs, do not count. Raises EvaluationError, which names
    the step, when the time is up, or the process dies or does not start, and the errors of ours that the function
    raises.
    """
    if seconds is None:
        return function(*arguments)
    with tempfile.TemporaryDirectory() as folder:
        answer, output, begun = (Path(folder) / kept for kept in ("answer.pickle", "output.txt", "begun"))
        request = pickle.dumps((str(begun), str(answer), function, arguments))
        code = _run(request, output, begun, seconds, name)
        if code is None:
            raise EvaluationError(
                f"{name} took more than its {seconds:g} s and was stopped; raise time_limit, or use a lighter model."
            )
        if not answer.exists():
            last = output.read_text(errors="replace").strip().rpartition("\n")[2]
            raise EvaluationError(f"{name}: its process ended with code {code} and no result ({last[:300]}).")
        value, error = pickle.loads(answer.read_bytes())
    if error is not None:
        raise error
    result: R = value
    return result


def _run(request: bytes, output: Path, begun: Path, seconds: float, name: str) -> int | None:
    """Return the exit code of the process, or None where its time was up; nothing that it started outlives it."""
    paths = os.pathsep.join(path for path in sys.path if path)
    with output.open("wb") as errors:
        process = subprocess.Popen(
            [sys.executable, "-m", __name__],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=errors,
            env={**os.environ, "PYTHONPATH": paths},
            start_new_session=True,
        )
    try:
        _wait_for_start(process, request, begun, name)
        return process.wait(seconds)
    except subprocess.TimeoutExpired:
        return None
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def _wait_for_start(process: subprocess.Popen[bytes], request: bytes, begun: Path, name: str) -> None:
    until = time.monotonic() + START_SECONDS
    assert process.stdin is not None
    with contextlib.suppress(BrokenPipeError), process.stdin as pipe:  # one that is dead says so by its exit code
        pipe.write(request)
    while not begun.exists() and process.poll() is None:
        if time.monotonic() > until:
            raise EvaluationError(f"{name}: its process did not start within {START_SECONDS:g} s; is the machine busy?")
        time.sleep(0.02)


def _answer() -> None:
    # From this very user's process, over a pipe.
    begun, path, function, arguments = pickle.load(sys.stdin.buffer)
    Path(begun).touch()
    answer: tuple[Any, Exception | None]
    try:
        answer = function(*arguments), None
    except (EvaluationError, ModelError, SplitError) as error:
        answer = None, error
    Path(path).write_bytes(pickle.dumps(answer))


@lru_cache(maxsize=1)
def _pools() -> ThreadpoolController:
    return ThreadpoolController()  # looking for the loaded libraries takes milliseconds, and draws are many


def limited(threads: int) -> AbstractContextManager[Any]:
    """Return a context in which a fit uses ``threads`` OpenMP threads and one BLAS thread.

    Parallel fits with a full set of threads each would wait for one another; and one BLAS thread gives the same
    rounding whatever else runs.
    """
    limits: AbstractContextManager[Any] = _pools().limit(limits={"openmp": threads, "blas": 1})
    return limits


def fair_threads() -> int:
    """Return how many threads a fit may use, so that all that run at once use every core once."""
    cores = os.cpu_count() or 1
    return cores if ALONE.get() else max(1, cores // Settings.here().workers)


def peak_memory() -> float:
    """Return the most memory that this process has held so far, in MB; 0 where the system does not say."""
    try:
        import resource
    except ModuleNotFoundError:  # Windows
        return 0.0
    return round(
        resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / (1024 if sys.platform != "darwin" else 1024**2), 1
    )


if __name__ == "__main__":
    _answer()
