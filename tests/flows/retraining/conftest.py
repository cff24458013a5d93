"""What tests of retraining share: a first month, which was retrained once for all tests of a file."""

from pathlib import Path

import pytest
from evenfold.flows import Retraining
from evenfold.tasks import Home
from kept import kept_after, put_back
from small import GOOD, retrain
from tables import rows


@pytest.fixture(autouse=True)
def home(shared_home: Home) -> Home:
    return shared_home


@pytest.fixture(scope="module")
def _first_month(_module_home: Home, tmp_path_factory: pytest.TempPathFactory) -> tuple[Retraining, Path]:
    return kept_after(_module_home, tmp_path_factory.mktemp("kept"), lambda: retrain("monthly", rows(120), GOOD))


@pytest.fixture
def first(_first_month: tuple[Retraining, Path], home: Home) -> Retraining:
    """Return the first retraining of "monthly", of 120 rows, in a home in which nothing else was ever done."""
    made, kept = _first_month
    put_back(home, kept)
    return made
