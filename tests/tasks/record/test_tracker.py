"""What the tracker writes: names that stay apart, searches to the last page, signals that are heard."""

import signal
import sqlite3
from collections.abc import Callable
from contextlib import closing

import numpy as np
import pandas as pd
import pytest
from evenfold.estimates import Confusion
from evenfold.manifests import decide, measure
from evenfold.tasks import Home
from evenfold.tasks.record.entries import Entry, balance_series, confusion_metrics, named_apart
from evenfold.tasks.record.reading import _newest_of, _recorded_runs
from evenfold.tasks.record.runs import recorded_models, recorded_runs
from evenfold.tasks.record.tracker import Tracker
from evenfold.tasks.runtime.stopping import ENDINGS
from prefect.exceptions import TerminationSignal
from prefect.utilities.engine import capture_sigterm

ALIKE = ("кот", "пёс", "C++", "C##", "C__ 2", "/", ".", "..", "")


def test_no_two_names_coincide_and_mlflow_takes_them(home: Home) -> None:
    names = named_apart(ALIKE)
    assert list(names) == list(ALIKE)
    assert (names["кот"], names["C++"], names["C##"]) == ("кот", "C__", "C__ 2")
    assert len(set(names.values())) == len(ALIKE)
    figures = {f"balance/share/{name}": float(place) for place, name in enumerate(names.values())}
    tracker = Tracker(home, "rows")
    with tracker.run(Entry(key="a", name="a", tags={}, params={}, metrics=figures)) as run_id:
        pass
    assert tracker.client.get_run(run_id).data.metrics == figures


@pytest.mark.parametrize("classes", [("кот", "пёс"), ("C##", "C++")])
def test_the_share_of_each_class_and_each_cell_is_kept(classes: tuple[str, str]) -> None:
    """Of 60 rows a third are of the second class; each fold holds both."""
    frame = pd.DataFrame({"id": range(60), "c": np.array(classes)[(np.arange(60) % 3 == 2).astype(int)]})
    spec = {"name": "rows", "columns": {"key": ["id"], "target": "c"}, "strategy": "StratifiedKFold"}
    series = balance_series(measure(decide(spec, frame), frame))
    shares = [folds for name, folds in series.items() if name.startswith("balance/share/")]
    assert [round(folds[0], 1) for folds in shares] == [0.7, 0.3]
    cells = confusion_metrics(Confusion(list(classes), [[1, 2], [3, 4]]))
    assert list(cells.values()) == [1.0, 2.0, 3.0, 4.0]


def copied(home: Home, run_id: str, times: int) -> None:
    with sqlite3.connect(home.path / "mlflow.db") as store:
        names = [f"{number:032x}" for number in range(times)]
        for table in ("runs", "tags"):
            row = store.execute(f"SELECT * FROM {table} WHERE run_uuid = ?", (run_id,))
            place = [column[0] for column in row.description].index("run_uuid")
            copies = [(*each[:place], name, *each[place + 1 :]) for each in row.fetchall() for name in names]
            store.executemany(f"INSERT INTO {table} VALUES ({', '.join('?' * len(row.description))})", copies)


def test_looks_beyond_a_thousand_are_counted(home: Home) -> None:
    """A budget that is spent stays spent, and the level of a look goes by all that were before it."""
    tracker = Tracker(home, "rows")
    entry = Entry(key="look", name="look", tags={"evenfold.holdout": "locked"}, params={}, metrics={})
    with tracker.run(entry) as run_id:
        pass
    copied(home, run_id, 1_000)
    assert len({run.info.run_id for run in tracker.runs("tags.`evenfold.holdout` = 'locked'")}) == 1_001


def test_models_beyond_a_hundred_are_listed(home: Home) -> None:
    client = Tracker(home, "").client
    names = {f"model {number}" for number in range(103)}
    for name in names:
        client.create_registered_model(name)
    assert {model["model"] for model in recorded_models(home)} == names


def test_the_newest_version_is_found_beyond_a_thousand_records(home: Home) -> None:
    tracker = Tracker(home, "rows")
    for version in ("1.1", "1.0"):
        tags = {"evenfold.record": "split", "evenfold.spec": f"rows@{version}", "evenfold.split_id": "0" * 64}
        with tracker.run(Entry(key=version, name=version, tags=tags, params={}, metrics={})) as run_id:
            pass
    copied(home, run_id, 1_000)
    assert _newest_of(_recorded_runs(tracker, "rows"), "rows", home).info.run_name == "1.1"


def test_a_metric_that_nobody_knows_here_ends_no_list(home: Home) -> None:
    """Another project, or another version of scikit-learn, may have recorded it."""
    tracker = Tracker(home, "rows")
    for metric, value in (("r2", 0.5), ("my_score", 1.25)):
        params, figures = {"model.metrics": f"['{metric}']"}, {f"value/{metric}": value}
        entry = Entry(metric, "Ridge @ rows 1.0", {"evenfold.record": "evaluation"}, params, figures)
        with tracker.run(entry):
            pass
    assert {row["score"] for row in recorded_runs(home, "evaluation")} == {"R2 0.500", "my_score 1.25"}


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
