"""Every setting of the environment stands in one class."""

import os
import re
from pathlib import Path

import pytest
from evenfold.splitters import SplitError
from evenfold.tasks.runtime.home import Settings

ROOT = Path(__file__).parents[3]
ROOMS = ("splitters", "manifests", "estimates", "reports", "tasks", "flows", "deployments")
SECRET = "EVENFOLD_KEY_SECRET"  # the default name of a variable that a specification names
# Read by the file that MLflow imports in any process, which may import nothing of ours, and by prefect.yaml.
ELSEWHERE = {"EVENFOLD_SPLIT", "EVENFOLD_PROJECT"}


def test_every_setting_that_the_source_or_a_page_names_is_a_field() -> None:
    """What is read somewhere else, in the rooms below, is declared with the others, and nothing is declared in vain."""
    files = [path for room in ROOMS for path in (ROOT / room).rglob("*.py")] + list((ROOT / "docs").glob("*.md"))
    named = {name for path in files for name in re.findall(r"\bEVENFOLD_[A-Z_]*[A-Z]", path.read_text("utf-8"))}
    declared = {f"EVENFOLD_{name.upper()}" for name in Settings.model_fields}
    assert named - ELSEWHERE - {SECRET} - {name for name in named if name.startswith("EVENFOLD_SOAK_")} == declared


def test_a_setting_that_does_not_fit_is_named_with_what_would(monkeypatch: pytest.MonkeyPatch) -> None:
    for wrong in ("two", "0", "-1"):
        monkeypatch.setenv("EVENFOLD_WORKERS", wrong)
        with pytest.raises(SplitError, match=f"EVENFOLD_WORKERS is '{wrong}'; set a whole number of at least 1"):
            Settings.here()


def test_what_another_thread_takes_away_meanwhile_is_not_looked_up(monkeypatch: pytest.MonkeyPatch) -> None:
    before, names = Settings.here(), [*os.environ, "GONE"]
    monkeypatch.setattr(type(os.environ), "__iter__", lambda _: iter(names))
    assert Settings.here() == before
