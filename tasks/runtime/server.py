"""Prefect's server for a home without another: one that is kept for later commands, or one of this process's own.

It runs in a session of its own, so that a Ctrl-C in the terminal does not end it before the runs on it are marked.
Prefect's own were tried: its temporary server lives on after a kill -9 of its flow, and ``prefect server start
--background`` has one port for all homes, and a file of a process number that ``stop`` signals whoever has it now.
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
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path

import prefect
from evenfold.splitters.errors import EvaluationError
from prefect.client.orchestration import get_client
from prefect.client.schemas.filters import FlowRunFilter
from prefect.settings import PREFECT_API_URL, get_current_settings, temporary_settings

from .home import Home, embedded_settings, environment, keep_file, locked
from .progress import say

START_SECONDS = 300.0
# One that is not kept lives until its stdin ends, which a kill -9 of who started it closes: by PR_SET_PDEATHSIG the end
# of a thread would end it.
_SERVER = """
import gc, os, signal, socket, sys, threading, time, uvicorn
gc.set_threshold(100_000, 50, 1_000)  # what is imported stays, as in the command line
from prefect.server.api.server import create_app
def end_with_starter():
    sys.stdin.read()
    os.kill(os.getpid(), signal.SIGTERM)
    time.sleep(5)
    os._exit(1)
if sys.argv[2] == "own":
    threading.Thread(target=end_with_starter, daemon=True).start()
app = create_app(ephemeral=True, final=True)
server = uvicorn.Server(uvicorn.Config(app, log_level="error", lifespan="on", timeout_graceful_shutdown=3))
server.run([socket.socket(fileno=int(sys.argv[1]))])
"""


@dataclass(frozen=True)
class Server:
    """A server on this machine, as a home's ``server.json`` names the one that stays for its commands."""

    port: int
    pid: int
    mark: str
    prefect: str

    @property
    def address(self) -> str:
        """Return its address, which is on this machine."""
        return f"http://127.0.0.1:{self.port}"

    @property
    def api(self) -> str:
        """Return the value of ``PREFECT_API_URL`` for it."""
        return f"{self.address}/api"


def _living_server(home: Home) -> Server | None:
    """Return the server that a home's ``server.json`` names, where it lives."""
    try:
        server = Server(**json.loads((home.path / "server.json").read_text(encoding="utf-8")))
    except (OSError, ValueError, TypeError):
        return None
    return server if mark_of(server.pid) == server.mark else None


def kept_server(home: Home) -> Server | None:
    """Return the server that is kept for a home, where it lives, is of this Prefect's version and answers."""
    server = _living_server(home)
    return server if server and server.prefect == prefect.__version__ and _answers(server, 10.0) else None


def keep_server(home: Home) -> Server:
    """Return the server that is kept for a home, started now where none is; it stays until it is stopped."""
    home.make()
    with locked(home.locks, "kept server"):
        if server := kept_server(home):
            return server
        stop_server(home)  # of another Prefect, or deaf: two would share a database
        return _started(home, keep=True)[0]


def stop_server(home: Home) -> bool:
    """End the server that is kept for a home, whatever its version, and return whether there was one."""
    server = _living_server(home)
    (home.path / "server.json").unlink(missing_ok=True)
    if server is not None:
        _end(server.pid)
    return server is not None


def _end(pid: int) -> None:
    mark = mark_of(pid)
    for how in (signal.SIGTERM, signal.SIGKILL):
        until = time.monotonic() + 5
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, how)
        while time.monotonic() < until and mark_of(pid) == mark:
            with contextlib.suppress(OSError):
                os.waitpid(pid, os.WNOHANG)  # where it is a child of this very process
            time.sleep(0.05)


def mark_of(pid: int) -> str:
    """Return what names a process for good: its number and when it started, for numbers are used again."""
    with contextlib.suppress(OSError, IndexError):
        return f"{pid}-{Path(f'/proc/{pid}/stat').read_text().rpartition(')')[2].split()[19]}"
    return f"{pid}-gone"


_OWN: dict[Path, tuple[Server, subprocess.Popen[bytes]]] = {}  # of one home, or none
_GUARD = threading.Lock()


