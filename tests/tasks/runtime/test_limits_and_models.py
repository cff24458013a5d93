"""Fits that take too long are stopped for good, and models are kept where that is asked for."""

import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from evenfold.estimates import EvaluationError
from evenfold.flows import evaluate, split
from evenfold.tasks import Home, fit_fold
from evenfold.tasks.runtime.limits import task_runner, within
from mlflow.tracking import MlflowClient
from prefect.settings import PREFECT_API_URL, temporary_settings
from servers import wait_until

RIDGE = {"estimator": "sklearn.linear_model:Ridge", "metrics": ["r2"]}
SPEC = {"name": "rows", "columns": {"key": "id", "target": "y"}, "strategy": "KFold", "params": {"n_splits": 2}}
SLOW = """
import os, subprocess, time
from pathlib import Path
from sklearn.linear_model import Ridge

class Slow(Ridge):
    def fit(self, X, y):
        if 0 not in set(X["x"]):  # only the fold that tests row 0 is slow
            child = subprocess.Popen(["sleep", "600"])
            Path("pids.txt").write_text(f"{os.getpid()} {child.pid}")
            time.sleep(600)
        return super().fit(X, y)

def dies(**_):
    os._exit(7)
"""


def table(n: int = 60) -> pd.DataFrame:
    x = np.arange(n)
    return pd.DataFrame({"id": x, "x": x, "y": x % 7 + x / 10})


def evaluated(engine: str = "plain", **more: Any) -> Any:
    return evaluate(table(), spec=SPEC, model=more.pop("model", RIDGE), engine=engine, **more)


