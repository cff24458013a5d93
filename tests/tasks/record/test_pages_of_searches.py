"""MLflow answers a search page by page; what is counted or listed goes on to the last one."""

import sqlite3

from evenfold.tasks import Home
from evenfold.tasks.record.entries import Entry
from evenfold.tasks.record.reading import _newest_of, _recorded_runs
from evenfold.tasks.record.runs import recorded_models, recorded_runs
from evenfold.tasks.record.tracker import Tracker


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
