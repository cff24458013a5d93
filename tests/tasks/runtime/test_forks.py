"""A fork has the memory of a flow's process, and none of its threads."""

from __future__ import annotations

import multiprocessing
import os

import pandas as pd
import pytest
from evenfold.flows import flow
from evenfold.tasks import Home
from evenfold.tasks.runtime import files, limits

FRAME = pd.DataFrame({"id": range(12), "y": range(12)})


def _take_part(home: Home) -> None:
    with flow._quiet(), limits.unlogged(), files.asking(FRAME, home):
        pass
    os._exit(0)  # Prefect's own fails at the end of a fork, if it has sent events before


@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_a_fork_waits_for_no_thread_that_it_does_not_have(home: Home) -> None:
    """It inherits locks as they are, held by threads of the process that it was forked from."""
    child = multiprocessing.get_context("fork").Process(target=_take_part, args=(home,))
    with files.asking(FRAME, home):
        child.start()
        child.join(20)
    child.kill()
    child.join()
    assert child.exitcode == 0
