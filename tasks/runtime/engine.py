"""What runs steps: the same plain functions, with Prefect around them or without."""

from __future__ import annotations

import base64
import json
import os
import pickle
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any, Protocol

from evenfold.estimates import EvaluationError, ModelError
from evenfold.splitters import SplitError, UntrustedNameError
from threadpoolctl import ThreadpoolController

OURS = {each.__name__: each for each in (EvaluationError, ModelError, SplitError, UntrustedNameError)}


def within(seconds: float, name: str, step: Callable[..., Any], arguments: dict[str, Any]) -> Any:
    """Return what ``step`` returns, run in a process of its own that is killed after ``seconds``.

    Arguments and result are JSON; the process's imports, some 3 seconds, count. Raises EvaluationError, which names
    the step, when the time is up or the process dies, and the errors of ours that the step raises.
    """
    with tempfile.TemporaryDirectory() as folder:
        answer, said = Path(folder) / "answer.json", Path(folder) / "said.txt"
        asked = {"step": base64.b64encode(pickle.dumps(step)).decode(), "arguments": arguments, "answer": str(answer)}
        code = _run(json.dumps(asked), said, seconds)
        if code is None:
            raise EvaluationError(
                f"{name} took more than its {seconds:g} s and was stopped; raise time_limit, or use a lighter model."
            )
        if not answer.exists():
            last = said.read_text(errors="replace").strip().rpartition("\n")[2]
            raise EvaluationError(f"{name}: its process ended with code {code} and no result ({last[:300]}).")
        told = json.loads(answer.read_text())
    if "error" in told:
        raise OURS[told["error"]](told["message"])
    return told["value"]


def _run(asked: str, said: Path, seconds: float) -> int | None:
    """Return the exit code of the process, or None where its time was up; nothing that it started outlives it."""
    paths = os.pathsep.join(each for each in sys.path if each)
    with said.open("wb") as errors:
        process = subprocess.Popen(
            [sys.executable, "-m", __name__],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=errors,
            env={**os.environ, "PYTHONPATH": paths},
            start_new_session=True,
        )
    try:
        process.communicate(asked.encode(), timeout=seconds)
        return process.returncode
    except subprocess.TimeoutExpired:
        return None
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def _answer() -> None:
    asked = json.load(sys.stdin)
    try:
        told = {"value": pickle.loads(base64.b64decode(asked["step"]))(**asked["arguments"])}
    except tuple(OURS.values()) as error:
        told = {"error": type(error).__name__, "message": str(error)}
    Path(asked["answer"]).write_text(json.dumps(told))


if __name__ == "__main__":
    _answer()


@dataclass(frozen=True)
class Call:
    """One step to run: a plain function, its JSON arguments, what it is called, and the key of its result.

    ``key`` None means never cached. ``intact`` says whether what a cached result names still exists. ``size`` counts
    what the step does (a block of draws fits many models). ``retries`` is how often a failure is tried again that is
    not the fault of data, model or request. ``limit``: the seconds after which the step is killed.
    """

    step: Callable[..., Any]
    arguments: dict[str, Any]
    name: str
    key: str | None = None
    intact: Callable[[Any], bool] = field(default=lambda _: True)
    retries: int = 2
    size: int = 1
    limit: float | None = None

    def perform(self) -> Any:
        """Return what the step returns, within the limit where there is one."""
        return performed(self.step, self.arguments, self.limit, self.name)


def performed(step: Callable[..., Any], arguments: dict[str, Any], limit: float | None, name: str) -> Any:
    """Return what a step returns; with a limit in seconds it runs in a process that is killed when they are over."""
    return step(**arguments) if limit is None else within(limit, name, step, arguments)


@dataclass(frozen=True)
class Done:
    """What a call came to: its value or its error, and whether it came from the cache."""

    call: Call
    value: Any = None
    error: Exception | None = None
    cached: bool = False


class Engine(Protocol):
    """Runs calls; ``run`` raises what the step raised, ``map`` yields every outcome as it comes.

    ``threads`` is how many threads each call may use, so that all calls together use every core once.
    """

    name: str
    threads: int

    def run(self, call: Call) -> Done:
        """Return the outcome of one call."""

    def map(self, calls: Sequence[Call]) -> Iterator[Done]:
        """Yield the outcome of each call, in the order in which they finish."""

    def tags(self) -> dict[str, str]:
        """Return what a record says about the run that made it."""

    def note(self, key: str, markdown: str) -> None:
        """Show Markdown beside the run, where there is a page for it."""


class PlainEngine:
    """Calls the functions one after the other: no server, no cache, nothing to wait for."""

    name = "plain"

    def __init__(self) -> None:
        self.threads = os.cpu_count() or 1

    def run(self, call: Call) -> Done:
        """Return the outcome of one call; raises what it raises."""
        return Done(call, value=call.perform())

    def map(self, calls: Sequence[Call]) -> Iterator[Done]:
        """Yield the outcome of each call in order."""
        for call in calls:
            try:
                yield self.run(call)
            except Exception as error:
                yield Done(call, error=error)

    def tags(self) -> dict[str, str]:
        """Return nothing: there is no run to name."""
        return {}

    def note(self, key: str, markdown: str) -> None:
        """Show nothing: there is no page."""


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


def peak_memory() -> float:
    """Return the most memory that this process has held so far, in MB; 0 where the system does not say."""
    try:
        import resource
    except ModuleNotFoundError:  # Windows
        return 0.0
    return round(
        resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / (1024 if sys.platform != "darwin" else 1024**2), 1
    )
