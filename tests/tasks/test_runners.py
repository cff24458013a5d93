"""The same flow in threads and in processes: the same folds to the bit, the same scores to 1e-12."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from evenfold.splitters import SplitError
from evenfold.tasks.runtime.runners import task_runner
from servers import environment, prefect_server

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


@pytest.fixture(scope="module")
def api(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with prefect_server(tmp_path_factory.mktemp("server")) as url:
        yield url


def run(folder: Path, runner: str, api: str, more: dict[str, str] | None = None) -> tuple[dict[str, Any], set[str]]:
    """Return what an evaluation with this runner came to, and which processes fitted."""
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
    """Assert that two evaluations are the same: membership to the bit, scores to 1e-12."""
    assert one["split"] == other["split"]
    for left, right in zip(one["scores"], other["scores"], strict=True):
        assert left == pytest.approx(right, abs=1e-12)


@pytest.mark.soak
def test_processes_give_what_threads_give(api: str, tmp_path: Path) -> None:
    """Fits happen in other processes than the flow's, and nothing in the result tells."""
    threads, in_threads = run(tmp_path, "threads", api)
    processes, in_processes = run(tmp_path, "processes", api)
    assert in_threads == {str(threads["pid"])}
    assert str(processes["pid"]) not in in_processes
    assert len(in_processes) >= 1
    assert len(threads["scores"]) == 5
    same(threads, processes)


def test_an_unknown_runner_is_a_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    """The setting's name, what it is, and what it may be."""
    monkeypatch.setenv("EVENFOLD_RUNNER", "spark")
    with pytest.raises(SplitError, match="EVENFOLD_RUNNER is 'spark'; set threads, processes, dask or ray"):
        task_runner()


def test_a_runner_that_is_not_installed_names_its_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    """What to install is in the sentence."""
    monkeypatch.setenv("EVENFOLD_RUNNER", "ray")
    monkeypatch.setitem(sys.modules, "prefect_ray", None)
    with pytest.raises(SplitError, match=r"pip install 'evenfold\[ray\]'"):
        task_runner()
