"""Prefect's server of a home: one for a process, or one that is kept and that later commands find."""

import inspect
import json
import subprocess
import sys
import urllib.request

import pandas as pd
import pytest
from commands import evenfold
from evenfold.flows import split
from evenfold.tasks import Home
from evenfold.tasks.runtime.server import kept_server
from prefect.events.worker import EventsWorker
from prefect.settings import PREFECT_API_URL, temporary_settings
from servers import ROOT, answers, environment

FLOWS = """
import os, sys
import pandas as pd
from evenfold.flows import split
from evenfold.flows.cli import main
for name in ("one", "two"):
    split(pd.DataFrame({"id": range(20), "y": [0, 1] * 10}), key="id", target="y", name=name, strategy="KFold")
    print(servers_of(os.environ["EVENFOLD_HOME"]))
sys.argv = ["evenfold", "up", "--json"]
main()
"""


def servers_of(home: str) -> int:
    told = subprocess.run(["ps", "-eww", "-o", "args", "e"], capture_output=True, text=True).stdout
    ours = [line for line in told.splitlines() if f"EVENFOLD_HOME={home}" in line and "servers_of" not in line]
    return sum("create_app" in line for line in ours)


@pytest.mark.usefixtures("prefect_folder")
def test_flows_share_a_server_and_a_kept_one_is_found(home: Home) -> None:
    """The flows of a process start one server; with a kept one no process does; it is ended when it is told to."""

    def up_here(*more: str) -> object:
        return json.loads(evenfold(home.path, "up", *more, "--json", EVENFOLD_HOME=str(home.path)).stdout)

    # One process runs three flows and then the command, for its imports take longer than all of that.
    code = f"import subprocess\n{inspect.getsource(servers_of)}{FLOWS}"
    command = [sys.executable, "-W", "always::ResourceWarning", "-c", code]
    env = environment(home.path.parent, {"EVENFOLD_HOME": str(home.path)})
    del env["PREFECT_HOME"]
    done = subprocess.run(command, env=env, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "unclosed file <_io.BufferedWriter" not in done.stderr, "its own server's, which has ended"
    one, two, *answer = done.stdout.splitlines()
    assert [one, two] == ["1", "1"]
    up = json.loads("".join(answer))
    assert up["started"]
    assert answers(f"{up['address']}/api/health")
    with temporary_settings(restore_defaults={PREFECT_API_URL}):
        split(pd.DataFrame({"id": range(20)}), key="id", name="three", strategy="KFold")
        EventsWorker.drain_all(60)  # or what it has left for a server that is gone would be waited for at the end
    assert servers_of(str(home.path)) == 1
    assert up_here() == {**up, "started": False}
    runs = urllib.request.Request(f"{up['address']}/api/flow_runs/count", b"{}", {"Content-Type": "application/json"})
    with urllib.request.urlopen(runs) as answer:  # the history of both processes is one
        assert json.load(answer) == 3
    record = home.path / "server.json"
    written = record.read_text()
    record.write_text(json.dumps({**json.loads(written), "prefect": "3.0.0"}))
    assert kept_server(home) is None, "another Prefect's"
    assert up_here("--stop") == {"stopped": True}
    assert not answers(f"{up['address']}/api/health")
    record.write_text(written)
    assert kept_server(home) is None, "a dead one"
    assert up_here("--stop") == {"stopped": False}
