"""Limits of a fit: seconds, after which its process is killed, and threads."""

from __future__ import annotations

import contextlib
import os
import pickle
import signal
import socket
import subprocess
import sys
import tempfile
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextvars import ContextVar
from functools import lru_cache
from pathlib import Path
from typing import Any, NoReturn, TypeVar

from evenfold.estimates import EvaluationError
from evenfold.splitters import EvenfoldError
from evenfold.splitters.importing import import_beforehand
from threadpoolctl import ThreadpoolController

from .orphans import marked_environment
from .settings import Settings
from .shared import Lock, overlapping

R = TypeVar("R")
START_SECONDS = 300.0
MOST_SECONDS = 2e6  # the system waits no longer than 2**31 milliseconds
ALONE: ContextVar[bool] = ContextVar("evenfold_alone", default=False)
# What fits need is imported once, by the process that theirs are forked from. Estimators' packages are so as far as
# they are loaded here; others may start threads, which a fork would not have.
PRELOADED = ("evenfold.tasks.fits",)
PRELOADED_PACKAGES = ("sklearn", "imblearn")
_STARTING = Lock()


def within(seconds: float | None, name: str, function: Callable[..., R], *arguments: Any) -> R:
    """Return what ``function`` returns, run in a process of its own that is killed after ``seconds``; None: no limit.

    The process has this one's environment and folder, and ends with this one, however that ends. Imports, some 3
    seconds for the first where nothing else runs, do not count, and 2,000,000 seconds or more are no limit. Raises
    EvaluationError, which names the step, when the time is up, or is none at all, or the process dies or does not
    start, and the errors of ours that the function raises.
    """
    if seconds is None:
        return function(*arguments)
    if not seconds > 0:
        raise EvaluationError(f"{name}: time_limit={seconds} is no time to fit in; give more than 0 seconds, or None.")
    request = pickle.dumps((function, arguments))
    ours, theirs = socket.socketpair()
    with tempfile.TemporaryFile() as output, ours:
        # Closed here once it is sent: as long as this process held that end, no end of the answer would be seen.
        with theirs:
            _ask_for_process(theirs.fileno(), output.fileno())
        how, value, error = _answer_of(ours, request, seconds, name)
        if how == "ended":
            output.seek(0)
            last = output.read().decode(errors="replace").strip().rpartition("\n")[2]
            raise EvaluationError(f"{name}: its process ended with code {value} and no result ({last[:300]}).")
    if error is not None:
        raise error
    result: R = value
    return result


def _answer_of(ours: socket.socket, request: bytes, seconds: float, name: str) -> tuple[str, Any, Exception | None]:
    """Return ("answer", value, error) or ("ended", exit code, None); where the time is up, nothing is left of it."""
    group, begun = None, False
    ours.settimeout(START_SECONDS)
    try:
        with ours.makefile("rwb") as pipe:
            group = pickle.load(pipe)
            # As bytes: the request is unpickled once the paths are set, for it may name modules that only these find.
            pickle.dump((sys.path, dict(os.environ), str(Path.cwd()), request), pipe)
            pipe.flush()
            answer: tuple[str, Any, Exception | None] = pickle.load(pipe)
            if begun := answer[0] == "begun":
                ours.settimeout(seconds if seconds < MOST_SECONDS else None)
                answer = pickle.load(pipe)
        group = None
        return answer
    except (EOFError, ConnectionError):  # whoever would tell was killed
        return "ended", None, None
    except TimeoutError:
        took = f"{name} took more than its {seconds:g} s and was stopped; raise time_limit, or use a lighter model."
        late = f"{name}: its process did not start within {START_SECONDS:g} s; is the machine busy?"
        raise EvaluationError(took if begun else late) from None
    finally:
        if group is not None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(group, signal.SIGKILL)


def _ask_for_process(connection: int, output: int) -> None:
    """Have a process forked that speaks over ``connection`` and whose words go to ``output``."""
    with _STARTING.held():
        if _starter(os.getpid())[0].poll() is not None:  # it was killed: another takes its place
            _starter.cache_clear()
        with contextlib.suppress(BrokenPipeError):  # then nobody answers, which is told
            socket.send_fds(_starter(os.getpid())[1], [b"1"], [connection, output])


