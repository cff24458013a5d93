"""A lock belongs to a living process."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from evenfold.tasks import FileLocks

HOLD = """
import sys, time
from pathlib import Path
from evenfold.tasks import FileLocks
assert FileLocks(Path(sys.argv[1])).acquire_lock("split/x", "them")
print("held", flush=True)
time.sleep(600)
"""


@pytest.fixture
def holder(tmp_path: Path) -> Iterator[subprocess.Popen[str]]:
    """Start a process that holds a lock and does not let go."""
    holding = [sys.executable, "-c", HOLD, str(tmp_path / "locks")]
    process = subprocess.Popen(holding, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stdout.readline() == "held\n"
    yield process
    process.kill()
    process.wait()


def test_a_lock_is_freed_when_its_holder_is_killed(holder: subprocess.Popen[str], tmp_path: Path) -> None:
    """Held until kill -9, and free at once then; another key is free all the time."""
    locks = FileLocks(tmp_path / "locks")
    assert locks.is_locked("split/x")
    assert not locks.is_locked("split/y")
    assert not locks.is_lock_holder("split/x", "us")
    assert not locks.acquire_lock("split/x", "us", acquire_timeout=0.2)
    assert not locks.wait_for_lock("split/x", timeout=0.2)
    holder.send_signal(signal.SIGKILL)
    holder.wait()
    started = time.monotonic()
    assert locks.acquire_lock("split/x", "us", acquire_timeout=10)
    assert time.monotonic() - started < 5
    assert locks.is_lock_holder("split/x", "us")
    assert locks.acquire_lock("split/x", "us")  # again, by the same holder
    assert not locks.acquire_lock("split/x", "others", acquire_timeout=0.2)
    with pytest.raises(ValueError, match="others does not hold the lock of split/x"):
        locks.release_lock("split/x", "others")
    locks.release_lock("split/x", "us")
    assert not locks.is_locked("split/x")