@pytest.fixture
def slow(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    (tmp_path / "never_ends.py").write_text(SLOW)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    return {"estimator": "never_ends:Slow", "metrics": ["r2"]}


def alive(pid: str) -> bool:
    state = Path(f"/proc/{pid}/stat")
    return state.exists() and state.read_text().rpartition(")")[2].split()[0] != "Z"


def test_a_limit_changes_no_score(home: Home, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In a process of its own a fit gives what it gives here, by the code of now, and its predictions are those."""
    monkeypatch.syspath_prepend(tmp_path)
    made, module = split(table(), spec={**SPEC, "name": "limited"}, engine="plain").split, tmp_path / "of_now.py"
    for alpha in ("1", "1000"):
        module.write_text(f"from sklearn.linear_model import Ridge\ndef made():\n    return Ridge(alpha={alpha})\n")
        sys.modules.pop("of_now", None)
        model = {"estimator": "of_now:made", "metrics": ["r2"]}
        free, limited = (fit_fold.fn(made, 0, model, time_limit=limit) for limit in (None, 300))
        assert (limited.score.test, limited.score.apparent) == (free.score.test, free.score.apparent)
        assert limited.predictions.sha256 == free.predictions.sha256


# Before those whose processes die: it takes the one that is there.
def test_a_fit_that_takes_too_long_is_stopped_and_named(slow: dict[str, Any], home: Home) -> None:
    """The other folds are kept, the message says which fold and which limit, and nothing of it runs on."""
    with pytest.raises(EvaluationError, match=r"1 of 2 fits failed: fold \d took more than its 6 s and was stopped"):
        evaluated(model=slow, time_limit=6)
    assert not any(alive(pid) for pid in Path("pids.txt").read_text().split())
    client = MlflowClient(home.tracking_uri)
    runs = client.search_runs([client.get_experiment_by_name("rows").experiment_id])
    assert sum("fold" in run.data.params for run in runs) == 1


WAITING = """
import os, time
from pathlib import Path
def waits(path):
    Path(path).write_text(str(os.getpid()))
    time.sleep(600)
"""


def test_a_process_that_dies_or_does_not_start_is_a_sentence(
    slow: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    import never_ends  # type: ignore[import-not-found]

    os.kill(within(300, "fold 0", os.getpid), 9)  # one that waits is no fit
    assert within(300, "fold 0", max, 3, 4) == 4
    with pytest.raises(EvaluationError, match=r"fold 1: its process ended with EXIT\(7\) and no result"):
        within(300, "fold 1", never_ends.dies)
    monkeypatch.setattr("evenfold.tasks.runtime.limits.START_SECONDS", 1e-6)
    with pytest.raises(EvaluationError, match=r"fold 1: its process did not start within 1e-06 s"):
        within(300, "fold 1", max, 3, 4)


@pytest.mark.soak
def test_a_limited_fit_ends_with_the_process_that_asked_for_it(tmp_path: Path) -> None:
    (tmp_path / "waiting.py").write_text(WAITING)
    asks = "import waiting; from evenfold.tasks.runtime import limits; limits.within(600, 'fit', waiting.waits, 'pid')"
    asking = subprocess.Popen([sys.executable, "-c", asks], cwd=tmp_path)
    wait_until(lambda: (tmp_path / "pid").exists() and (tmp_path / "pid").read_text(), "the fit")
    asking.kill()
    asking.wait()
    wait_until(lambda: not alive((tmp_path / "pid").read_text()), "the end of the fit", 30)


def test_models_are_kept_where_that_is_asked_for(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    """One of all rows with the evaluation, one per fold with its run; asked twice, each is there once."""
    import mlflow

    none = evaluated()
    client = MlflowClient(home.tracking_uri)
    experiment = client.get_experiment_by_name("rows").experiment_id

    def models_kept() -> list[Any]:
        # Each evaluation also has a light model without files, which holds its scores.
        return [
            each
            for each in client.search_logged_models([experiment])
            if not (each.model_type or "").startswith("evenfold-")
        ]

    assert models_kept() == []
    final = evaluated(log_models="final")
    assert final.run_id == none.run_id
    assert len(models_kept()) == 1
    whole = [evaluated(log_models="all") for _ in range(2)][1]
    models = models_kept()
    assert len(models) == 3
    monkeypatch.setenv("MLFLOW_TRACKING_URI", home.tracking_uri)
    by_run = {each.source_run_id: mlflow.sklearn.load_model(f"models:/{each.model_id}") for each in models}
    predictions = pd.read_parquet(client.download_artifacts(whole.run_id, "predictions.parquet"))
    for run in client.search_runs([experiment], f"tags.`mlflow.parentRunId` = '{whole.run_id}'"):
        mine = predictions[predictions["fold"] == int(run.data.params["fold"])]
        again = by_run[run.info.run_id].predict(table().loc[mine["id"], ["x"]])
        assert again == pytest.approx(mine["prediction"].to_numpy(), abs=1e-12)
    assert by_run[whole.run_id].predict(table()[["x"]]).shape == (60,)


THREADS = """
import os
import joblib, sklearn.ensemble
from threadpoolctl import threadpool_info
from evenfold.tasks.runtime import limits

def threads(cells=10**6, cores=2, **environment):
    before = dict(os.environ)
    os.environ |= {"EVENFOLD_WORKERS": "1", **environment}
    os.sched_setaffinity(0, mine[:cores])
    limits.cores.cache_clear()
    inside = dict(os.environ)
    with limits.limited(cells):
        pools = [pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "openmp"]
        both = max(pools), joblib.cpu_count()
    assert inside == dict(os.environ)
    os.environ.clear()
    os.environ |= before
    return both

mine = sorted(os.sched_getaffinity(0))
print(threads(), threads(EVENFOLD_WORKERS="2"), threads(cores=1), threads(OMP_NUM_THREADS="1"),
      threads(LOKY_MAX_CPU_COUNT="1"), threads(cells=5000)[0])
"""


@pytest.mark.skipif(os.cpu_count() == 1, reason="one core alone leaves nothing to share")
def test_fits_use_no_more_threads_than_workers_environment_and_affinity_leave() -> None:
    """Of OpenMP, and of joblib, whom LightGBM and n_jobs=-1 ask; what the user has set is there again afterwards."""
    environment = {name: value for name, value in os.environ.items() if name != "OMP_NUM_THREADS"}
    done = subprocess.run([sys.executable, "-c", THREADS], env=environment, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "(2, 2) (1, 1) (1, 1) (1, 1) (1, 1) 1"


def test_a_process_of_a_pool_that_has_limited_a_fit_ends() -> None:
    process = get_context("spawn").Process(target=within, args=(60.0, "fit", abs, -1))
    process.start()
    process.join(60)
    ended = process.exitcode
    process.kill()
    assert ended == 0


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
