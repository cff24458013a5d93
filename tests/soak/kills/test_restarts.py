"""A Prefect server that is killed and started again while a deployed run holds its slot."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from servers import answers, environment, free_port, started, wait_until

pytestmark = pytest.mark.soak
FILES = "prefect.server.concurrency.lease_storage.filesystem"
MEMORY = "prefect.server.concurrency.lease_storage.memory"
RENEWED_SECONDS = 225  # three quarters of Prefect's lease, after which it is renewed
LASTING = f"""
import time
from prefect import flow
@flow
def lasting():
    time.sleep({RENEWED_SECONDS + 60})
    return 1
"""
DEPLOY = """
import json, sys
from prefect import get_client
from prefect.client.schemas.objects import ConcurrencyLimitConfig
with get_client(sync_client=True) as client:
    flow = client.create_flow_from_name("lasting")
    made = client.create_deployment(
        flow, "one at a time", path=sys.argv[1], entrypoint="lasting.py:lasting", tags=["evenfold"],
        work_pool_name="pool", concurrency_limit=1, concurrency_options={"collision_strategy": "ENQUEUE"},
    )
    print(json.dumps(str(client.create_flow_run_from_deployment(made).id)))
"""
STATE = """
import json, sys
from prefect import get_client
with get_client(sync_client=True) as client:
    run = client.read_flow_run(sys.argv[1])
print(json.dumps([run.state.type.value, run.state.message]))
"""


def told(script: str, env: dict[str, str], *arguments: str) -> Any:
    done = subprocess.run([sys.executable, "-c", script, *arguments], env=env, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


@pytest.mark.parametrize(("storage", "ends"), [(FILES, "COMPLETED"), (MEMORY, "CRASHED")], ids=["files", "memory"])
def test_a_run_outlives_its_server_where_leases_are_files(
    storage: str, ends: str, tmp_path: Path, found: Callable[..., None]
) -> None:
    """Killed with -9 and started again after 10 s: with leases in files the run completes, with leases in memory not.

    Should the second change, the setting in compose.yaml and the docs is no longer needed.
    """
    (tmp_path / "lasting.py").write_text(LASTING)
    port = free_port()
    env = environment(tmp_path, {"PREFECT_SERVER_CONCURRENCY_LEASE_STORAGE": storage})
    command = [sys.executable, "-m", "prefect", "server", "start", "--host", "127.0.0.1", "--port", str(port)]
    api = f"http://127.0.0.1:{port}/api"
    client = {**env, "PREFECT_API_URL": api}
    with ExitStack() as stack:
        first = stack.enter_context(started(command, env, tmp_path / "server-1.log"))
        wait_until(lambda: answers(f"{api}/health"), "Prefect's server")
        prefect = [sys.executable, "-m", "prefect", "--no-prompt"]
        subprocess.run([*prefect, "work-pool", "create", "pool", "--type", "process"], env=client, check=True)
        run = told(DEPLOY, client, str(tmp_path))
        worker = [*prefect, "worker", "start", "--pool", "pool"]  # it holds the lease of the run's slot
        stack.enter_context(started(worker, client, tmp_path / "run.log", cwd=tmp_path))
        wait_until(lambda: told(STATE, client, run)[0] == "RUNNING", "the run's begin", 600)
        begun = time.monotonic()
        os.killpg(first.pid, signal.SIGKILL)
        time.sleep(10)
        stack.enter_context(started(command, env, tmp_path / "server-2.log"))
        wait_until(lambda: answers(f"{api}/health"), "Prefect's server again")
        over = ("COMPLETED", "CRASHED", "FAILED", "CANCELLED")
        wait_until(lambda: told(STATE, client, run)[0] in over, "the run's end", RENEWED_SECONDS + 900)
        state, message = told(STATE, client, run)
        found(state=state, message=str(message)[:120], seconds_of_the_run=round(time.monotonic() - begun))
        assert state == ends, (message, (tmp_path / "run.log").read_text()[-3000:])
