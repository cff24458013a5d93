"""Flows killed at random moments against real servers, races, SIGTERM, forged results, and workers that die."""

import contextlib
import hashlib
import json
import os
import random
import shutil
import signal
import subprocess
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest
from servers import ROOT, environment, mlflow_server, prefect_server, wait_until
from test_forged_results import forgeries
from test_resume import CLI, N_SPLITS, WHOLE, data, evaluate, kill_and_look, tree

__all__ = ["data"]
pytestmark = pytest.mark.soak
SEED, LABELS = 20261120, 6
KILLS = int(os.environ.get("EVENFOLD_SOAK_KILLS", "60"))


@pytest.fixture(scope="module")
def env(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    folder = tmp_path_factory.mktemp("servers")
    with prefect_server(folder) as api, mlflow_server(folder, f"sqlite:///{folder / 'mlflow.db'}") as tracking:
        more = {"PREFECT_API_URL": api, "MLFLOW_TRACKING_URI": tracking, "EVENFOLD_WORKERS": "2"}
        yield environment(folder, {**more, "EVENFOLD_HOME": str(folder / "home"), "STORE": str(folder)})


def test_random_kills_lose_and_double_nothing(env: dict[str, str], data: Path, found: Callable[..., None]) -> None:
    """Kill -9 after random times, over and over; each evaluation is then finished, and the tree is the expected one."""
    draw = random.Random(SEED)
    log = Path(env["EVENFOLD_HOME"]).with_name("log.txt")
    alive = 0
    for kill in range(KILLS):
        command = [*evaluate(data), "--run-label", f"label {kill % LABELS}"]
        with log.open("w") as out:
            process = subprocess.Popen(command, env=env, cwd=ROOT, stdout=out, stderr=out, start_new_session=True)
        try:
            process.wait(draw.uniform(2.0, 16.0))
            assert process.returncode == 0, log.read_text()
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            alive += 1
    for label in range(LABELS):
        command = [*evaluate(data), "--run-label", f"label {label}"]
        last = subprocess.run(command, env=env, cwd=ROOT, capture_output=True, text=True)
        assert last.returncode == 0, last.stderr
        assert not label or json.loads(last.stdout)["n_cached"] == N_SPLITS
    told = tree(Path(env["STORE"]))
    expected = Counter({name: 1 if name.endswith(" split") else LABELS for name, _ in WHOLE["runs"]})
    assert Counter(name for name, _ in told["runs"]) == expected
    assert {status for _, status in told["runs"]} == {"FINISHED"}
    assert told["points"] == 1
    found(seed=SEED, kills=alive, asked=KILLS, runs=len(told["runs"]))


def test_two_flows_race_and_split_once(env: dict[str, str], tmp_path: Path, found: Callable[..., None]) -> None:
    races = int(os.environ.get("EVENFOLD_SOAK_RACES", "20"))
    cli = evaluate(tmp_path / "x")[:3]
    for race in range(races):
        path = tmp_path / f"race{race}.parquet"
        n = 500 + race  # other data each time, or the split would be an earlier race's
        pd.DataFrame({"id": range(n), "y": [i % 7 for i in range(n)]}).to_parquet(path)
        command = [*cli, "split", str(path), "--key", "id", "--target", "y", "--strategy", "StratifiedKFold", "--json"]
        both = [
            subprocess.Popen(command, env=env, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
            for _ in range(2)
        ]
        told: list[Any] = []
        for each in both:
            out, err = each.communicate()
            assert each.returncode == 0, err
            told.append(json.loads(out))
        assert told[0]["split"] == told[1]["split"]
        assert told[0]["run_id"] == told[1]["run_id"]
        assert [path.name for path in (Path(env["EVENFOLD_HOME"]) / "splits" / f"race{race}").iterdir()] == ["1.0"]
    found(races=races)


@pytest.mark.parametrize(("runner", "how"), [("threads", signal.SIGTERM), ("processes", signal.SIGKILL)])
def test_nothing_outlives_its_flow(runner: str, how: signal.Signals, data: Path, tmp_path: Path) -> None:
    """Neither a server nor a pool of processes, which a kill -9 would leave behind by itself."""
    kill_and_look(how, evaluate(data), tmp_path, {"EVENFOLD_RUNNER": runner})


@pytest.mark.parametrize("deaths", ["one", "all"])
def test_the_death_of_a_pool_worker_costs_what_it_was_at(
    deaths: str, env: dict[str, str], data: Path, tmp_path: Path, found: Callable[..., None]
) -> None:
    """A worker dies in the middle of a fit: a new pool goes on. Where all die, the flow says so; the next completes."""
    env = {**env, "EVENFOLD_HOME": str(tmp_path / "home"), "EVENFOLD_RUNNER": "processes"}
    command = [*evaluate(data), "--run-label", f"{deaths} died"]
    log, results = tmp_path / "log.txt", tmp_path / "home" / "results" / "score"
    with log.open("w") as out:
        process = subprocess.Popen(command, env=env, cwd=ROOT, stdout=out, stderr=out, start_new_session=True)
    wait_until(lambda: results.exists() and len(list(results.iterdir())) >= 1, "the first fold", 120)
    killed = 0
    while process.poll() is None and (deaths == "all" or not killed):
        workers = ["pgrep", "-P", str(process.pid), "-f", "multiprocessing.spawn"]
        for worker in subprocess.run(workers, capture_output=True, text=True).stdout.split()[:1]:
            os.kill(int(worker), signal.SIGKILL)
            killed += 1
        time.sleep(0.2)
    assert process.wait(180) == (0 if deaths == "one" else 3), log.read_text()
    kept = len(list(results.iterdir()))
    assert (kept == N_SPLITS) == (deaths == "one")
    assert ("worker processes died under it, as when memory runs out" in log.read_text()) == (deaths == "all")
    last = subprocess.run(command, env=env, cwd=ROOT, capture_output=True, text=True)
    assert last.returncode == 0, last.stderr
    outcome = json.loads(last.stdout)
    assert len(outcome["scores"]) == N_SPLITS
    assert outcome["n_cached"] >= kept
    found(killed=killed, folds_kept=kept)


@pytest.mark.parametrize("what", ["fits", "record"])
def test_a_disk_that_fills_is_reported_and_resumed(
    what: str, small_disk: Path, env: dict[str, str], data: Path, tmp_path: Path
) -> None:
    """Where results lie, or the MLflow store: a sentence and no half file; with room again the next run completes.

    On a server of the user's own, Prefect prints its lines of a failed task beside it.
    """
    full = {**env, "EVENFOLD_HOME": str(tmp_path / "home"), "EVENFOLD_RESULTS": str(small_disk)}
    full.pop("PREFECT_API_URL")
    if what == "record":
        full |= {"EVENFOLD_HOME": str(small_disk), "EVENFOLD_RESULTS": str(tmp_path / "results")}
        del full["MLFLOW_TRACKING_URI"]
    command = [*evaluate(data), "--run-label", f"full {what}"]
    columns = ["--target", "y", "--key", "id", "--name", "rows", "--strategy", "KFold", "-k", str(N_SPLITS)]
    split = [*CLI, "split", str(data), *columns]
    first = subprocess.run(split, env=full, cwd=ROOT, capture_output=True, text=True)
    assert first.returncode == 0, first.stderr
    if what == "fits":
        fill(small_disk / "filler", leave=100_000)
    stopped = subprocess.Popen(command, env=full, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    if what == "record":
        results = tmp_path / "results" / "results" / "score"
        wait_until(lambda: results.exists() and len(list(results.iterdir())) >= N_SPLITS - 2, "most folds", 180)
        fill(small_disk / "filler", leave=0)
    _, error = stopped.communicate()
    assert stopped.returncode == 3, error
    assert "no space" in error.lower()
    assert "Traceback" not in error
    assert unreadable(Path(full["EVENFOLD_RESULTS"])) == []
    (small_disk / "filler").unlink()
    again = subprocess.run(command, env=full, cwd=ROOT, capture_output=True, text=True)
    assert again.returncode == 0, again.stderr
    outcome = json.loads(again.stdout)
    assert len(outcome["scores"]) == N_SPLITS
    if what == "record":
        assert outcome["n_cached"] == N_SPLITS
        assert tree(small_disk) == WHOLE


def fill(file: Path, leave: int) -> None:
    with file.open("wb", buffering=0) as stream, contextlib.suppress(OSError):
        while shutil.disk_usage(file.parent).free > leave:
            stream.write(b"x" * min(4096, shutil.disk_usage(file.parent).free - leave))


def unreadable(folder: Path) -> list[str]:
    bad = []
    for path in [path for path in folder.rglob("*") if path.is_file()]:
        kind, _, content = path.read_bytes().partition(b"\n")
        try:
            if path.suffix == ".parquet":
                pq.read_table(path)
            elif path.suffix == ".json":
                json.loads(path.read_text())
            elif path.name.startswith(".writing-") or (
                path.parent.name == "score" and kind.split()[1] != hashlib.sha256(content).hexdigest().encode()
            ):
                bad.append(path.name)
        except ValueError:
            bad.append(path.name)
    return bad


FORGERIES = ("a function for a kind", "a record of Prefect's", "a class inside", "cut short", "very deep")


def test_a_forged_result_runs_nothing_in_a_worker(tmp_path: Path, found: Callable[..., None]) -> None:
    """Each fold's kept result is replaced by a forgery; the workers drop them, fit again, and no mark is made."""
    draw = np.random.default_rng(0)
    frame = pd.DataFrame({"id": range(200), "x": draw.normal(size=200), "y": draw.normal(size=200)})
    frame.to_parquet(tmp_path / "rows.parquet")
    home, mark = tmp_path / "home", tmp_path / "mark"
    env = environment(tmp_path, {"EVENFOLD_HOME": str(home), "EVENFOLD_WORKERS": "2", "EVENFOLD_RUNNER": "processes"})
    del env["PREFECT_HOME"]
    asked = ["--target", "y", "--key", "id", "--name", "rows", "--strategy", "KFold", "-k", "5", "--json"]
    command = [*CLI, "evaluate", str(tmp_path / "rows.parquet"), *asked, "--model", "sklearn.linear_model:Ridge"]

    def evaluated(*more: str) -> Any:
        done = subprocess.run([*command, *more], env=env, cwd=ROOT, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    first = evaluated("--engine", "plain")
    kept = sorted(path for path in (home / "results" / "score").glob("*") if path.is_file())
    assert len(kept) == 5
    for path, name in zip(kept, FORGERIES, strict=True):
        path.write_bytes(forgeries(mark)[name].replace(b"score/forged", f"score/{path.name}".encode()))
    again = evaluated()
    assert not mark.exists()
    assert again["n_cached"] == 0
    assert [each["test"] for each in again["scores"]] == [each["test"] for each in first["scores"]]
    found(forged=len(kept))
