"""Every setting of the environment stands in one class; what threads share is left by the last."""

import multiprocessing
import os
import re
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from evenfold.splitters import SplitError
from evenfold.tasks.runtime.settings import Settings
from evenfold.tasks.runtime.shared import overlapping

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


def test_the_environment_is_heard_anew_whenever_it_changes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Settings are read once for what the environment says, in whatever letters, and not once for a process."""
    for name, workers in (("EVENFOLD_WORKERS", 3), ("EVENFOLD_WORKERS", 2), ("evenfold_workers", 5)):
        monkeypatch.delenv("EVENFOLD_WORKERS", raising=False)
        monkeypatch.setenv(name, str(workers))
        assert Settings.here().n_workers == workers
    assert Settings.here() is Settings.here()


happened: list[str] = []
entering, go_on = threading.Event(), threading.Event()
inside = threading.Semaphore(0)
PROCESS = os.getpid()


@overlapping
def context() -> Iterator[None]:
    """Take its time to be entered, in the process that the test runs in."""
    happened.append("entered")
    entering.set()
    if os.getpid() == PROCESS:
        assert go_on.wait(60)
    yield
    happened.append("left")


def _hold(until: threading.Event) -> None:
    with context():
        inside.release()
        assert until.wait(60)


def _take_part() -> None:
    with context():
        pass


@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_the_first_of_the_blocks_that_overlap_enters_and_the_last_leaves() -> None:
    """The blocks of a fork are its own: it does not wait for a thread that is just entering here."""
    end_first, end_second = threading.Event(), threading.Event()
    first, second = (threading.Thread(target=_hold, args=(end,)) for end in (end_first, end_second))
    first.start()
    assert entering.wait(60)
    child = multiprocessing.get_context("fork").Process(target=_take_part)
    child.start()
    child.join(20)
    child.kill()
    child.join()
    second.start()
    go_on.set()
    assert inside.acquire(timeout=60)
    assert inside.acquire(timeout=60)
    end_first.set()
    first.join()
    assert happened == ["entered"]
    end_second.set()
    second.join()
    assert happened == ["entered", "left"]
    assert child.exitcode == 0
