"""The locked part: drawn first, never touched, and every look at it on record."""

import re
import sqlite3
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from evenfold.estimates import EvaluationError
from evenfold.flows import evaluate, tune
from evenfold.manifests import decide
from evenfold.reports.evaluations.words import headline
from evenfold.splitters import SplitError
from evenfold.tasks import Home, aggregate, fit_fold, split
from evenfold.tasks.record.studies import record_look
from evenfold.tasks.steps import worth_another_try
from prefect.states import Failed
from small import compared

from evenfold import flows


def table(n: int = 400) -> pd.DataFrame:
    rng = np.random.default_rng(0)
    x = rng.normal(size=n)
    return pd.DataFrame(
        {"id": range(n), "g": rng.integers(0, 60, n), "x": x, "y": x + rng.normal(size=n), "c": (x > 0).astype(int)}
    )


SPECS = [
    {"strategy": "KFold"},
    {"strategy": "StratifiedKFold", "columns": {"key": "id", "target": "c"}},
    {"strategy": "SortedStratifiedKFold"},
    {"strategy": "BalancedGroupKFold", "columns": {"key": "id", "target": "y", "group": "g"}},
    {"strategy": "Bootstrap", "params": {"n_splits": 5}},
    {"strategy": "ShuffleSplit", "params": {"n_splits": 5}},
    {"strategy": "FromSklearn", "params": {"splitter": "sklearn.model_selection:KFold", "params": {"n_splits": 3}}},
]


@pytest.mark.parametrize("given", SPECS, ids=[spec["strategy"] for spec in SPECS])
def test_no_split_touches_the_locked_part(given: dict[str, Any]) -> None:
    """Its share of rows is locked, groups whole, the target in its share, and no pair holds one of them."""
    spec = {"columns": {"key": "id", "target": "y"}, "holdout": {"fraction": 0.2}} | given
    frame = table()
    manifest = decide(spec, frame)
    rest, locked = manifest.locked_pair()
    assert abs(locked.size - 80) <= 3
    assert rest.size + locked.size == 400
    for train, test in manifest.pairs():
        assert not np.isin(train, locked).any()
        assert not np.isin(test, locked).any()
    target = frame[spec["columns"]["target"]].to_numpy()
    assert abs(target[locked].mean() - target.mean()) < 0.15 * target.std() + 0.05
    if "group" in spec["columns"]:
        assert not set(frame["g"].iloc[locked]) & set(frame["g"].iloc[rest])


def test_parts_with_a_test_part_take_no_holdout_beside_it() -> None:
    spec = {
        "columns": {"key": "id", "target": "y"},
        "strategy": "FractionalStratifiedSplit",
        "params": {"parts": {"train": 0.6, "validation": 0.2, "test": 0.2}},
        "holdout": {"fraction": 0.1},
    }
    with pytest.raises(SplitError, match="keep a test part for the end already"):
        decide(spec, table())


SPEC = {"name": "locked", "columns": {"key": "id", "target": "y", "group": "g"}, "holdout": {"fraction": 0.25}}
SPEC["params"] = {"n_splits": 3}
MODEL = {"estimator": "sklearn.linear_model:Ridge", "metrics": ["r2"]}


def test_every_look_is_recorded_and_counted(home: Home) -> None:
    """Who looked, with which model, why, beside what the folds promised; the third look says that it is the third."""
    from evenfold.tasks.record.tracker import Tracker

    with pytest.raises(SplitError, match="needs a reason"):
        evaluate(table(), spec=SPEC, model=MODEL, engine="plain", on="holdout")
    promise = evaluate(table(), spec=SPEC, model=MODEL, engine="plain").estimates[0]
    looks = [
        evaluate(table(), spec=SPEC, model=MODEL, engine="plain", on="holdout", reason=f"release {i}") for i in range(3)
    ]
    page = looks[0].page().read_text()
    assert all(words in page for words in (f"promised {headline(promise)[1]}", "by predicting the mean", "✓ Good"))
    assert f"Promised by the folds: {' '.join(headline(promise))}" in str(looks[0].as_page())
    assert [each.look for each in looks] == [1, 2, 3]
    tracker = Tracker(home, "locked")
    run = tracker.client.get_run(looks[2].run_id)
    assert run.data.tags["evenfold.look_reason"] == "release 2"
    assert run.data.metrics["holdout/r2"] == looks[2].estimates[0].value
    assert looks[0].estimates[0].value == looks[2].estimates[0].value
    assert looks[0].scores[0].n_test == pytest.approx(100, abs=8)
    interval = looks[0].estimates[0].interval
    assert interval.low < looks[0].estimates[0].value < interval.high
    assert interval.method == "pooled rows, cluster-robust"
    with pytest.raises(EvaluationError, match="is no result of a split"):  # nor an evaluation
        aggregate.fn(looks[0].split, [fit_fold.fn(looks[0].split, "holdout", MODEL)])


