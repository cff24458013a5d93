"""A team's servers on loopback: PostgreSQL, Prefect, MLflow behind a password, and a process worker."""

import contextlib
import json
import subprocess
import sys
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
import yaml
from servers import ROOT, environment, install_postgres, mlflow_server, postgres, prefect_server, started

PASSWORD = "loopback-only-1"
LEASES = "prefect.server.concurrency.lease_storage.filesystem"  # as compose.yaml has it: a restart loses no slot
ELSEWHERE = {"TZ": "Pacific/Auckland"}  # servers, worker and flows; the schedules are Berlin's


@dataclass
class House:
    folder: Path
    env: dict[str, str]
    ports: dict[str, int]
    stack: contextlib.ExitStack  # of servers that were started again

    def prefect(self, *arguments: str) -> str:
        command = [sys.executable, "-m", "prefect", "--no-prompt", *arguments]
        done = subprocess.run(command, env=self.env, cwd=self.folder, capture_output=True, text=True)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def python(self, script: str) -> Any:
        command = [sys.executable, "-c", script]
        done = subprocess.run(command, env=self.env, cwd=ROOT, capture_output=True, text=True)
        assert done.returncode == 0, done.stdout + done.stderr
        return json.loads(done.stdout.strip().splitlines()[-1])

    def runs(self) -> list[dict[str, Any]]:
        flows = {flow["id"]: flow["name"] for flow in self._asked("flows")}
        return [run | {"flow": flows[run["flow_id"]]} for run in self._asked("flow_runs")]

    def state(self, run: str) -> str:
        try:
            (mine,) = self._asked("flow_runs", flow_runs={"id": {"any_": [run]}})
        except OSError:
            return "UNKNOWN"
        return str(mine["state_type"])

    def _asked(self, what: str, **about: Any) -> list[dict[str, Any]]:
        address = f"{self.env['PREFECT_API_URL']}/{what}/filter"
        json_type = {"Content-Type": "application/json"}
        request = urllib.request.Request(address, json.dumps(about).encode(), json_type)
        with urllib.request.urlopen(request, timeout=30) as answer:
            return list(json.load(answer))

    def recorded(self, query: str) -> list[Any]:
        import psycopg2

        address = f"postgresql://evenfold@127.0.0.1:{self.ports['postgresql']}/mlflow"
        with contextlib.closing(psycopg2.connect(address)) as database, database.cursor() as cursor:
            cursor.execute(query)
            return cursor.fetchall()

    def triggered(
        self, deployment: str, timeout: float = 300, env: Mapping[str, str] | None = None, **parameters: Any
    ) -> dict[str, Any]:
        more = {"job_variables": {"env": dict(env)}} if env else {}
        script = f"""
import json
from prefect.deployments import run_deployment
given, more = json.loads({json.dumps(json.dumps([parameters, more]))})
run = run_deployment({deployment!r}, parameters=given, timeout={timeout}, as_subflow=False, **more)
told = dict(id=str(run.id), state=run.state.name, message=run.state.message, starts=run.run_count)
print(json.dumps(told))
"""
        return dict(self.python(script))


@contextlib.contextmanager
def lived_in(folder: Path, described: Callable[[], dict[str, Any]]) -> Iterator[House]:
    """Yield the servers and a worker that runs what a prefect.yaml describes; skips where there is no PostgreSQL."""
    why = install_postgres()
    if why:
        pytest.skip(why)
    pytest.importorskip("psycopg2", reason="MLflow on PostgreSQL needs psycopg2; make soak installs it")
    pytest.importorskip("flask_wtf", reason="MLflow's passwords need flask-wtf; make soak installs it")
    with postgres(folder) as port:
        database = f"postgresql+asyncpg://evenfold@127.0.0.1:{port}/prefect"
        store = f"postgresql+psycopg2://evenfold@127.0.0.1:{port}/mlflow"
        server = ELSEWHERE | {"PREFECT_SERVER_CONCURRENCY_LEASE_STORAGE": LEASES}
        with prefect_server(folder, database, server) as api, mlflow_server(folder, store, PASSWORD) as tracking:
            more = {
                **ELSEWHERE,
                "PREFECT_API_URL": api,
                "MLFLOW_TRACKING_URI": tracking,
                "MLFLOW_TRACKING_USERNAME": "admin",
                "MLFLOW_TRACKING_PASSWORD": PASSWORD,
                "EVENFOLD_HOME": str(folder / "home"),
                "EVENFOLD_PROJECT": str(ROOT),
            }
            ports = {"postgresql": port, "prefect": _port_of(api), "mlflow": _port_of(tracking)}
            stack = contextlib.ExitStack()
            made = House(folder, environment(folder, more), ports, stack)
            made.prefect("work-pool", "create", "evenfold", "--type", "process")
            (folder / "prefect.yaml").write_text(yaml.safe_dump(described(), sort_keys=False))
            made.prefect("deploy", "--all", "--prefect-file", str(folder / "prefect.yaml"))
            command = [sys.executable, "-m", "prefect", "worker", "start", "--pool", "evenfold", "--name", "one"]
            with stack, started(command, made.env, folder / "worker.log", cwd=folder):
                yield made


def shipped() -> dict[str, Any]:
    return dict(yaml.safe_load((ROOT / "deployments" / "prefect.yaml").read_text()))


def _port_of(address: str) -> int:
    return int(urlsplit(address).port or 0)
