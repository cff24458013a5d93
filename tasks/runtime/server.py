"""Prefect's server for a home without another: one that is kept for later commands, or one of this process's own.

It runs in a session of its own, so that a Ctrl-C in the terminal does not end it before the runs on it are marked.
"""

from __future__ import annotations

import atexit
import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
import urllib.request
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import prefect
from evenfold.estimates import EvaluationError
from prefect.client.orchestration import get_client
from prefect.client.schemas.filters import FlowRunFilter, TaskRunFilter
from prefect.settings import PREFECT_API_SSL_CERT_FILE, PREFECT_API_URL, get_current_settings, temporary_settings
from prefect.states import Cancelled

from .files import write_aside
from .home import Home
from .locks import locked
from .progress import say
from .shared import Lock
from .stopping import at_work

START_SECONDS = 300.0
IDLE_SECONDS = 1_800.0
UNKEPT_SECONDS, MOST_UNKEPT_SECONDS = 0.5, 1.8  # the server writes down what tasks began a moment later
STARTING = "starting Prefect's embedded server, 10 to 20 s (evenfold up keeps one; --engine plain needs none)"


@dataclass(frozen=True)
class Kept:
    """A server that stays for the commands of a home, as the home's ``server.json`` names it."""

    address: str
    pid: int
    mark: str
    prefect: str

    @property
    def api(self) -> str:
        """What ``PREFECT_API_URL`` would be."""
        return f"{self.address}/api"


def kept_server(home: Home) -> Kept | None:
    """Return the server that is kept for a home, where it lives, is of this Prefect's version and answers."""
    try:
        kept = Kept(**json.loads(_record(home).read_text(encoding="utf-8")))
    except (OSError, ValueError, TypeError):
        return None
    lives = mark_of(kept.pid) == kept.mark and kept.address.startswith("http://127.0.0.1:")
    return kept if lives and kept.prefect == prefect.__version__ and _answers(kept.api, 10.0) else None


def keep_server(home: Home, idle_seconds: float = IDLE_SECONDS) -> Kept:
    """Start a server that stays for a home until nobody has used it for so long; one that is kept already is it."""
    home.make()
    with locked(home.locks, "kept server"):
        known = kept_server(home)
        if known is not None:
            return known
        address, process = _started(home, idle_seconds)
        made = Kept(address, process.pid, mark_of(process.pid), prefect.__version__)
        write_aside(_record(home), lambda aside: aside.write_text(json.dumps(asdict(made)), encoding="utf-8"))
        return made


def stop_server(home: Home) -> bool:
    """End the server that is kept for a home, and return whether there was one."""
    server = kept_server(home)
    _record(home).unlink(missing_ok=True)
    if server is None:
        return False
    for how in (signal.SIGTERM, signal.SIGKILL):
        with contextlib.suppress(ProcessLookupError):
            os.kill(server.pid, how)
        until = time.monotonic() + 10
        while time.monotonic() < until and mark_of(server.pid) == server.mark:
            with contextlib.suppress(OSError):
                os.waitpid(server.pid, os.WNOHANG)  # where it is a child of this very process
            time.sleep(0.05)
    return True


def mark_of(pid: int) -> str:
    """Return what names a process for good: its number and when it started, for numbers are used again."""
    with contextlib.suppress(OSError, IndexError):
        return f"{pid}-{Path(f'/proc/{pid}/stat').read_text().rpartition(')')[2].split()[19]}"
    return f"{pid}-gone"


def _record(home: Home) -> Path:
    return home.path / "server.json"


@dataclass(frozen=True)
class _Own:
    home: Path
    address: str
    process: subprocess.Popen[bytes]


_OWN: list[_Own] = []
_GUARD = Lock()


def api_of(home: Home) -> str:
    """Return the API of the server that flows of a home use: the kept one, or this process's own, started once."""
    server = kept_server(home)
    if server is not None:
        return server.api
    with _GUARD.held():
        if _OWN and (_OWN[0].home != home.path or _OWN[0].process.poll() is not None):
            end_own_server()
        if not _OWN:
            say(STARTING, 0, 1)
            # In a new home one after the other: its migrations race.
            ready = home.locks / f"prefect-{prefect.__version__}"
            with contextlib.nullcontext() if ready.exists() else locked(home.locks, "prefect server"):
                _OWN.append(_Own(home.path, *_started(home, 0.0)))
                ready.parent.mkdir(parents=True, exist_ok=True)
                ready.touch()
            atexit.register(end_own_server)
        return f"{_OWN[0].address}/api"


