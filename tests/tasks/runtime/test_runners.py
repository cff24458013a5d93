"""The same flow in threads and in processes: the same folds to the bit, the same scores to 1e-12."""

import importlib
import json
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import cloudpickle
import numpy as np
import pandas as pd
import pytest
from evenfold.tasks.runtime.runners import task_runner
from prefect import Task
from prefect.settings import PREFECT_API_URL, temporary_settings
from servers import environment

from evenfold import tasks

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


@pytest.mark.soak
def test_processes_give_what_threads_give(prefect_server: str, tmp_path: Path) -> None:
    """Fits happen in other processes than the flow's, and nothing in the result tells."""
    threads, in_threads = run(tmp_path, "threads", prefect_server)
    processes, in_processes = run(tmp_path, "processes", prefect_server)
    assert in_threads == {str(threads["pid"])}
    assert str(processes["pid"]) not in in_processes
    assert len(in_processes) >= 1
    assert len(threads["scores"]) == 5
    same(threads, processes)


def steps() -> dict[str, Task[..., Any]]:
    rooms = [importlib.import_module(f"evenfold.tasks.{name}") for name in ("fits", "scores", "splits")]
    offered = {name: getattr(tasks, name) for name in tasks.__all__}
    made = dict(pair for room in rooms for pair in vars(room).items()) | offered
    return {name: task for name, task in made.items() if isinstance(task, Task)}


def test_every_task_reaches_a_worker_by_pickle() -> None:
    """As it is, with other options, and the bare function by value, as Dask and Ray take what a user wraps."""
    for name, made in steps().items():
        for sent in (made, made.with_options(retries=7, tags={"nightly"})):
            came = cloudpickle.loads(cloudpickle.dumps(sent))
            assert (type(came), came.fn) == (Task, made.fn)
            for what in ("name", "retries", "tags", "cache_policy"):
                assert getattr(came, what) == getattr(sent, what), (name, what)
        assert cloudpickle.loads(cloudpickle.dumps(made.fn)).__wrapped__.__qualname__ == name


def test_what_sends_on_for_a_pool_knows_the_server_of_its_flow(monkeypatch: pytest.MonkeyPatch) -> None:
    """That thread of Prefect's started a server of its own, which stayed: a command whose output is read hung."""
    monkeypatch.setenv("EVENFOLD_RUNNER", "processes")
    monkeypatch.delenv("PREFECT_API_URL", raising=False)
    with temporary_settings({PREFECT_API_URL: "http://127.0.0.1:1/api"}):
        runner = task_runner().duplicate()  # as a flow begins it
    (begin,) = runner.subprocess_message_processor_factories

    def sent_on() -> tuple[object, str | None]:
        return begin()("log", {"message": "fitted"}), PREFECT_API_URL.value()

    with ThreadPoolExecutor(1) as thread:
        assert thread.submit(sent_on).result() == (("log", {"message": "fitted"}), "http://127.0.0.1:1/api")