def api_of(home: Home) -> str:
    """Return the API of the server that flows of a home use: the kept one, or this process's own, started once."""
    if server := kept_server(home):
        return server.api
    with _GUARD:
        if home.path not in _OWN or _OWN[home.path][1].poll() is not None:
            end_own_server()
            what = "starting Prefect's embedded server, 10 to 20 s"
            say(f"{what} (evenfold up keeps one; --engine plain needs none)", 0, 1)
            # In a new home one after the other: its migrations race.
            ready = home.locks / f"prefect-{prefect.__version__}"
            with contextlib.nullcontext() if ready.exists() else locked(home.locks, "prefect server"):
                _OWN[home.path] = _started(home)
                ready.parent.mkdir(parents=True, exist_ok=True)
                ready.touch()
            atexit.register(end_own_server)
        return _OWN[home.path][0].api


def end_own_server() -> None:
    """End the server that this process has started, if there is one."""
    for _, process in _OWN.values():
        # One sender for a process, which would go on with the next server.
        if events := sys.modules.get("prefect.events.worker"):
            events.EventsWorker.drain_all(timeout=5)
        with process:  # left open and unheard of, Python would warn of it at the end of a command
            if process.poll() is None:  # else its number may be another's by now
                _end(process.pid)
    _OWN.clear()
    atexit.unregister(end_own_server)


def forget_runs(home: Home, older_than: float, dry_run: bool = False) -> int:
    """Delete what the home's own Prefect keeps of runs that ended so many seconds ago; return how many there are."""
    # Another server has a vacuum of its own; an embedded one runs it for events alone (3.9.1).
    if PREFECT_API_URL.value() or not (home.path / "prefect" / "prefect.db").exists():
        return 0
    before = datetime.fromtimestamp(time.time() - older_than, UTC)
    old = FlowRunFilter.model_validate({"end_time": {"before_": before}})
    with temporary_settings({PREFECT_API_URL: api_of(home)}), get_client(sync_client=True) as client:
        n_runs = client.count_flow_runs(flow_run_filter=old)
        while runs := [] if dry_run else client.read_flow_runs(flow_run_filter=old, limit=200):
            for run in runs:
                client.delete_flow_run(run.id)
    return n_runs


def _started(home: Home, keep: bool = False) -> tuple[Server, subprocess.Popen[bytes]]:
    """Return a new server and its process; raises EvaluationError where none answers."""
    home.make()
    log = home.path / "prefect" / "server.log"
    log.parent.mkdir(parents=True, exist_ok=True)
    settings = get_current_settings().to_environment_variables(exclude_unset=True)
    env = embedded_settings(home) | environment() | settings
    env.pop("PREFECT_API_URL", None)
    with socket.socket() as place, log.open("wb") as out:
        place.bind(("127.0.0.1", 0))
        port = int(place.getsockname()[1])
        process = subprocess.Popen(
            [sys.executable, "-P", "-c", _SERVER, str(place.fileno()), "kept" if keep else "own"], env=env,
            stdin=subprocess.DEVNULL if keep else subprocess.PIPE, stdout=out, stderr=out, start_new_session=True,
            pass_fds=[place.fileno()],
        )  # fmt: skip
    server = Server(port, process.pid, mark_of(process.pid), prefect.__version__)
    if keep:  # before it answers: who is stopped while waiting for that leaves one that is found, and can be ended
        keep_file(home.path / "server.json", json.dumps(asdict(server)).encode())
    until = time.monotonic() + START_SECONDS
    while process.poll() is None and time.monotonic() < until:
        if _answers(server, 5.0):
            return server, process
        time.sleep(0.05)
    process.kill()
    last = log.read_text(errors="replace").strip().rpartition("\n")[2]
    raise EvaluationError(
        f"Prefect's embedded server does not start ({last[:300]}); see {log}, or say engine='plain' (--engine plain)."
    )


def _answers(server: Server, seconds: float) -> bool:
    try:
        here = urllib.request.build_opener(urllib.request.ProxyHandler({}))  # a proxy knows nothing of this machine
        with here.open(f"{server.api}/health", timeout=seconds) as answer:
            return bool(answer.status == 200)
    except OSError:
        return False