def one_authority(home: Home) -> dict[Any, str]:
    """Return the setting by which Prefect's clients read one certificate authority, of a file below the home.

    For a server of this machine, which is asked without TLS: for every client Prefect reads all authorities that there
    are, a fiftieth of a second each time. Nothing else is trusted by it. Empty where Prefect has not loaded their list,
    or it cannot be read.
    """
    path, known = home.path / "prefect" / "authority.pem", sys.modules.get("certifi")
    if known is None:
        return {}
    if not path.exists():
        try:
            first, end, _ = Path(known.where()).read_bytes().partition(b"-----END CERTIFICATE-----")
            write_aside(path, lambda aside: aside.write_bytes(first + end + b"\n"))
        except OSError:
            return {}
    return {PREFECT_API_SSL_CERT_FILE: str(path)}


def end_own_server() -> None:
    """End the server that this process has started, if there is one."""
    for own in _OWN:
        _drain()
        own.process.terminate()
        try:
            own.process.wait(5)
        except subprocess.TimeoutExpired:
            own.process.kill()
            own.process.wait()
    _OWN.clear()
    atexit.unregister(end_own_server)


def _drain() -> None:
    """Send what waits for the server: Prefect has one sender for a process, which would go on with the next server."""
    events: Any = sys.modules.get("prefect.events.worker")
    if events is not None:
        events.EventsWorker.drain_all(timeout=5)


def forget_runs(home: Home, older_than: float, dry_run: bool = False) -> int:
    """Delete what the home's own Prefect keeps of runs that ended so many seconds ago; return how many there are.

    A server that ``PREFECT_API_URL`` names is not touched: others use it too, and it has a vacuum of its own.
    """
    if PREFECT_API_URL.value() or not (home.path / "prefect" / "prefect.db").exists():
        return 0
    before = datetime.fromtimestamp(time.time() - older_than, UTC)
    old = FlowRunFilter.model_validate({"end_time": {"before_": before}})
    known: set[Any] = set()
    with temporary_settings({PREFECT_API_URL: api_of(home)}), get_client(sync_client=True) as client:
        while True:
            runs = client.read_flow_runs(flow_run_filter=old, limit=200, offset=len(known) if dry_run else 0)
            known |= {run.id for run in runs}
            for run in () if dry_run else runs:
                client.delete_flow_run(run.id)
            if len(runs) < 200:
                return len(known)


def cancel_run(flow_run: Any) -> None:
    """Mark a flow run, and its task runs that have not ended, as cancelled.

    The server writes down a moment later what tasks began: those that this process is at are waited for, if not long.
    """
    client, begun, known = get_client(sync_client=True), time.monotonic(), at_work()
    client.set_flow_run_state(flow_run, Cancelled(message="Stopped by a signal."), force=True)
    of_it = {"flow_run_id": {"any_": [flow_run]}, "state": {"type": {"any_": ["RUNNING", "PENDING"]}}}
    waited = 0.0
    while waited < UNKEPT_SECONDS or (known and waited < MOST_UNKEPT_SECONDS):
        time.sleep(0.25)
        for run in client.read_task_runs(task_run_filter=TaskRunFilter.model_validate(of_it)):
            client.set_task_run_state(run.id, Cancelled(message="Stopped by a signal."), force=True)
            known.discard(run.id)
        waited = time.monotonic() - begun


def _started(home: Home, idle_seconds: float) -> tuple[str, subprocess.Popen[bytes]]:
    """Return the address of a new server and its process; raises EvaluationError where none answers."""
    home.make()
    log = home.path / "prefect" / "server.log"
    log.parent.mkdir(parents=True, exist_ok=True)
    for _ in range(3):  # somebody else may take the port first
        port = _free_port()
        process = _run(home, port, idle_seconds, log)
        until = time.monotonic() + START_SECONDS
        while process.poll() is None and time.monotonic() < until:
            if _answers(f"http://127.0.0.1:{port}/api", 5.0):
                return f"http://127.0.0.1:{port}", process
            time.sleep(0.05)
        process.kill()
    last = log.read_text(errors="replace").strip().rpartition("\n")[2]
    raise EvaluationError(
        f"Prefect's embedded server does not start ({last[:300]}); see {log}, or say engine='plain' (--engine plain)."
    )


