"""Runners of fits, threads, processes, Dask or Ray; and limits: seconds, after which one is killed, and threads."""

from __future__ import annotations

import contextlib
import ctypes
import os
import pickle
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import traceback
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from functools import cache, lru_cache
from queue import SimpleQueue
from typing import Any, TypeVar

import joblib
from evenfold.estimates import EvaluationError
from evenfold.splitters import EvenfoldError, SplitError
from evenfold.splitters.untrusted import import_beforehand
from evenfold.tasks.runtime.home import Settings, overlapping
from threadpoolctl import ThreadpoolController

R = TypeVar("R")
START_SECONDS = 300.0
MOST_SECONDS = 2e6  # the system waits no longer than 2**31 milliseconds
CELLS_A_THREAD = 100_000  # with fewer, threads wait for one another longer than they work
CORES = "LOKY_MAX_CPU_COUNT"
ALONE: ContextVar[bool] = ContextVar("evenfold_alone", default=False)


def within(seconds: float | None, name: str, function: Callable[..., R], *arguments: Any) -> R:
    """Return what ``function`` returns, run in a process of its own that is killed after ``seconds``; None: no limit.

    The process has this one's environment and folder, and ends with it. Imports, some 3 seconds for the first, do not
    count. Raises EvaluationError, which names the step, when the time is up or none at all, or the process dies or does
    not start, and the errors of ours that the function raises.
    """
    if seconds is None:
        return function(*arguments)
    if not seconds > 0:
        raise EvaluationError(f"{name}: time_limit={seconds} is no time to fit in; give more than 0 seconds, or None.")
    idle = _IDLE.setdefault(os.getpid(), [])
    worker = idle.pop() if idle else _Worker()
    try:
        value, error = worker.answer(pickle.dumps((function, arguments)), seconds, name)
    except BaseException:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(worker.process.pid, signal.SIGKILL)
        raise
    idle.append(worker)
    if error is not None:
        raise error
    result: R = value
    return result


class _Worker:
    """A process that forks one for each request, which has the imports and nothing else of those before.

    Joblib's loky would start none in a Dask worker, which is a daemon of multiprocessing's (AssertionError).
    """

    def __init__(self) -> None:
        self.socket, theirs = socket.socketpair()
        self.pipe, self.output = self.socket.makefile("rwb"), tempfile.TemporaryFile()  # noqa: SIM115
        # What fits need, imported once; beside Linux it is not safe to fork what has libraries. Of what is loaded here
        # these alone: others may start threads, which a fork would not have.
        loaded = [name for name in sys.modules if name.partition(".")[0] in ("sklearn", "imblearn")]
        beforehand = ["evenfold.tasks.fits", *loaded] if sys.platform == "linux" else []
        command = f"from {__name__} import answer_requests; answer_requests({beforehand!r})"
        with theirs:
            self.process = subprocess.Popen(
                [sys.executable, "-c", command], stdin=theirs.fileno(), stdout=subprocess.DEVNULL, stderr=self.output,
                env={**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)},
                start_new_session=True,
            )  # fmt: skip

    def answer(self, request: bytes, seconds: float, name: str) -> tuple[Any, Exception | None]:
        """Return what the function of a request returns, or the error of ours that it raises."""
        self.socket.settimeout(START_SECONDS)
        begun = False
        try:
            # As bytes: the request is unpickled once the paths are set, for it may name modules that only these find.
            pickle.dump((sys.path, dict(os.environ), os.getcwd(), request), self.pipe)
            self.pipe.flush()
            begun = pickle.load(self.pipe)
            self.socket.settimeout(min(seconds, MOST_SECONDS))
            answer: tuple[Any, Exception | None] = pickle.load(self.pipe)
            return answer
        except TimeoutError:
            took = f"{name} took more than its {seconds:g} s and was stopped; raise time_limit, or use a lighter model."
            late = f"{name}: its process did not start within {START_SECONDS:g} s; is the machine busy?"
            raise EvaluationError(took if begun else late) from None
        except (EOFError, ConnectionError):
            code = self.process.wait()
            self.output.seek(0)
            last = self.output.read().decode(errors="replace").strip().rpartition("\n")[2]
            raise EvaluationError(f"{name}: its process ended with code {code} and no result ({last[:300]}).") from None


_IDLE: dict[int, list[_Worker]] = {}  # of each process, for a fork has none


