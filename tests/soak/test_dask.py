"""Dask with a real scheduler and two worker processes on loopback, one of which dies."""

import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from servers import environment, free_port, prefect_server, started, wait_until
from test_runners import run, same

pytestmark = pytest.mark.soak


@pytest.fixture(scope="module")
def api(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with prefect_server(tmp_path_factory.mktemp("server")) as url:
        yield url


def test_dask_gives_what_threads_give(api: str, tmp_path: Path, found: Callable[..., None]) -> None:
    """Two workers fit, the folds are the same to the bit and the scores to 1e-12; the death of one changes nothing."""
    pytest.importorskip("prefect_dask", reason="make soak installs evenfold[dask]")
    port = free_port()
    address = f"tcp://127.0.0.1:{port}"
    place = tmp_path / "dask"
    env = environment(tmp_path, {"PREFECT_API_URL": api})
    env["PYTHONPATH"] = f"{place}:{env.get('PYTHONPATH', '')}"
    scheduler = [sys.executable, "-m", "distributed.cli.dask_scheduler", "--host", "127.0.0.1", "--port", str(port)]
    worker = [sys.executable, "-m", "distributed.cli.dask_worker", address, "--nthreads", "1", "--no-dashboard"]
    place.mkdir()  # Python does not look again in a folder that was not there when it started
    threads, _ = run(tmp_path, "threads", api)
    log = tmp_path / "logs"
    with (
        started([*scheduler, "--no-dashboard"], env, log / "scheduler.log"),
        started([*worker, "--no-nanny"], env, log / "one.log", cwd=tmp_path) as one,
        started([*worker, "--no-nanny"], env, log / "two.log", cwd=tmp_path) as two,
    ):
        wait_until(lambda: "Registered to" in (log / "two.log").read_text(), "the second worker", 60)
        told, pids = run(tmp_path, "dask", api, {"EVENFOLD_RUNNER_ADDRESS": address})
        same(threads, told)
        assert pids == {str(one.pid), str(two.pid)}

        def die() -> None:
            time.sleep(6)
            os.kill(one.pid, signal.SIGKILL)

        death = threading.Thread(target=die)
        death.start()
        (tmp_path / "dask").rename(tmp_path / "before")
        after, _ = run(tmp_path, "dask", api, {"EVENFOLD_RUNNER_ADDRESS": address})
        death.join()
        same(threads, after)
    found(workers=2, died=1, largest_difference="below 1e-12")
