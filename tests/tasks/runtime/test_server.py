"""Prefect's server of a home: one for a process, or one that is kept and that later commands find."""

from __future__ import annotations

import json
import subprocess
import urllib.request
from pathlib import Path

import pandas as pd
import pytest
from commands import evenfold
from evenfold.flows import split
from evenfold.tasks import Home
from evenfold.tasks.runtime.server import api_of, end_own_server, kept_server, stop_server
from prefect.settings import PREFECT_API_URL, PREFECT_SERVER_DATABASE_CONNECTION_URL, temporary_settings
from servers import answers


def servers_of(home: Path) -> int:
    """Return how many servers of a home there are on this machine."""
    told = subprocess.run(["ps", "-eww", "-o", "args", "e"], capture_output=True, text=True).stdout
    return sum("create_app" in line and f"EVENFOLD_HOME={home}" in line for line in told.splitlines())


@pytest.mark.usefixtures("prefect_folder")
def test_flows_share_a_server_and_a_kept_one_is_found(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    """The flows of a process start one server; with a kept one no process does; it is ended when it is told to.

    Nobody takes another Prefect's server for a kept one, nor the record of one that is dead.
    """

    def up_here(*more: str) -> dict[str, object]:
        told = evenfold(home.path, "up", *more, "--json", EVENFOLD_HOME=str(home.path)).stdout
        return json.loads(told)  # type: ignore[no-any-return]

    for name in ("PREFECT_HOME", "PREFECT_API_URL"):
        monkeypatch.delenv(name, raising=False)
    history = f"sqlite+aiosqlite:///{home.path / 'prefect' / 'prefect.db'}"
    with temporary_settings({PREFECT_SERVER_DATABASE_CONNECTION_URL: history}, restore_defaults={PREFECT_API_URL}):
        for name in ("one", "two"):
            split(pd.DataFrame({"id": range(20)}), key="id", name=name, strategy="KFold")
            assert (servers_of(home.path), kept_server(home)) == (1, None)
        own = api_of(home)
        end_own_server()
        assert not answers(f"{own}/health")
        up = up_here()
        assert up["started"]
        split(pd.DataFrame({"id": range(20)}), key="id", name="three", strategy="KFold")
        assert servers_of(home.path) == 1
        assert up_here() == {**up, "started": False}
    runs = urllib.request.Request(f"{up['address']}/api/flow_runs/count", b"{}", {"Content-Type": "application/json"})
    with urllib.request.urlopen(runs) as answer:  # the history of both servers is one
        assert json.load(answer) == 3
    record = home.path / "server.json"
    written = record.read_text()
    record.write_text(json.dumps({**json.loads(written), "prefect": "3.0.0"}))
    assert kept_server(home) is None
    record.write_text(written)
    assert up_here("--stop") == {"stopped": True}
    assert not answers(f"{up['address']}/api/health")
    record.write_text(written)
    assert (kept_server(home), stop_server(home)) == (None, False)
