"""Kills and outages in every phase of a retraining: it completes, and nothing doubles."""

import json
import os
import random
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from house import House, lived_in, shipped
from phases import FOREST, N_SPLITS, PHASES, assert_whole, n_fits, rows
from servers import ROOT, away, environment, mlflow_server, prefect_server, wait_until
from test_resume import states

pytestmark = pytest.mark.soak
SEED = 20261122
KILLS = int(os.environ.get("EVENFOLD_SOAK_PHASE_KILLS", "5"))  # of each phase
CLI = [sys.executable, "-c", "from evenfold.flows.cli import main; main()"]


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return rows(tmp_path_factory.mktemp("data"))


def retrain(table: Path, name: str) -> list[str]:
    model = table.with_name("model.json")
    model.write_text(json.dumps(FOREST))
    asked = ["--target", "y", "--key", "id", "--name", name, "--strategy", "KFold", "-k", str(N_SPLITS)]
    return [*CLI, "retrain", str(table), *asked, "--model", str(model), "--json"]


@pytest.fixture(scope="module")
def real(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    folder = tmp_path_factory.mktemp("servers")
    with prefect_server(folder) as api, mlflow_server(folder, f"sqlite:///{folder / 'mlflow.db'}") as tracking:
        yield {"PREFECT_API_URL": api, "MLFLOW_TRACKING_URI": tracking, "STORE": str(folder / "mlflow.db")}


@pytest.mark.parametrize("servers", ["embedded", "real"])
@pytest.mark.parametrize("phase", PHASES)
def test_a_kill_in_any_phase_loses_and_doubles_nothing(
    servers: str, phase: str, table: Path, tmp_path: Path, request: Any, found: Callable[..., None]
) -> None:
    """Kill -9, up to half a second after the phase begins; then the same command completes, and the record is whole."""
    draw, hit, again = random.Random(f"{SEED} {servers} {phase}"), 0, 0
    more = request.getfixturevalue("real") if servers == "real" else {}
    for kill in range(KILLS):
        folder = tmp_path / str(kill)
        env = environment(folder, {**more, "EVENFOLD_HOME": str(folder / "home"), "EVENFOLD_WORKERS": "2"})
        if servers == "embedded":
            del env["PREFECT_HOME"]
        command = retrain(table, f"rows{kill}{phase}")
        store = Path(more.get("STORE", folder / "home" / "mlflow.db"))
        ready = partial(PHASES[phase], folder / "home", partial(states, store, "runs", "name"))
        hit += killed(command, env, folder, ready, draw.uniform(0, 0.5))
        kept = n_fits(folder / "home")
        last = subprocess.run(command, env=env, cwd=ROOT, capture_output=True, text=True)
        assert last.returncode == 0, last.stderr
        outcome = json.loads(last.stdout)
        again += N_SPLITS - kept if not outcome["reused"] else 0
        with closing(sqlite3.connect(store)) as database:
            assert_whole(folder / "home", lambda query: list(database.execute(query)), f"rows{kill}{phase}")
    found(kills=KILLS, hit_under_way=hit, seed=SEED, fits_after_the_kills=again)


def killed(command: list[str], env: dict[str, str], folder: Path, ready: Callable[[], bool], delay: float) -> bool:
    """Kill a command within a phase, and return whether it was still under way then."""
    folder.mkdir()
    log = folder / "stderr.txt"
    with log.open("w") as err:
        process = subprocess.Popen(
            command, env=env, cwd=ROOT, stdout=subprocess.DEVNULL, stderr=err, start_new_session=True
        )
    while process.poll() is None and not ready():
        time.sleep(0.01)
    time.sleep(delay)
    under_way = process.poll() is None
    process.kill()
    process.wait()
    return under_way


# A server that is started again at once needs seconds until it answers, too.
SECONDS = {"restarted": 2.0, "gone": float(os.environ.get("EVENFOLD_SOAK_AWAY_SECONDS", "120"))}


@pytest.fixture(scope="module")
def house(tmp_path_factory: pytest.TempPathFactory) -> Iterator[House]:
    with lived_in(tmp_path_factory.mktemp("house"), shipped) as made:
        made.prefect("automation", "create", "--from-file", str(ROOT / "deployments" / "automations.yaml"))
        yield made


@pytest.mark.parametrize("how", SECONDS)
@pytest.mark.parametrize("phase", PHASES)
@pytest.mark.parametrize("server", ["prefect", "postgresql", "mlflow"])
def test_a_retraining_outlives_a_server(
    server: str, phase: str, how: str, house: House, tmp_path: Path, found: Callable[..., None]
) -> None:
    """Killed in a phase, and back after a while: the run completes by itself, every record is there once."""
    name, home, table = f"{server}-{phase}-{how}", tmp_path / "home", rows(tmp_path)
    asked = {"data": str(table), "key": ["id"], "target": "y", "group": None, "exclude": [], "name": name,
             "strategy": "KFold", "n_splits": N_SPLITS, "model": FOREST}  # fmt: skip
    place = {"EVENFOLD_HOME": str(home), "EVENFOLD_DATA_ROOTS": str(tmp_path), "EVENFOLD_WORKERS": "2"}
    run = str(house.triggered("retrain/evenfold", timeout=0, env=place, **asked)["id"])

    def has_begun() -> bool:
        assert house.state(run) not in ("FAILED", "CRASHED", "CANCELLED"), (house.folder / "worker.log").read_text()
        return PHASES[phase](home, lambda: [each for (each,) in house.recorded(named)])

    named = f"select r.name from runs r join experiments e using (experiment_id) where e.name = '{name}'"
    wait_until(has_begun, f"the phase {phase}", 600, every=0.05)
    under_way, fits = house.state(run) == "RUNNING", n_fits(home)
    house.stack.enter_context(away(house.ports[server], SECONDS[how], house.folder / f"{name}.log"))
    begun = time.monotonic()

    def ended() -> bool:
        assert house.state(run) not in ("FAILED", "CANCELLED"), (house.folder / "worker.log").read_text()[-5000:]
        return house.state(run) == "COMPLETED"

    wait_until(ended, f"the end of the run, {name}", 1_800)
    found(away_seconds=SECONDS[how], fits_before=fits, seconds_until_completed=round(time.monotonic() - begun, 1))
    assert under_way
    assert_whole(home, house.recorded, name)
