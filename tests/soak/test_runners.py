"""The same flow in threads, processes, Dask and Ray: the same folds to the bit, the same scores to 1e-12."""

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from servers import environment, free_port, prefect_server, started, wait_until

pytestmark = pytest.mark.soak
SCRIPT = """
import json, os, sys
from evenfold.flows import evaluate
if __name__ == "__main__":
    spec = {"name": "rows", "columns": {"key": ["id"], "target": "y"}, "strategy": "StratifiedKFold"}
    found = evaluate(sys.argv[1], spec=spec, model={"estimator": "whose:Process", "params": {"folder": sys.argv[2]}})
    print(json.dumps(dict(split=found.split.split_id, scores=[each.test for each in found.scores], pid=os.getpid())))
"""
WHOSE = """
import os
from sklearn.linear_model import LogisticRegression

class Process(LogisticRegression):
    def __init__(self, folder="", C=1.0):
        super().__init__(C=C)
        self.folder = folder

    def fit(self, X, y):
        open(f"{self.folder}/{os.getpid()}", "w").close()
        return super().fit(X, y)
"""


def run(folder: Path, runner: str, api: str, more: dict[str, str] | None = None) -> tuple[dict[str, Any], set[str]]:
    place = folder / runner
    (place / "pids").mkdir(parents=True)
    (place / "whose.py").write_text(WHOSE)
    (place / "script.py").write_text(SCRIPT)
    draw = np.random.default_rng(1)
    frame = pd.DataFrame({"id": range(300), "a": draw.normal(size=300), "b": draw.normal(size=300)})
    frame.assign(y=(frame["a"] + draw.normal(size=300) > 0).astype(int)).to_parquet(place / "rows.parquet")
    env = environment(place, {"EVENFOLD_HOME": str(place / "home"), "PREFECT_API_URL": api, "EVENFOLD_RUNNER": runner})
    env |= {"PYTHONPATH": f"{place}:{env.get('PYTHONPATH', '')}", "EVENFOLD_WORKERS": "2", **(more or {})}
    command = [sys.executable, "script.py", "rows.parquet", str(place / "pids")]
    done = subprocess.run(command, env=env, cwd=place, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return json.loads(done.stdout.strip().splitlines()[-1]), {path.name for path in (place / "pids").iterdir()}


def same(one: dict[str, Any], other: dict[str, Any]) -> None:
    assert one["split"] == other["split"]
    for left, right in zip(one["scores"], other["scores"], strict=True):
        assert left == pytest.approx(right, abs=1e-12)


@pytest.fixture(scope="module")
def api(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with prefect_server(tmp_path_factory.mktemp("server")) as url:
        yield url


@pytest.mark.parametrize("runner", ["processes", "ray"])
def test_other_processes_give_what_threads_give(
    runner: str, api: str, tmp_path: Path, found: Callable[..., None]
) -> None:
    """Fits happen in other processes than the flow's, and nothing in the result tells."""
    if runner == "ray":
        reason = "evenfold[ray] is not installed; make soak leaves it out, it is large"
        pytest.importorskip("prefect_ray", reason=reason)
    threads, in_threads = run(tmp_path, "threads", api)
    outcome, pids = run(tmp_path, runner, api)
    same(threads, outcome)
    assert in_threads == {str(threads["pid"])}
    assert pids
    assert not pids & {str(outcome["pid"]), str(os.getpid())}
    found(workers=len(pids))


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
