"""A retraining whose process is killed between any two steps of its commit, and anywhere else."""

import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from evenfold.manifests import verify
from evenfold.tasks import Home
from mlflow.tracking import MlflowClient
from servers import ROOT
from small import STEPS

pytestmark = pytest.mark.soak
KILLS, SEED = int(os.environ.get("EVENFOLD_SOAK_COMMIT_KILLS", "20")), 20261125
RETRAIN = """
import os, signal, sys
sys.path.insert(0, "tests")
from small import GOOD, STEPS, called, retrain
from tables import rows
n, step = sys.argv[1:]
if step:
    setattr(*called(*STEPS[step][:2]), lambda *_, **__: os.kill(os.getpid(), signal.SIGKILL))
retrain("monthly", rows(int(n)), GOOD)
"""


def begun(home: Home, n: int, step: str = "") -> subprocess.Popen[bytes]:
    environment = {**os.environ, "EVENFOLD_HOME": str(home.path)}
    return subprocess.Popen([sys.executable, "-c", RETRAIN, str(n), step], cwd=ROOT, env=environment)


def require_whole(home: Home) -> None:
    """Each generation has one version and each run one logged model, all are intact, and nothing lies beside them."""
    client = MlflowClient(home.tracking_uri)
    versions = client.search_model_versions("name = 'monthly'")
    kept = [folder.name for folder in (home.splits / "monthly").iterdir()]
    assert sorted(each.tags["evenfold.spec"] for each in versions) == sorted(f"monthly@{name}" for name in kept)
    assert all(verify(str(home.splits / "monthly" / name)).intact for name in kept)
    experiment = client.get_experiment_by_name("monthly").experiment_id
    models = [each.source_run_id for each in client.search_logged_models([experiment]) if each.name == "model"]
    assert {each.run_id for each in versions} <= {*models}
    assert len(models) == len({*models}), "a run has logged its model twice"
    for left in home.path.rglob(".writing-*"):
        os.utime(left, (time.time() - 90_000,) * 2)  # which clean takes for half written a day ago
    clean = [f"{Path(sys.executable).parent}/evenfold", "clean", "--older-than", "30d"]
    subprocess.run(clean, env={**os.environ, "EVENFOLD_HOME": str(home.path)}, check=True, capture_output=True)
    assert not list(home.path.rglob(".writing-*"))


@pytest.mark.parametrize("step", STEPS)
def test_a_process_that_is_killed_at_a_step_of_the_commit(home: Home, step: str) -> None:
    """The next month finishes what had a version, and undoes what had none."""
    assert begun(home, 120).wait() == 0
    assert begun(home, 150, step).wait() == -signal.SIGKILL
    assert begun(home, 180).wait() == 0
    require_whole(home)
    newest = {True: "monthly@1.2", False: "monthly@1.1"}[STEPS[step][2]]
    assert MlflowClient(home.tracking_uri).get_model_version_by_alias("monthly", "champion").tags[
        "evenfold.spec"
    ] == newest  # fmt: skip


def test_a_process_that_is_killed_anywhere_goes_on(home: Home, found: Callable[..., None]) -> None:
    """Months of one home, each killed at random and tried again until it comes through."""
    draw, before, hit = random.Random(SEED), time.monotonic(), 0
    assert begun(home, 100).wait() == 0
    whole = time.monotonic() - before
    for kill in range(KILLS):
        process = begun(home, 120 + 20 * kill)
        time.sleep(draw.uniform(0.3, 1.0) * whole)
        hit += process.poll() is None
        process.kill()
        process.wait()
        assert begun(home, 120 + 20 * kill).wait() == 0
        require_whole(home)
    found(kills=KILLS, hit_under_way=hit, seed=SEED)
