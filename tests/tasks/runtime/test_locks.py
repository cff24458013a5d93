"""A lock belongs to a living process, and what is kept under it to whoever finished it."""

import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from multiprocessing import get_context
from multiprocessing.process import BaseProcess

import pytest
from evenfold.tasks import Home
from evenfold.tasks.outcomes import SplitAudit
from evenfold.tasks.store import kept, ready

KEY = "split/x"


@pytest.fixture
def holder(home: Home) -> Iterator[BaseProcess]:
    fork = get_context("fork")
    held = fork.Event()

    def hold() -> SplitAudit:
        held.set()
        time.sleep(600)
        raise AssertionError

    process = fork.Process(target=kept, args=(KEY, hold))
    process.start()
    assert held.wait(60)
    yield process
    process.kill()
    process.join()


def test_a_key_is_free_when_who_made_its_result_is_killed(holder: BaseProcess) -> None:
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
        holder.kill()
        assert sorted(each.result(180)[1] for each in waiting) == [False, True, True, True]
    assert len(made) == 2