def answer_requests(preloaded: list[str]) -> None:
    """Fork a process for every request that comes over stdin; when that ends, or one of them badly, end with it."""
    import_beforehand(preloaded)
    pipe, requests = socket.socket(fileno=0).makefile("rwb"), SimpleQueue[tuple[Any, ...]]()

    def read() -> None:
        with contextlib.suppress(EOFError):
            while True:
                requests.put(pickle.load(pipe))
        os.killpg(0, signal.SIGKILL)  # the fit too, and whatever it has started

    threading.Thread(target=read, daemon=True).start()
    while True:
        request = requests.get()
        if not (fit := os.fork()):
            os._exit(_answer(pipe, *request))
        if code := os.waitstatus_to_exitcode(os.waitpid(fit, 0)[1]):
            os._exit(abs(code))


def _answer(pipe: Any, path: list[str], environment: dict[str, str], folder: str, request: bytes) -> int:
    """Run a request, which is from this very user's process, and return an exit code."""
    sys.path[:] = path
    os.environ.clear()
    os.environ.update(environment)
    os.chdir(folder)
    if numpy := sys.modules.get("numpy"):
        numpy.random.seed()  # else every fork would draw the same
    try:
        function, arguments = pickle.loads(request)
        _tell(pipe, True)
        _tell(pipe, (function(*arguments), None))
    except EvenfoldError as error:
        _tell(pipe, (None, error))
    except BaseException:
        traceback.print_exc()
        return 1
    return 0


def _tell(pipe: Any, message: Any) -> None:
    pickle.dump(message, pipe)
    pipe.flush()


@lru_cache(maxsize=1)
def _pools(_modules: int) -> ThreadpoolController:
    return ThreadpoolController()  # looking for the loaded libraries takes milliseconds, and draws are many


@contextlib.contextmanager
def limited(cells: int) -> Iterator[None]:
    """Let a fit to a table of ``cells`` use its share of the threads and one BLAS thread in the block, ``unlogged``.

    All fits at once use each core once that ``OMP_NUM_THREADS``, ``LOKY_MAX_CPU_COUNT``, the processor's affinity and
    the container's quota leave; a small table needs one thread. One BLAS thread rounds alike whatever else runs.
    """
    threads = max(1, min(_fair_threads(), cells // CELLS_A_THREAD))
    with _pools(len(sys.modules)).limit(limits={"openmp": threads, "blas": 1}), _joblib_limited(), unlogged():
        yield


@overlapping
def _joblib_limited() -> Iterator[None]:
    # What asks joblib for all cores means the share of this fit: scikit-learn's n_jobs=-1, LightGBM as it comes.
    before, os.environ[CORES] = os.environ.get(CORES), str(_fair_threads())
    try:
        yield
    finally:
        del os.environ[CORES]
        if before is not None:
            os.environ[CORES] = before


@overlapping
def unlogged() -> Iterator[None]:
    """Keep fits of ours out of the user's runs, where MLflow's autologging is on in this process.

    It can only be turned off for the whole process: it is on again when the last block that overlaps ends.
    """
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


@cache  # of this process, before a fit under way has limited it
def _cores() -> int:
    return int(joblib.cpu_count())


def _fair_threads() -> int:
    share = _cores() if ALONE.get() else max(1, _cores() // Settings.here().n_workers)
    setting = os.environ.get("OMP_NUM_THREADS", "").partition(",")[0]
    return min(share, int(setting)) if setting.isdecimal() and int(setting) else share


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
    cluster: Any
    try:
        if runner == "dask":
            import prefect_dask

            alone = {"n_workers": n_workers, "threads_per_worker": 1, "dashboard_address": None}
            cluster = prefect_dask.DaskTaskRunner
            return cluster(address=address) if address else cluster(cluster_kwargs=alone)
        os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
        import prefect_ray
    except ModuleNotFoundError as error:
        package = f"pip install 'evenfold[{runner}]'"
        raise SplitError(f"EVENFOLD_RUNNER is {runner!r} and {error.name} is not installed; {package}.") from None
    alone, cluster = {"num_cpus": n_workers, "include_dashboard": False}, prefect_ray.RayTaskRunner
    return cluster(address=address) if address else cluster(init_kwargs=alone)


def begin_in_pool(parent: int) -> None:
    """Begin a worker of a pool: on Linux it is killed when its parent ends."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG
        if os.getppid() != parent:
            os._exit(1)


def _processes(n_workers: int) -> Any:
    from prefect.context import SettingsContext, get_settings_context
    from prefect.task_runners import ProcessPoolTaskRunner

    of_flow = get_settings_context()

    def as_in_the_flow() -> Any:
        """Begin the thread that sends on what workers tell; by itself it would start a server, which stays."""
        SettingsContext(profile=of_flow.profile, settings=of_flow.settings).__enter__()
        return lambda message_type, message_payload: (message_type, message_payload)

    return ProcessPoolTaskRunner(n_workers, [as_in_the_flow], begin_in_pool, (os.getpid(),))
