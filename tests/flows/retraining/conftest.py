"""What tests of retraining share: a first month, which was retrained once for all of them, and a home of each file."""

import shutil
from pathlib import Path

import pytest
from evenfold.flows import Retraining
from evenfold.tasks import Home
from kept import kept_after, put_back
from small import GOOD, retrain
from tables import rows


@pytest.fixture(autouse=True)
def home(request: pytest.FixtureRequest, shared_home: Home, monkeypatch: pytest.MonkeyPatch) -> Home:
    """Return the home of the file's tests, or that of the first month for those that go on from there."""
    if "first" not in request.fixturenames:
        return shared_home
    place: Home = request.getfixturevalue("_first_month")[0]
    monkeypatch.setenv("EVENFOLD_HOME", str(place.path))
    return place


@pytest.fixture(scope="session")
def _first_month(tmp_path_factory: pytest.TempPathFactory, empty_store: Path) -> tuple[Home, Retraining, Path]:
    place = Home(tmp_path_factory.mktemp("first"))
    shutil.copy(empty_store, place.path / "mlflow.db")
    return place, *kept_after(place, tmp_path_factory.mktemp("kept"), lambda: retrain("monthly", rows(60), GOOD))


@pytest.fixture
def first(_first_month: tuple[Home, Retraining, Path]) -> Retraining:
    """Return the first retraining of "monthly", of 60 rows, in a home in which nothing else was ever done."""
    place, made, kept = _first_month
    put_back(place, kept)
    return made
