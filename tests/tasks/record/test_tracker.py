"""What is written to the record and read back: names apart, searches to the last page, signals heard."""

import math
import shutil
import signal
import sqlite3
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from unittest.mock import patch

import pytest
from evenfold.estimates import Choice, Estimate
from evenfold.estimates.results import Interval
from evenfold.splitters import SplitError
from evenfold.splitters.errors import named_apart
from evenfold.tasks import Home
from evenfold.tasks.record.entries import Entry
from evenfold.tasks.record.reading import read_recipe, recorded_runs
from evenfold.tasks.record.splits import read_split
from evenfold.tasks.record.tracker import JUDGED, Tracker
from evenfold.tasks.runtime.progress import ENDINGS
from mlflow.tracking import MlflowClient
from prefect.exceptions import TerminationSignal
from prefect.utilities.engine import capture_sigterm
from small import small

from evenfold import flows

ALIKE = ("кот", "пёс", "C++", "C##", "C__ 2", "/", ".", "..", "")


def test_no_two_names_coincide_and_mlflow_takes_them(home: Home) -> None:
    names = named_apart(ALIKE)
    assert list(names) == list(ALIKE)
    assert (names["кот"], names["C++"], names["C##"]) == ("кот", "C__", "C__ 2")
    assert len(set(names.values())) == len(ALIKE)
    figures = {f"balance/share/{name}": float(place) for place, name in enumerate(names.values())}
    tracker = Tracker(home, "rows")
    with tracker.run(Entry(key="a", name="a", metrics=figures)) as run_id:
        pass
    assert tracker.client.get_run(run_id).data.metrics == figures


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
    entry = Entry(key="look", name="look", tags={"evenfold.holdout": "locked"})
    with tracker.run(entry) as run_id:
        pass
    copied(home, run_id, 1_000)
    assert len({run.info.run_id for run in tracker.runs("tags.`evenfold.holdout` = 'locked'")}) == 1_001


def test_a_metric_that_nobody_knows_here_ends_no_list(home: Home) -> None:
    """Another project, or another version of scikit-learn, may have recorded it."""
    tracker = Tracker(home, "rows")
    for metric, value in (("r2", 0.5), ("my_score", 1.25)):
        params = {"model.metrics": f"['{metric}']", "model.params": str({"alpha": value, "solver": "svd"})}
        figures = {f"value/{metric}": value}
        entry = Entry(metric, "Ridge @ rows 1.0", {"evenfold.record": "evaluation"}, params, figures)
        with tracker.run(entry):
            pass
    rows = {row["score"]: row["params"] for row in recorded_runs(home, "evaluation")}
    assert rows == {"R2 0.500": "alpha=0.5", "my_score 1.25": "alpha=1.25"}


def test_a_record_that_a_cancelled_run_was_writing_is_killed_and_completed_by_the_next(home: Home) -> None:
    """By a signal as Prefect hears it; what fails in earnest is told apart."""

    class Cancelled:
        def __str__(self) -> str:
            signal.raise_signal(signal.SIGTERM)
            raise AssertionError("the signal has not been heard")

    tracker = Tracker(home, "rows")

    def written(key: str, begun: object, then: Callable[[], object]) -> str:
        with tracker.run(Entry(key=key, name=key, params={"begun": begun})):
            then()
        return "whole"

    for key, begun, then in (("begun", Cancelled(), print), ("filled", "well", Cancelled().__str__)):
        with capture_sigterm(), pytest.raises(TerminationSignal):
            written(key, begun, then)
        (run,) = tracker.runs(f"tags.`mlflow.runName` = '{key}'")
        assert run.info.status == "KILLED"
        assert "evenfold.failure" not in run.data.tags
        assert written(key, "well", print) == "whole"
    with tracker.run(Entry(key="stopped", name="stopped")) as run_id:
        ENDINGS[-1]()  # as a signal to a command does, which leaves no block
        assert tracker.client.get_run(run_id).info.status == "KILLED"
    assert not ENDINGS
    with pytest.raises(ZeroDivisionError):
        written("failed", "well", lambda: 1 / 0)
    states = {name: run.info.status for run in tracker.runs() for name in [run.info.run_name]}
    assert states == {"stopped": "FINISHED", "begun": "FINISHED", "filled": "FINISHED", "failed": "FAILED"}


def test_points_that_a_kill_has_parted_from_their_model_are_logged_again(home: Home) -> None:
    """MLflow keeps a model, points, those of the model and the tag that names it one after the other."""
    tracker, tags = Tracker(home, "rows"), {"spec": "rows@1.0", "evenfold.split_id": "0" * 64}
    metrics = {f"value/{number}": 0.5 for number in range(150)}  # beyond 100, MLflow refuses a point's second time
    entry = Entry(key="key", name="model @ rows 1.0", tags=tags, metrics=metrics, judged=True)
    killed = patch.object(MlflowClient, "log_batch", side_effect=KeyboardInterrupt)
    with killed, pytest.raises(KeyboardInterrupt):
        tracker.begin(entry)
    with tracker.run(entry) as run_id:
        (judged,) = (model.model_id for model in tracker.client.search_logged_models([tracker.experiment_id]))
    tracker.client.delete_tag(run_id, JUDGED)
    again = Tracker(home, "rows")
    with again.run(entry):
        pass
    run = again.client.get_run(run_id)
    assert (run.info.status, run.data.tags[JUDGED], run.data.metrics) == ("FINISHED", judged, metrics)