def _run(home: Home, port: int, idle_seconds: float, log: Path) -> subprocess.Popen[bytes]:
    settings = get_current_settings().to_environment_variables(exclude_unset=True)
    ours = {"PREFECT_UI_ENABLED": "0", "PREFECT__SERVER_EPHEMERAL": "1", "PREFECT__SERVER_FINAL": "1"}
    env = {name: value for name, value in {**os.environ, **settings, **ours}.items() if name != "PREFECT_API_URL"}
    with log.open("wb") as out:
        return subprocess.Popen(
            [sys.executable, "-P", "-m", __name__, str(port), str(idle_seconds), str(_record(home))],
            env=env, stdin=subprocess.DEVNULL if idle_seconds else subprocess.PIPE, stdout=out, stderr=out,
            start_new_session=True,
        )  # fmt: skip


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


_HERE = urllib.request.build_opener(urllib.request.ProxyHandler({}))  # a proxy knows nothing of this machine


def _answers(api: str, seconds: float) -> bool:
    try:
        with _HERE.open(f"{api}/health", timeout=seconds) as answer:
            return bool(answer.status == 200)
    except OSError:
        return False


class Used:
    """A web application that knows for how long nobody has used it; an open connection is a use."""

    def __init__(self, application: Any) -> None:
        self.application, self.under_way, self.last = application, 0, time.monotonic()

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Answer a request; see ASGI."""
        if scope["type"] == "lifespan":
            await self.application(scope, receive, send)
            return
        with self._counted():
            await self.application(scope, receive, send)

    @contextlib.contextmanager
    def _counted(self) -> Iterator[None]:
        self.under_way += 1
        try:
            yield
        finally:
            self.under_way -= 1
            self.last = time.monotonic()

    def idle_seconds(self) -> float:
        """Return for how many seconds nobody has used it."""
        return 0.0 if self.under_way else time.monotonic() - self.last


class _Ended:
    """A web application that marks, as the last thing that it does, what stopped flows have left as cancelled.

    ``cancel_run`` has done so where the server knew of it in time; what tasks began is told to it a moment late, and on
    a busy machine after the flow's process has ended.
    """

    def __init__(self, application: Any) -> None:
        self.application = application

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Answer a request; see ASGI."""

        async def told(message: Any) -> None:
            if message["type"] == "lifespan.shutdown.complete":  # the process ends as soon as that is told
                with contextlib.suppress(Exception):  # a history is no reason to end badly
                    await _end_what_was_cancelled()
            await send(message)

        await self.application(scope, receive, told if scope["type"] == "lifespan" else send)


async def _end_what_was_cancelled() -> None:
    from prefect.server.database import provide_database_interface
    from prefect.server.models import task_runs
    from prefect.server.schemas import filters, states

    models: Any = task_runs  # not all of which has types
    stopped = filters.FlowRunFilter.model_validate({"state": {"type": {"any_": ["CANCELLED"]}}})
    left = filters.TaskRunFilter.model_validate({"state": {"type": {"any_": ["RUNNING", "PENDING"]}}})
    async with provide_database_interface().session_context(True, with_for_update=True) as session:
        for run in await models.read_task_runs(session, flow_run_filter=stopped, task_run_filter=left):
            ended: Any = states.Cancelled(message="Stopped by a signal.")
            await models.set_task_run_state(session, run.id, ended, force=True)


def _end_with_starter() -> None:
    sys.stdin.read()  # until a kill -9 closes the other end: by PR_SET_PDEATHSIG the end of a thread would end it
    os.kill(os.getpid(), signal.SIGTERM)
    time.sleep(5)
    os._exit(1)


def _serve(port: int, idle_seconds: float, record: Path) -> None:
    if not idle_seconds:
        threading.Thread(target=_end_with_starter, daemon=True).start()
    import uvicorn
    from prefect.server.api.server import create_app

    used = Used(_Ended(create_app()))
    about: Any = {"host": "127.0.0.1", "port": port, "log_level": "error", "lifespan": "on"}
    server = uvicorn.Server(uvicorn.Config(used, timeout_graceful_shutdown=3, **about))
    if idle_seconds:
        threading.Thread(target=_end_when_idle, args=(used, server, idle_seconds, record), daemon=True).start()
    server.run()


def _end_when_idle(used: Used, server: Any, idle_seconds: float, record: Path) -> None:
    while not server.started:  # which may take longer than it may idle
        time.sleep(0.05)
    used.last = time.monotonic()
    while used.idle_seconds() < idle_seconds:
        time.sleep(min(1.0, idle_seconds / 10))
    with contextlib.suppress(OSError, ValueError):
        if json.loads(record.read_text(encoding="utf-8"))["pid"] == os.getpid():
            record.unlink()
    server.should_exit = True


if __name__ == "__main__":
    _serve(int(sys.argv[1]), float(sys.argv[2]), Path(sys.argv[3]))
