"""Four months of retraining with broken files in between: the champion is the right one after each."""

from __future__ import annotations

from pathlib import Path

from evenfold.tasks import Home
from year import flights, live_through


def test_four_months_with_broken_files_in_between(home: Home, tmp_path: Path) -> None:
    """Nothing that is empty, doubled, cut short, rescaled, shuffled or renamed becomes champion; late rows join."""
    faults = [
        [],
        ["cut short", "in seconds", "empty"],
        ["duplicated", "target renamed", "feature as text"],
        ["shuffled", "feature renamed", "in seconds from now on", "the month alone"],
    ]
    done = live_through(home, tmp_path, flights(150)[:4], faults)
    assert [each["champion"][0] for each in done if not each["fault"]] == ["1", "2", "3", "4"]
    assert sum(bool(each["fault"]) for each in done) == 10
