"""What threads share is neither left too early nor waited for by a fork, which has none of them."""

import multiprocessing
import os
import threading
from collections.abc import Iterator

import pytest
from evenfold.tasks.runtime.shared import overlapping

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