def test_a_look_that_cannot_be_recorded_is_refused(home: Home) -> None:
    flows.split(table(), spec=SPEC, engine="plain")
    with sqlite3.connect(home.path / "mlflow.db") as store:
        store.execute("create trigger no_looks before insert on runs begin select raise(abort, 'read only'); end")
    with pytest.raises(EvaluationError, match=r"could not be recorded, so the holdout stays closed: .*"):
        evaluate(table(), spec=SPEC, model=MODEL, engine="plain", on="holdout", reason="try")


def test_one_look_spends_one_however_the_tracker_fails(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    """Once it is in the ledger the task is not tried again, for a second try would be a second look."""
    guarded = {**SPEC, "holdout": {"fraction": 0.2, "budget": 3}}
    made = split.fn(table(), guarded)
    with pytest.raises(SplitError, match="a look at the holdout needs a reason"):
        record_look.fn(made, MODEL, " ")
    with sqlite3.connect(home.path / "mlflow.db") as store:
        store.execute("create trigger no_looks before insert on runs begin select raise(abort, 'read only'); end")
    with pytest.raises(SplitError, match=r"^look 1 is in the ledger and so it is spent, and MLflow ") as lost:
        record_look.fn(made, MODEL, "one look")
    assert not worth_another_try(None, None, Failed(data=lost.value))
    with sqlite3.connect(home.path / "mlflow.db") as store:
        store.execute("drop trigger no_looks")
    assert record_look.fn(made, MODEL["estimator"], "another look").look == 2


def test_tuning_looks_once_at_the_end_if_asked(home: Home) -> None:
    grid = {"alpha": [0.1, 1000.0]}
    asked = {"spec": SPEC, "model": MODEL, "grid": grid, "engine": "plain"}
    tuned = tune(table(), **asked, on="holdout", reason="final")
    assert tuned.look.look == 1
    assert tuned.look.model.params == tuned.configurations[tuned.chosen]
    assert tuned.n_fits == 6


def test_neither_another_name_nor_a_deleted_ledger_gives_a_look_back(home: Home) -> None:
    """The budget belongs to the rows that are locked: under a new name, with other folds, and without the file."""
    spec = SPEC | {"holdout": {"fraction": 0.25, "budget": 2}}
    asked = {"model": MODEL, "engine": "plain", "on": "holdout", "reason": "release"}
    other = spec | {"name": "renamed", "params": {"n_splits": 4}}
    looks = [evaluate(table(), spec=each, **asked) for each in (spec, other)]
    assert [(look.look, look.looks_left) for look in looks] == [(1, 1), (2, 0)]
    levels = [look.estimates[0].interval.level for look in looks if look.estimates[0].interval]
    assert levels == pytest.approx([0.975, 0.975]), "two looks of a budget of two at 95 % together"
    for again in (spec, other, spec | {"name": "third"}):
        with pytest.raises(EvaluationError, match="looked at 2 times and its budget is 2"):
            evaluate(table(), spec=again, **asked)
    for file in (home.path / "looks").iterdir():
        file.unlink()
    with pytest.raises(EvaluationError, match="looked at 2 times and its budget is 2"):
        evaluate(table(), spec=spec, **asked)


def test_verify_reads_the_ledger_and_misses_what_the_tracker_knows(home: Home) -> None:
    from evenfold.flows.commands.manifests import verify

    asked = {"spec": SPEC, "model": MODEL, "engine": "plain", "on": "holdout"}
    looks = [evaluate(table(), **asked, reason=f"release {i}") for i in range(2)]
    folder, ledger = Path(looks[0].split.uri), next((home.path / "looks").iterdir())
    assert "the ledger of 2 looks at the locked rows is whole" in verify(folder).came.proved
    text = ledger.read_text()
    for forged, said in (
        (text.replace("release 0", "release 9"), "was changed"),
        (text.splitlines()[1] + "\n", "a look is missing before line 1"),
        (text.splitlines()[0] + "\n", r"lacks look 2 \(run .*which MLflow knows of"),
        ("", r"lacks look 1 \(run .*, look 2 \(run"),
    ):
        ledger.write_text(forged)
        made = verify(folder).came
        assert not made.intact
        assert re.search(said, made.damages[0].message), made.damages
        if said == "was changed":  # and is found before the next look
            with pytest.raises(EvaluationError, match=said):
                evaluate(table(), **asked, reason="once more")
    ledger.unlink()
    assert not verify(folder).came.intact


def test_two_looks_are_compared_row_by_row(home: Home) -> None:
    """On the same locked rows; a look at other rows is no such comparison."""
    spec = {"name": "looks", "columns": {"key": "id", "target": "c"}, "holdout": {"fraction": 0.4}}
    asked: dict[str, Any] = {"spec": spec, "engine": "plain", "on": "holdout", "reason": "which of two"}
    models = [{"estimator": f"sklearn.{each}", "metrics": ["accuracy"]} for each in ("dummy:DummyClassifier",
              "linear_model:LogisticRegression")]  # fmt: skip
    first, second = (evaluate(table(), model=model | {"features": ["x"]}, **asked) for model in models)
    (made,) = compared(first.run_id, second.run_id)
    assert made.difference == pytest.approx(second.estimates[0].value - first.estimates[0].value)
    assert any("not repeated" in note and "a look at locked rows has none" in note for note in made.notes)
