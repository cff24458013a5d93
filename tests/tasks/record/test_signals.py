"""A signal that interrupts a record: it is heard, and the run says so."""

import signal
import sqlite3
from collections.abc import Callable
from contextlib import closing

import pytest
from evenfold.tasks import Home
from evenfold.tasks.record.entries import Entry
from evenfold.tasks.record.tracker import Tracker
from evenfold.tasks.runtime.stopping import ENDINGS
from prefect.exceptions import TerminationSignal
from prefect.utilities.engine import capture_sigterm


def test_a_record_that_a_cancelled_run_was_writing_is_killed_and_completed_by_the_next(home: Home) -> None:
    """By a signal as Prefect hears it; what fails in earnest is told apart."""

    class Cancelled:
        def __str__(self) -> str:
            signal.raise_signal(signal.SIGTERM)
            raise AssertionError("the signal has not been heard")

    tracker = Tracker(home, "rows")

    def written(key: str, begun: object, then: Callable[[], object]) -> str:
        with tracker.run(Entry(key=key, name=key, tags={}, params={"begun": begun}, metrics={})):
            then()
        return "whole"

    for key, begun, then in (("begun", Cancelled(), print), ("filled", "well", Cancelled().__str__)):
        with capture_sigterm(), pytest.raises(TerminationSignal):
            written(key, begun, then)
        (run,) = tracker.runs(f"tags.`mlflow.runName` = '{key}'")
        assert run.info.status == ("RUNNING" if key == "begun" else "KILLED")
        assert "evenfold.failure" not in run.data.tags
        assert written(key, "well", print) == "whole"
    with tracker.run(Entry(key="stopped", name="stopped", tags={}, params={}, metrics={})) as run_id:
        ENDINGS[-1]()  # as a signal to a command does, which leaves no block
        assert tracker.client.get_run(run_id).info.status == "KILLED"
    assert not ENDINGS
    with pytest.raises(ZeroDivisionError):
        written("failed", "well", lambda: 1 / 0)
    states = {name: run.info.status for run in tracker.runs() for name in [run.info.run_name]}
    assert states == {"stopped": "FINISHED", "begun": "FINISHED", "filled": "FINISHED", "failed": "FAILED"}


def test_a_signal_is_heard_though_the_store_cannot_be_told_of_it(home: Home) -> None:
    """Ctrl-C ended with an error of MLflow's, and to Prefect a run that it cancelled had failed."""
    tracker = Tracker(home, "rows")

    def interrupted() -> None:
        with tracker.run(Entry(key="rows", name="rows", tags={}, params={}, metrics={})):
            with closing(sqlite3.connect(home.path / "mlflow.db")) as store:
                store.execute("ALTER TABLE runs RENAME TO elsewhere")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
