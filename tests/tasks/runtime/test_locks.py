"""A lock belongs to a living process, and what is kept under it to whoever finished it."""

import signal
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest
from evenfold.tasks import Home
from evenfold.tasks.outcomes import SplitAudit
from evenfold.tasks.store import kept, ready

KEY = "split/x"
HOLD = """
import time
from evenfold.tasks.store import kept

def make():
    print("held", flush=True)
    time.sleep(600)

kept("split/x", make)
"""


@pytest.fixture
def holder(home: Home) -> Iterator[subprocess.Popen[str]]:
    process = subprocess.Popen([sys.executable, "-c", HOLD], stdout=subprocess.PIPE, text=True)
    assert process.stdout.readline() == "held\n"
    yield process
    process.kill()
    process.wait()


def test_a_key_is_free_when_who_made_its_result_is_killed(holder: subprocess.Popen[str]) -> None:
    """Until kill -9 everybody waits, and nothing is kept then; of those who waited one makes it, for all."""
    made: list[int] = []

    def make() -> SplitAudit:
        made.append(1)
        return SplitAudit(
            name="x", version="1.0", split_id="0", n_rows=2, features=[], off=[], failed=[], findings=[], passed={},
            not_asked={},
        )  # fmt: skip

    with ThreadPoolExecutor(4) as threads:
        waiting = [threads.submit(kept, KEY, make) for _ in range(4)]
        assert kept("split/y", make)[1] is False
        with pytest.raises(TimeoutError):
            waiting[0].result(0.5)
        assert (ready(KEY), made) == (None, [1])
        holder.send_signal(signal.SIGKILL)
        assert sorted(each.result(180)[1] for each in waiting) == [False, True, True, True]
    assert len(made) == 2
