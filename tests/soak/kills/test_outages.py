"""Each server of a deployed retraining, restarted and gone for two minutes in each of its phases."""

import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from house import House, lived_in, shipped
from phases import FOREST, N_SPLITS, PHASES, assert_whole, n_fits, rows
from servers import ROOT, away, wait_until

pytestmark = pytest.mark.soak
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
