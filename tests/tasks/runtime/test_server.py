"""Prefect's server of a home: one for a process, or one that is kept and that later commands find."""

from __future__ import annotations

import inspect
import json
import os
import sqlite3
import ssl
import subprocess
import sys
import urllib.request
from pathlib import Path

import certifi
import pandas as pd
import pytest
from commands import evenfold
from evenfold.flows import split
from evenfold.tasks import Home
from evenfold.tasks.runtime.server import Used, keep_server, kept_server, mark_of, one_authority, stop_server
from prefect import Flow, Task, get_client
from prefect.settings import PREFECT_API_URL, PREFECT_SERVER_DATABASE_CONNECTION_URL, temporary_settings
from prefect.states import Cancelled, Running
from servers import ROOT, answers, environment, wait_until

CLI = [sys.executable, "-c", "from evenfold.flows.cli import main; main()"]
FLOWS = """
import os, ssl, sys
import pandas as pd
from evenfold.flows import split
from evenfold.flows.cli import main
from prefect.settings import PREFECT_API_SSL_CERT_FILE, temporary_settings
made, real = [], ssl.create_default_context

def counted(*args, **given):
    made.append(real(*args, **given))
    return made[-1]

def ran(name):
    made.clear()
    ssl.create_default_context = counted
    split(pd.DataFrame({"id": range(20), "y": [0, 1] * 10}), key="id", target="y", name=name, strategy="KFold")
    ssl.create_default_context = real
    print(servers_of(os.environ["EVENFOLD_HOME"]), max(context.cert_store_stats()["x509"] for context in made))

ran("one")
ran("two")
os.environ["PREFECT_API_SSL_CERT_FILE"] = sys.argv[1]
with temporary_settings({PREFECT_API_SSL_CERT_FILE: sys.argv[1]}):  # as Prefect reads it from there, when imported
    ran("three")
sys.argv = ["evenfold", "up", "--json"]
main()
"""
REAL = certifi.where()


def servers_of(home: str) -> int:
    """Return how many servers of a home there are on this machine."""
    told = subprocess.run(["ps", "-eww", "-o", "args"], capture_output=True, text=True).stdout
    return sum("evenfold.tasks.runtime.server" in line and home in line for line in told.splitlines())


def tell() -> None:
    """Do nothing: what is looked at is Prefect's record of it."""


def environment_of(home: Home) -> dict[str, str]:
    env = environment(home.path.parent, {"EVENFOLD_HOME": str(home.path)})
    del env["PREFECT_HOME"]
    return env


@pytest.mark.usefixtures("prefect_folder")
def test_flows_share_a_server_and_a_kept_one_is_found(home: Home, tmp_path: Path) -> None:
    """The flows of a process start one server; with a kept one no process does; it is ended when it is told to.

    A server of this machine is asked without TLS, and by a list of one authority: to read that of all takes a fiftieth
    of a second for every client. A list that the user names is the user's wish.
    """

    def up_here(*more: str) -> object:
        return json.loads(evenfold(home.path, "up", *more, "--json", EVENFOLD_HOME=str(home.path)).stdout)

    named = tmp_path / "authorities.pem"
    end = b"-----END CERTIFICATE-----"
    named.write_bytes(end.join([*Path(REAL).read_bytes().split(end)[:2], b"\n"]))
    # One process runs three flows and then the command, for its imports take longer than all of that.
    code = f"import subprocess\n{inspect.getsource(servers_of)}{FLOWS}"
    command = [sys.executable, "-c", code, str(named)]
    done = subprocess.run(command, env=environment_of(home), cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    one, two, three, *answer = done.stdout.splitlines()
    assert [one, two, three] == ["1 1", "1 1", "1 2"]  # servers, and authorities
    up = json.loads("".join(answer))
    assert up["started"]
    assert answers(f"{up['address']}/api/health")
    with temporary_settings(restore_defaults={PREFECT_API_URL}):
        split(pd.DataFrame({"id": range(20)}), key="id", name="four", strategy="KFold")
    assert servers_of(str(home.path)) == 1
    assert up_here() == {**up, "started": False}
    runs = urllib.request.Request(f"{up['address']}/api/flow_runs/count", b"{}", {"Content-Type": "application/json"})
    with urllib.request.urlopen(runs) as answer:  # the history of both processes is one
        assert json.load(answer) == 4
    assert up_here("--stop") == {"stopped": True}
    assert not answers(f"{up['address']}/api/health")
    assert up_here("--stop") == {"stopped": False}


@pytest.mark.usefixtures("prefect_folder")
def test_a_kept_server_ends_when_nobody_uses_it(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    """It leaves no record, and nobody takes a dead one's or another Prefect's for it.

    What tasks began is told to it a moment late: of a flow that a signal has stopped it leaves nothing RUNNING.
    """
    for name in ("PREFECT_HOME", "PREFECT_API_URL"):
        monkeypatch.delenv(name, raising=False)
    history = home.path / "prefect" / "prefect.db"
    with temporary_settings({PREFECT_SERVER_DATABASE_CONNECTION_URL: f"sqlite+aiosqlite:///{history}"}):
        made = keep_server(home, idle_seconds=2.0)
    record = home.path / "server.json"
    written = record.read_text()
    assert mark_of(made.pid) == made.mark
    record.write_text(json.dumps({**json.loads(written), "prefect": "3.0.0"}))
    assert kept_server(home) is None
    record.write_text(written)
    with temporary_settings({PREFECT_API_URL: made.api}), get_client(sync_client=True) as client:
        for name, ended in (("stopped", [Cancelled()]), ("goes on elsewhere", [])):
            run = client.create_flow_run(Flow(tell, name), state=Running())
            client.create_task_run(Task(tell), run.id, "0", name=f"fit, {name}", state=Running())
            for state in ended:
                client.set_flow_run_state(run.id, state, force=True)
    wait_until(lambda: not record.exists(), "the end of a server that nobody uses", 60)
    wait_until(lambda: os.waitpid(made.pid, os.WNOHANG) != (0, 0), "the end of its process", 60)
    left = dict(sqlite3.connect(history).execute("select name, state_type from task_run").fetchall())
    assert left == {"fit, stopped": "CANCELLED", "fit, goes on elsewhere": "RUNNING"}
    record.write_text(written)
    assert kept_server(home) is None
    assert not stop_server(home)


async def _nothing(*_: object) -> None:
    assert USED.idle_seconds() == 0.0


USED = Used(_nothing)


def test_a_connection_that_is_open_is_a_use() -> None:
    """As long as it is open; the seconds are counted from its end."""
    import asyncio

    assert USED.idle_seconds() > 0.0
    asyncio.run(USED({"type": "websocket"}, None, None))
    assert 0.0 < USED.idle_seconds() < 60.0


def test_a_list_of_authorities_need_not_be_utf_8_nor_be_there(
    home: Home, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Companies append their own, with comments in any encoding: no flow ends for it."""
    bundle = tmp_path / "authorities.pem"
    monkeypatch.setattr(certifi, "where", lambda: str(bundle))
    assert one_authority(home) == {}
    bundle.write_bytes("# Behörde für alle\n".encode("latin-1") + Path(REAL).read_bytes())
    (file,) = one_authority(home).values()
    assert ssl.create_default_context(cafile=file).cert_store_stats()["x509"] == 1
