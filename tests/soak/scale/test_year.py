"""Twelve months of retraining with every kind of broken file in every month."""

from pathlib import Path

import pytest
from evenfold.tasks import Home
from year import FAULTS, flights, live_through

pytestmark = pytest.mark.soak


def test_twelve_months_with_every_fault(home: Home, tmp_path: Path) -> None:
    """110 broken files, 12 right ones: 12 champions, each of a table that was right."""
    months = flights(350)
    done = live_through(home, tmp_path, months, [[], *([list(FAULTS)] * 11)])
    assert [each["champion"][0] for each in done if not each["fault"]] == [str(n + 1) for n in range(12)]
    assert sum(bool(each["fault"]) for each in done) == 110
