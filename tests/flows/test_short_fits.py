"""Short fits share task runs, which nobody sees in the results."""

import signal
from collections import Counter
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from evenfold.estimates import EvaluationError
from evenfold.flows import Evaluation, evaluate
from evenfold.tasks import Home
from evenfold.tasks.fits import fit_short
from evenfold.tasks.work import key_of_fit, work_of
from prefect.client.orchestration import get_client
from prefect.client.schemas.filters import FlowRunFilter
from servers import wait_until

N_SPLITS = 7
RIDGE = {"estimator": "sklearn.linear_model:Ridge", "metrics": ["r2"]}
MODULE = """
import os, signal
from pathlib import Path
from sklearn.linear_model import Ridge

class Picky(Ridge):
    def fit(self, X, y):
        if 53 not in set(X["x"]):  # the fold that tests row 53
            raise ValueError("row 53 is missing")
        return super().fit(X, y)

class Mortal(Ridge):
    def fit(self, X, y):
        if Path("mortal").exists() and 53 not in set(X["x"]):
            os.kill(os.getpid(), signal.SIGKILL)
        return super().fit(X, y)
"""


@pytest.fixture
def data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    x = np.arange(90)
    pd.DataFrame({"id": x, "x": x, "y": x % 7 + x / 10}).to_parquet(tmp_path / "rows.parquet")
    (tmp_path / "estimators.py").write_text(MODULE)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    return tmp_path / "rows.parquet"


def evaluated(data: Path, engine: str = "prefect", model: Any = RIDGE, **more: Any) -> Evaluation:
    spec = {"name": "rows", "columns": {"key": "id", "target": "y"}, "strategy": "KFold"}
    spec |= {"params": {"n_splits": N_SPLITS}}
    return evaluate(data, spec=spec, model={"metrics": ["r2"], **model}, engine=engine, **more)


def values(outcome: Evaluation) -> list[Any]:
    return [(score.name, score.test, score.apparent) for score in outcome.scores]


def task_runs() -> list[tuple[str, str]]:
    """Return the names and states of the task runs of the newest flow run that fits folds."""
    with get_client(sync_client=True) as client:
        flow = client.read_flow_runs(limit=1, sort="START_TIME_DESC")[0]
        found = client.read_task_runs(flow_run_filter=FlowRunFilter.model_validate({"id": {"any_": [flow.id]}}))
    fits = [run for run in found if run.name.startswith("fit ") and run.state]  # states come a while after their runs
    return sorted((run.name, run.state.name) for run in fits)


def test_folds_in_blocks_are_kept_one_by_one(prefect_home: Home, data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever the blocks are and whatever the engine is, the keys, scores and files are those of single folds."""
    monkeypatch.setenv("EVENFOLD_WORKERS", "2")
    one = evaluated(data)
    assert (one.n_fits, one.n_cached) == (N_SPLITS, 0)
    # The first fold of each worker has a run of its own; the others are blocks, as many for each worker.
    wanted = [(f"fit {name}", "Completed") for name in ("fold 0", "fold 1", "folds 2-3", "folds 4-6")]
    wait_until(lambda: task_runs() == wanted, "what has ended in the server's history")
    work = work_of(one.split, one.model)
    keys = {key_of_fit(work, i) for i in range(N_SPLITS)}
    assert {path.name for path in (prefect_home.results / "score").iterdir() if path.is_file()} == keys
    monkeypatch.setenv("EVENFOLD_WORKERS", "3")
    two, plain = evaluated(data), evaluated(data, "plain")
    assert [(run.cached, run.n_cached, run.run_id) for run in (two, plain)] == [(True, N_SPLITS, one.run_id)] * 2
    assert values(one) == values(two) == values(plain)
    for engine in ("plain", "prefect"):
        anew = evaluated(data, engine, refresh=True)
        assert (anew.n_cached, values(anew), anew.estimates) == (0, values(one), one.estimates)


def test_a_fold_that_fails_in_a_block_loses_no_other(
    prefect_home: Home, data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It alone is named, with its own reason; the others of its block are there, and cached the next time."""
    monkeypatch.setenv("EVENFOLD_WORKERS", "1")
    model = {"estimator": "estimators:Picky"}
    for n_cached in (0, N_SPLITS - 1):
        part = evaluated(data, model=model, allow_partial=True)
        assert len(part.scores) == N_SPLITS - 1
        assert part.n_cached == n_cached
        assert Counter(part.states) == {"failed": 1, "cached" if n_cached else "fitted": N_SPLITS - 1}
    with pytest.raises(EvaluationError, match=rf"1 of {N_SPLITS} fits failed: fold \d.*row 53 is missing"):
        evaluated(data, model=model)


@pytest.mark.usefixtures("home")
def test_a_block_that_is_killed_keeps_its_finished_folds(data: Path, tmp_path: Path) -> None:
    """Only the fold that was under way and those after it are computed, and the lock of that fold is free."""
    outcome = evaluated(data, "plain")
    (tmp_path / "mortal").touch()
    model = {"estimator": "estimators:Mortal", "metrics": ["r2"]}
    killed = get_context("fork").Process(target=fit_short.fn, args=(outcome.split, (0, N_SPLITS), model))
    killed.start()
    killed.join(300)
    assert killed.exitcode == -signal.SIGKILL
    (tmp_path / "mortal").unlink()
    finished = int(np.flatnonzero([53 in outcome.split.manifest().pair(i)[1] for i in range(N_SPLITS)])[0])
    assert finished > 0
    second = evaluated(data, "plain", model)
    assert second.n_cached == finished
