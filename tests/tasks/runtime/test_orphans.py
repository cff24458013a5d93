"""Only what a flow started ends with its process: what the user starts after it, or apart from it, is the user's."""

from __future__ import annotations

import contextlib
import json
import multiprocessing
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pandas as pd
import pytest
from evenfold.flows import flow
from evenfold.tasks import Home
from evenfold.tasks.runtime import files, limits, orphans as orphans_module
from evenfold.tasks.runtime.orphans import MARK, guarded, marked_environment, orphans
from servers import wait_until

from evenfold import flows

STARTING = """
import json, os, signal, subprocess, sys
from evenfold.tasks.runtime.orphans import guard, guarded, marked_environment

def start(**how):
    nowhere = subprocess.DEVNULL
    return subprocess.Popen(["sleep", "60"], stdin=nowhere, stdout=nowhere, stderr=nowhere, **how).pid

def tell():
    print(json.dumps(started), flush=True)

started = {"before": start()}
with guarded():
    started["inside"] = start()
    started["apart"] = start(start_new_session=True)
    started["ours"] = start(env=marked_environment(), start_new_session=True)
    with guarded():
        pass
    started["inside too"] = start()
    if sys.argv[1] == "forked":
        told, telling = os.pipe()
        if not os.fork():
            with guarded():
                os.write(telling, str(start()).encode())
                os.kill(os.getpid(), 9)
        started["of a fork"] = int(os.read(told, 20))
    if sys.argv[1] == "killed":
        started["fork"] = os.fork()
        if not started["fork"]:
            os.close(1)
            signal.pause()
        tell()
        os.kill(os.getpid(), 9)
started["after"] = start()
tell()
"""


@contextlib.contextmanager
def ended(how: str) -> Iterator[dict[str, int]]:
    """Yield the numbers of what a process that has ended had started, and end it."""
    done = subprocess.run([sys.executable, "-c", STARTING, how], stdout=subprocess.PIPE, text=True)
    started = json.loads(done.stdout)
    try:
        yield started
    finally:
        for pid in started.values():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)


def alive(started: dict[str, int]) -> set[str]:
    return {name for name, pid in started.items() if Path(f"/proc/{pid}/cmdline").exists() and _runs(pid)}


def _runs(pid: int) -> bool:
    with contextlib.suppress(OSError):
        return b"sleep" in Path(f"/proc/{pid}/cmdline").read_bytes()
    return False


@pytest.mark.parametrize(
    ("how", "stay"),
    [
        ("in order", {"before", "inside", "inside too", "apart", "after"}),
        ("forked", {"before", "inside", "inside too", "apart", "after"}),
        ("killed", {"before", "apart", "fork"}),
    ],
)
def test_only_what_a_flow_has_started_ends_with_its_process(how: str, stay: set[str]) -> None:
    """What is ours always; what was started while a flow ran, where it was killed, but not what leads a session.

    A fork is a process of its own: it has a guard for its own flows, and does not keep that of another waiting.
    """
    with ended(how) as started:
        wait_until(lambda: alive(started) == stay, "the end of what was ours", 15)
        time.sleep(1.0)
        assert alive(started) == stay
        # What has no flow to wait for is named to the user, and nothing of the user's own.
        assert not {started["before"], started["apart"]} & {pid for pid, _ in orphans()}


FRAME = pd.DataFrame({"id": range(12), "y": range(12)})


def _take_part(home: Home) -> None:
    with guarded(), flow._quiet(), limits.unlogged(), files.asking(FRAME, home):
        pass
    os._exit(0)  # Prefect's own fails at the end of a fork, if it has sent events before


@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_a_fork_waits_for_no_thread_that_it_does_not_have(home: Home) -> None:
    """It inherits locks as they are, held by threads of the process that it was forked from."""
    child = multiprocessing.get_context("fork").Process(target=_take_part, args=(home,))
    with orphans_module._COUNTING, files.asking(FRAME, home):
        child.start()
        child.join(20)
    child.kill()
    child.join()
    assert child.exitcode == 0


def test_a_flow_leaves_no_mark_in_the_environment(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nor where it fails; a mark that the process was started with is there again."""
    flows.split(FRAME, key="id", target="y", strategy="KFold", n_splits=3, name="rows", engine="plain")
    assert MARK not in os.environ
    monkeypatch.setenv(MARK, "1-1")
    with contextlib.suppress(ZeroDivisionError), guarded():
        assert os.environ[MARK] != "1-1" != marked_environment()[MARK] != os.environ[MARK]
        1 / 0  # noqa: B018
    assert os.environ[MARK] == "1-1"
