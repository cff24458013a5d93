"""Real servers on loopback, each in a process group of its own that ends with the test."""

import contextlib
import os
import select
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent
QUIET = {
    "DO_NOT_TRACK": "true",
    "MLFLOW_DISABLE_TELEMETRY": "true",
    "MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false",  # eight processes that nothing here gives any work
    "PREFECT_SERVER_ANALYTICS_ENABLED": "false",
    "PREFECT_SERVER_SERVICES_TASK_RUN_RECORDER_BATCH_SIZE": "200",
    "PREFECT_SERVER_SERVICES_TASK_RUN_RECORDER_READ_BATCH_SIZE": "50",
    "PREFECT_SERVER_SERVICES_EVENT_PERSISTER_BATCH_SIZE": "200",
    "PREFECT_SERVER_SERVICES_EVENT_PERSISTER_READ_BATCH_SIZE": "50",
}


def free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


def environment(folder: Path, more: Mapping[str, str] | None = None) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("PREFECT", "MLFLOW", "EVENFOLD"))}
    return {**kept, **QUIET, "PREFECT_HOME": str(folder / "prefect"), "OMP_NUM_THREADS": "1", **(more or {})}


@contextlib.contextmanager
def started(command: list[str], env: Mapping[str, str], log: Path, cwd: Path = ROOT) -> Iterator[subprocess.Popen[str]]:
    log.parent.mkdir(parents=True, exist_ok=True)
    with log.open("w") as out:
        process = subprocess.Popen(
            command, env=dict(env), stdout=out, stderr=subprocess.STDOUT, text=True, cwd=cwd, start_new_session=True
        )
    try:
        yield process
    finally:
        end(process)


def end(process: subprocess.Popen[str]) -> None:
    """End a process and its children: asked twice, for a worker takes the first SIGTERM as a request, then made to."""
    for how in (signal.SIGTERM, signal.SIGTERM, signal.SIGKILL):
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, how)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(5)
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)


@contextlib.contextmanager
def away(port: int, seconds: float, log: Path) -> Iterator[None]:
    """Kill -9 the server that listens on a port, with its process group; start it again as it was after a while."""
    leader = Path(f"/proc/{os.getpgid(_listener(port))}")
    command, env = ((leader / name).read_bytes().decode().rstrip("\0").split("\0") for name in ("cmdline", "environ"))
    cwd = (leader / "cwd").resolve()
    os.killpg(int(leader.name), signal.SIGKILL)
    time.sleep(seconds)
    with started(command, dict(each.split("=", 1) for each in env), log, cwd=cwd):
        wait_until(lambda: _listens(port), f"the server on port {port} again")
        yield


def _listens(port: int) -> bool:
    with socket.socket() as tried:
        return tried.connect_ex(("127.0.0.1", port)) == 0


def _listener(port: int) -> int:
    rows = [line.split() for line in Path("/proc/net/tcp").read_text().splitlines()[1:]]
    socket_of = {f"socket:[{row[9]}]" for row in rows if row[3] == "0A" and int(row[1].partition(":")[2], 16) == port}
    for process in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if any(os.readlink(opened) in socket_of for opened in (process / "fd").iterdir()):
                return int(process.name)
    raise AssertionError(f"nothing listens on port {port}")


def wait_until(ready: Callable[[], object], what: str, seconds: float = 180, every: float = 0.1) -> object:
    end_at = time.monotonic() + seconds
    while time.monotonic() < end_at:
        found = ready()
        if found:
            return found
        time.sleep(every)
    raise AssertionError(f"{what} did not happen within {seconds:.0f} s")


def answers(url: str) -> bool:
    try:
        with urllib.request.urlopen(url, timeout=30) as answer:
            return bool(answer.status == 200)
    except urllib.error.HTTPError as error:
        return error.code == 401
    except OSError:
        return False


@contextlib.contextmanager
def file_server(folder: Path, query: str) -> Iterator[str]:
    """Yield the address of a server of a folder's files, each whole, which refuses whoever does not send the query."""

    class Files(SimpleHTTPRequestHandler):
        def send_head(self) -> Any:
            if self.path.partition("?")[2] != query:
                return self.send_error(403)
            return super().send_head()

        def log_message(self, *words: Any) -> None:
            """Stay silent."""

    with ThreadingHTTPServer(("127.0.0.1", 0), partial(Files, directory=str(folder))) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()


@contextlib.contextmanager
def losing_an_answer(api: str, to: bytes) -> Iterator[tuple[str, threading.Event]]:
    """Yield another address of a server, and what is set once the first answer to a request with ``to`` in it is lost.

    The server has done what it was asked then, and the client is told nothing: its connection ends.
    """
    place = urllib.parse.urlsplit(api)
    lost = threading.Event()

    def between(client: socket.socket) -> None:
        asked = b""
        with client, socket.create_connection((str(place.hostname), place.port or 80)) as server:
            while True:
                for ready in select.select([client, server], [], [])[0]:
                    passed = ready.recv(1 << 16)
                    asked = asked + passed if ready is client else asked
                    if not passed or (ready is server and to in asked and not lost.is_set()):
                        if passed:
                            lost.set()
                        return
                    (server if ready is client else client).sendall(passed)
                    asked = asked if ready is client else b""

    def accept() -> None:
        with contextlib.suppress(OSError):
            while True:
                threading.Thread(target=between, args=listener.accept()[:1], daemon=True).start()

    with socket.create_server(("127.0.0.1", 0)) as listener:
        threading.Thread(target=accept, daemon=True).start()
        yield place._replace(netloc=f"127.0.0.1:{listener.getsockname()[1]}").geturl(), lost
        listener.shutdown(socket.SHUT_RDWR)