@lru_cache(maxsize=1)
def _starter(_pid: int) -> tuple[subprocess.Popen[bytes], socket.socket]:
    """Return the process that forks others, and the way to it; it ends with this process, when that way does."""
    ours, theirs = socket.socketpair()
    loaded = [name for name in sys.modules if name.partition(".")[0] in PRELOADED_PACKAGES]
    # Beside Linux it is not safe to fork a process that has loaded libraries: there every fit imports them.
    preloaded = [*PRELOADED, *loaded] if sys.platform == "linux" else []
    with theirs:
        started = subprocess.Popen(
            [sys.executable, "-c", f"from {__name__} import start_processes; start_processes({preloaded!r})"],
            stdin=theirs.fileno(),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            env={**marked_environment(), "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)},
            start_new_session=True,
        )
    return started, ours


def start_processes(preloaded: Sequence[str]) -> None:
    """Fork a process for every connection that is sent over stdin; when that ends, kill what still runs."""
    import_beforehand(preloaded)
    asked, running = socket.socket(fileno=0), set[int]()
    while True:
        byte, handed, _, _ = socket.recv_fds(asked, 1, 2)
        # Those that have ended are waited for: a number that the system has given to another is not killed below.
        running -= {pid for pid in running if os.waitpid(pid, os.WNOHANG)[0]}
        if not byte:
            break
        pid = os.fork()
        if pid == 0:
            asked.close()
            _keep(*handed)
        running.add(pid)
        for descriptor in handed:
            os.close(descriptor)
    for pid in running:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(pid, signal.SIGKILL)


def _keep(connection: int, output: int) -> NoReturn:
    """Run one request in a process below this one, in a group of their own, and tell how it ended."""
    # The group's number is this process's: to kill the group is to kill the fit and whatever it has started.
    os.setsid()
    os.dup2(output, 2)
    with socket.socket(fileno=connection).makefile("rwb") as pipe:
        _tell(pipe, os.getpid())
        pid = os.fork()
        if pid == 0:
            os._exit(_answer(pipe))
        _tell(pipe, ("ended", os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), None))
    os._exit(0)


def _tell(pipe: Any, message: Any) -> None:
    with contextlib.suppress(OSError):  # nobody waits any more
        pickle.dump(message, pipe)
        pipe.flush()


def _answer(pipe: Any) -> int:
    """Run the request that comes, which is from this very user's process, and return an exit code."""
    sys.path[:], environment, folder, request = pickle.load(pipe)
    os.environ.clear()
    os.environ.update(environment)
    os.chdir(folder)
    if numpy := sys.modules.get("numpy"):
        numpy.random.seed()  # else every fork would draw the same
    try:
        function, arguments = pickle.loads(request)
        _tell(pipe, ("begun", None, None))
        _tell(pipe, ("answer", function(*arguments), None))
    except EvenfoldError as error:
        _tell(pipe, ("answer", None, error))
    except BaseException:
        traceback.print_exc()
        return 1
    return 0


@lru_cache(maxsize=1)
def _pools() -> ThreadpoolController:
    return ThreadpoolController()  # looking for the loaded libraries takes milliseconds, and draws are many


@contextlib.contextmanager
def limited(threads: int) -> Iterator[None]:
    """Let a fit use ``threads`` OpenMP threads and one BLAS thread inside the block, ``unlogged``.

    Parallel fits with a full set of threads each would wait for one another; and one BLAS thread gives the same
    rounding whatever else runs.
    """
    with _pools().limit(limits={"openmp": threads, "blas": 1}), unlogged():
        yield


@overlapping
def unlogged() -> Iterator[None]:
    """Keep fits of ours out of the user's runs, where MLflow's autologging is on in this process.

    MLflow can only turn it off for the whole process: it is on again when the last block that overlaps ends.
    """
    autologging: Any = sys.modules.get("mlflow.utils.autologging_utils")
    # To leave MLflow's own block would turn it on inside one of the user's.
    off = autologging is None or getattr(autologging, "_AUTOLOGGING_GLOBALLY_DISABLED", False)
    with contextlib.nullcontext() if off else autologging.disable_autologging():
        yield


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