def test_a_signal_is_heard_though_the_store_cannot_be_told_of_it(home: Home) -> None:
    """Ctrl-C ended with an error of MLflow's, and to Prefect a run that it cancelled had failed."""
    tracker = Tracker(home, "rows")

    def interrupted() -> None:
        with tracker.run(Entry(key="rows", name="rows")):
            with closing(sqlite3.connect(home.path / "mlflow.db")) as store:
                store.execute("ALTER TABLE runs RENAME TO elsewhere")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()


def test_an_underscore_in_a_name_stands_for_no_other_letter(home: Home) -> None:
    """The store's LIKE takes it for any: a split that nobody named would have been used instead."""
    made = flows.split(small(), key="id", target="y", name="my-split", strategy="KFold", engine="plain")
    assert read_split("my-split").split_id == made.split.split_id
    for name in ("my_split", "my%"):
        with pytest.raises(SplitError, match="there is no split"):
            read_split(name)


def test_a_version_that_there_is_not_is_answered_with_those_that_there_are(home: Home) -> None:
    """Recorded ones, and those that only lie below the home; a name alone is their newest."""
    made = flows.split(small(), key="id", target="y", name="rows", strategy="KFold", engine="plain").split
    for wrong in ("rows@9.0", "rows@"):
        with pytest.raises(SplitError, match=rf"there is no split '{wrong}' in .*; rows has 1\.0\.$"):
            read_split(wrong)
    shutil.copytree(made.uri, home.splits / "rows" / "1.1")
    assert str(read_split("rows").uri).endswith("rows/1.1"), "newer than what is recorded"
    with pytest.raises(SplitError, match="there is no split 'xxx"):
        read_split("x" * 300)
    with pytest.raises(SplitError, match=r"there is no split '\.\./x' in"):
        read_split("../x")


def test_a_name_of_several_projects_is_this_ones_or_refused_and_what_is_loaded_grows_here(
    home: Home, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The newest of one name in a shared store is anybody's; by its id a split is loaded under its own name."""
    monkeypatch.setenv("MLFLOW_TRACKING_URI", home.tracking_store)
    ids = []
    for seed, project in enumerate("ab"):
        monkeypatch.setenv("EVENFOLD_HOME", str(tmp_path / project))
        asked = {"key": "id", "target": "y", "name": "rows", "strategy": "KFold", "seed": seed}
        ids.append(flows.split(small(), engine="plain", **asked).split.split_id)
    monkeypatch.setenv("EVENFOLD_HOME", str(tmp_path / "a"))
    assert [read_split(reference).split_id for reference in ("rows", "rows@1.0")] == [ids[0], ids[0]]
    monkeypatch.setenv("EVENFOLD_HOME", str(tmp_path / "c"))
    for reference in ("rows", "rows@1.0"):
        with pytest.raises(SplitError, match=rf"names 2 splits .*{min(ids)[:16]} and rows@1\.0 {max(ids)[:16]}"):
            read_split(reference)
    loaded = flows.load_split(ids[0][:16])
    assert (Path(str(loaded.uri)), loaded.split_id) == (tmp_path / "c" / "splits" / "rows" / "1.0", ids[0])
    grown = flows.extend("rows@1.0", small(n=150), engine="plain").split
    assert Path(grown.uri) == tmp_path / "c" / "splits" / "rows" / "1.1"
    assert read_split(ids[1]).split_id == ids[1]  # apart, for rows@1.0 is taken here
    assert read_split("rows").split_id == grown.split_id


def test_a_tuning_promises_what_is_expected_of_its_choice_without_its_luck() -> None:
    """By the metric that chose; any other stays, and an interval that there is not is none."""
    luck = Estimate("r2", "cross-validation", 0.408, 0.1, None, 5, interval=Interval(0.321, 0.495, 0.95, "a method"))
    other = replace(luck, metric="neg_mean_squared_error")
    honest, same = Choice(0, 0, 0.408, 0.39, 0.3, 0.48).promised([luck, other], "r2")
    assert (honest.value, honest.interval.low, honest.interval.high, same) == (0.39, 0.3, 0.48, other)
    assert Choice(0, 0, 0.408, 0.39, math.nan, math.nan).promised([luck], "r2")[0].interval is None


def test_a_damaged_recipe_is_said_to_be(home: Home) -> None:
    """Whoever may write to the store may damage it; a command ends with a sentence."""
    tracker = Tracker(home, "rows")
    with tracker.run(Entry(key="a", name="Ridge @ rows 1.0")) as run_id:
        pass
    for text in ("{}", "[]", "null", '{"split": {}}', '{"split": "rows"}'):
        tracker.client.log_text(run_id, text, "recipe.json")
        with pytest.raises(SplitError, match=r"recipe\.json of run .* \(Ridge @ rows 1\.0\) is damaged"):
            read_recipe(run_id)