@contextlib.contextmanager
def prefect_server(folder: Path, database: str | None = None, more: Mapping[str, str] | None = None) -> Iterator[str]:
    port = free_port()
    more = {**(more or {}), **({"PREFECT_API_DATABASE_CONNECTION_URL": database} if database else {})}
    command = [sys.executable, "-m", "prefect", "server", "start", "--host", "127.0.0.1", "--port", str(port)]
    with started(command, environment(folder, more), folder / "prefect-server.log"):
        url = f"http://127.0.0.1:{port}/api"
        wait_until(lambda: answers(f"{url}/health"), "Prefect's server")
        yield url


# As ``mlflow server`` starts it, whose own process takes as long again to import the same.
MLFLOW = """
import gc, os, sys
gc.set_threshold(100_000, 50, 1_000)
import uvicorn
from mlflow import server
store, artifacts, port = sys.argv[1:]
os.environ |= {
    server.BACKEND_STORE_URI_ENV_VAR: store, server.SERVE_ARTIFACTS_ENV_VAR: "true",
    server.ARTIFACTS_DESTINATION_ENV_VAR: artifacts, server.ARTIFACT_ROOT_ENV_VAR: "mlflow-artifacts:/",
}
uvicorn.run("mlflow.server.fastapi_app:app", host="127.0.0.1", port=int(port), log_level="warning")
"""


@contextlib.contextmanager
def mlflow_server(folder: Path, store: str, password: str | None = None, port: int | None = None) -> Iterator[str]:
    port = port or free_port()
    command = [sys.executable, "-c", MLFLOW, store, str(folder / "artifacts"), str(port)]
    more: dict[str, str] = {}
    if password:
        command, more = _with_users(folder, store, password, port)
    with started(command, environment(folder, more), folder / "mlflow-server.log"):
        url = f"http://127.0.0.1:{port}"
        wait_until(lambda: answers(f"{url}/health"), "MLflow's server")
        yield url


def _with_users(folder: Path, store: str, password: str, port: int) -> tuple[list[str], dict[str, str]]:
    """Return command and environment of a server of MLflow's that asks for a password."""
    (folder / "auth").mkdir(parents=True, exist_ok=True)
    (folder / "auth" / "auth.ini").write_text(
        "[mlflow]\ndefault_permission = READ\nadmin_username = admin\n"
        f"database_uri = sqlite:///{folder / 'auth' / 'auth.db'}\n"
        "authorization_function = mlflow.server.auth:authenticate_request_basic_auth\n"
    )
    more = {"MLFLOW_AUTH_CONFIG_PATH": str(folder / "auth" / "auth.ini"), "MLFLOW_FLASK_SERVER_SECRET_KEY": "loopback"}
    more |= {"MLFLOW_AUTH_ADMIN_PASSWORD": password}
    command = [
        *(sys.executable, "-m", "mlflow", "server", "--host", "127.0.0.1", "--port", str(port), "--workers", "1"),
        *("--backend-store-uri", store, "--artifacts-destination", str(folder / "artifacts")),
        *("--app-name", "basic-auth"),
    ]
    return command, more


def install_postgres() -> str | None:
    if list(Path("/usr/lib/postgresql").glob("*/bin/postgres")):
        return None
    if os.geteuid() != 0:
        return "PostgreSQL is not installed, and only root may install it"
    command = ["apt-get", "install", "--yes", "--no-install-recommends", "postgresql"]
    subprocess.run(["apt-get", "update"], capture_output=True)
    done = subprocess.run(
        command, capture_output=True, text=True, env={**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    )
    return None if done.returncode == 0 else f"PostgreSQL could not be installed: {done.stderr.strip()[-200:]}"


@contextlib.contextmanager
def postgres(folder: Path) -> Iterator[int]:
    """Yield the port of a new PostgreSQL server of Debian's, with databases prefect and mlflow, user evenfold."""
    programs = sorted(Path("/usr/lib/postgresql").glob("*/bin"))
    assert programs, "there is no PostgreSQL"
    # A folder of its own: PostgreSQL refuses to be run by root, and other users may not enter pytest's folders.
    place, port = Path(tempfile.mkdtemp(prefix="evenfold-postgres-")), free_port()
    user: list[str] = []
    if os.geteuid() == 0:
        shutil.chown(place, "postgres")
        user = ["runuser", "-u", "postgres", "--"]

    def run(*command: str) -> None:
        subprocess.run([*user, *command], check=True, capture_output=True, cwd="/")

    run(f"{programs[-1]}/initdb", "-D", str(place / "data"), "-U", "evenfold", "-A", "trust", "--no-sync")
    options = ["-D", str(place / "data"), "-p", str(port), "-h", "127.0.0.1", "-k", str(place), "-F"]
    command = [*user, f"{programs[-1]}/postgres", *options]
    with started(command, os.environ, folder / "postgres.log", cwd=Path("/")):
        ready = [f"{programs[-1]}/pg_isready", "-h", "127.0.0.1", "-p", str(port)]
        wait_until(lambda: subprocess.run(ready, capture_output=True).returncode == 0, "PostgreSQL")
        for name in ("prefect", "mlflow"):
            run(f"{programs[-1]}/createdb", "-h", "127.0.0.1", "-p", str(port), "-U", "evenfold", name)
        yield port
    shutil.rmtree(place, ignore_errors=True)
