"""Prefect's server of a home: one for a process, or one that is kept and that later commands find."""

from __future__ import annotations

import json
import os
import signal
import ssl
import subprocess
import sys
import urllib.request
from pathlib import Path

import certifi
import pytest
from commands import evenfold
from evenfold.tasks import Home
from evenfold.tasks.runtime.orphans import mark_of
from evenfold.tasks.runtime.server import Used, keep_server, kept_server, one_authority, stop_server
from servers import ROOT, answers, environment, free_port, wait_until

CLI = [sys.executable, "-c", "from evenfold.flows.cli import main; main()"]
TWO = """
import subprocess
import pandas as pd
from evenfold.flows import split
for name in ("one", "two"):
    rows = pd.DataFrame({"id": range(20), "y": [0, 1] * 10})
    split(rows, key="id", target="y", name=name, strategy="KFold")
    told = subprocess.run(["ps", "-e", "-o", "args"], capture_output=True, text=True).stdout
    home = __import__("os").environ["EVENFOLD_HOME"]
    print(sum("evenfold.tasks.runtime.server" in line and home in line for line in told.splitlines()))
"""
CLIENTS = """
import ssl
import pandas as pd
from evenfold.flows import split
rows = pd.DataFrame({"id": range(20), "y": [0, 1] * 10})
made, real = [], ssl.create_default_context

def counted(*args, **given):
    made.append(real(*args, **given))
    return made[-1]

for name in ("one", "two"):
    made.clear()
    ssl.create_default_context = counted
    split(rows, key="id", target="y", name=name, strategy="KFold")
    ssl.create_default_context = real
    print(max(context.cert_store_stats()["x509"] for context in made))
"""
REAL = certifi.where()
UP = """
import sys
from evenfold.flows.cli import main
sys.argv = ["evenfold", "up", "--json"]
main()
"""


def told(command: list[str], env: dict[str, str]) -> str:
    done = subprocess.run(command, env=env, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


def environment_of(home: Home) -> dict[str, str]:
    env = environment(home.path.parent, {"EVENFOLD_HOME": str(home.path)})
    del env["PREFECT_HOME"]
    return env


@pytest.mark.usefixtures("prefect_folder")
def test_flows_share_a_server_and_a_kept_one_is_found(home: Home) -> None:
    """Two flows in one process start one server; with a kept one none is started; it is ended when it is told to."""
    env = environment_of(home)

    def up_here(*more: str) -> object:
        return json.loads(evenfold(home.path, "up", *more, "--json", EVENFOLD_HOME=str(home.path)).stdout)

    # One process runs both flows and then the command, for its imports take longer than all of that.
    first, second, *answer = told([sys.executable, "-c", TWO + UP], env).splitlines()
    assert (first, second) == ("1", "1")
    up = json.loads("".join(answer))
    assert up["started"]
    assert answers(f"{up['address']}/api/health")
    assert told([sys.executable, "-c", TWO], env).split() == ["1", "1"]
    assert up_here() == {**up, "started": False}
    runs = urllib.request.Request(f"{up['address']}/api/flow_runs/count", b"{}", {"Content-Type": "application/json"})
    with urllib.request.urlopen(runs) as answer:  # the history of both processes is one
        assert json.load(answer) == 4
    assert up_here("--stop") == {"stopped": True}
    assert not answers(f"{up['address']}/api/health")
    assert up_here("--stop") == {"stopped": False}


def test_a_kept_server_ends_when_nobody_uses_it(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    """It leaves no record, and nobody takes a dead one's or another Prefect's for it."""
    for name in ("PREFECT_HOME", "PREFECT_API_URL"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("PREFECT_HOME", str(home.path / "prefect"))
    made = keep_server(home, idle_seconds=2.0)
    record = home.path / "server.json"
    written = record.read_text()
    assert mark_of(made.pid) == made.mark
    record.write_text(json.dumps({**json.loads(written), "prefect": "3.0.0"}))
    assert kept_server(home) is None
    record.write_text(written)
    wait_until(lambda: not record.exists(), "the end of a server that nobody uses", 60)
    wait_until(lambda: os.waitpid(made.pid, os.WNOHANG) != (0, 0), "the end of its process", 60)
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


@pytest.mark.soak
def test_the_pages_of_ui_know_their_server(home: Home, tmp_path: Path) -> None:
    """What is printed answers by then, Prefect's page is told where its server is, and nothing else is said."""
    port = free_port()
    process = subprocess.Popen(
        [*CLI, "ui", "--port", str(port)], env=environment_of(home), cwd=ROOT, stdout=subprocess.PIPE,
        stderr=subprocess.PIPE, text=True, start_new_session=True,
    )  # fmt: skip
    assert process.stdout is not None
    said = [process.stdout.readline() for _ in range(5)]
    assert said[2:] == [
        f"MLflow  http://127.0.0.1:{port}\n", f"Prefect http://127.0.0.1:{port + 1}\n", "Ctrl-C ends them\n"
    ]  # fmt: skip
    with urllib.request.urlopen(f"http://127.0.0.1:{port + 1}/ui-settings", timeout=10) as answer:
        assert json.load(answer)["api_url"] == f"http://127.0.0.1:{port + 1}/api"
    wait_until(lambda: answers(f"http://127.0.0.1:{port}/health"), "MLflow's answer", 60)
    os.killpg(process.pid, signal.SIGTERM)
    out, err = process.communicate(timeout=60)
    assert (process.returncode, out, err.count("\n")) == (143, "", 1)
    wait_until(lambda: not answers(f"http://127.0.0.1:{port + 1}/api/health"), "the end of Prefect's page", 30)
    wait_until(lambda: not answers(f"http://127.0.0.1:{port}/health"), "the end of MLflow's page", 30)


@pytest.mark.usefixtures("prefect_folder")
def test_to_ask_its_own_server_a_flow_reads_one_authority_unless_the_user_named_some(home: Home) -> None:
    """It is asked without TLS; the list of all of them takes a fiftieth of a second for every client."""
    env = environment_of(home)
    assert told([sys.executable, "-c", CLIENTS], env).split() == ["1", "1"]
    named = {"PREFECT_API_SSL_CERT_FILE": certifi.where()}
    assert int(told([sys.executable, "-c", CLIENTS], env | named).split()[1]) > 1


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
