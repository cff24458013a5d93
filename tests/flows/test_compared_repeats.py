"""Comparisons over repeats of the folds: both recipes fitted anew where that is cheap, and a sentence where not."""

import re
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from evenfold.estimates import Comparison, compare
from evenfold.flows import Evaluation, compare as compare_flow, evaluate, extend, split as split_flow
from evenfold.splitters import BalancedGroupKFold, Repeated, SplitError
from evenfold.tasks import Home
from evenfold.tasks.record.reading import Recorded
from evenfold.tasks.work import further_pairs, work_of
from sklearn.linear_model import Ridge
from small import compared

RIDGE = {"estimator": "sklearn.linear_model:Ridge", "metrics": ["neg_mean_squared_error"]}
# Three folds say what five say, and each has a fit, a run and its part of the record.
GROUPED: dict[str, Any] = {"name": "small", "columns": {"key": "id", "target": "y", "group": "g"}}
GROUPED["params"] = {"n_splits": 3}
FAR = {"params": {"alpha": 1000.0}}


def table(n: int = 90) -> pd.DataFrame:
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"id": rng.permutation(n) + 1000, "a": rng.normal(size=n), "b": rng.normal(size=n)})
    frame["g"], frame["day"] = frame["id"] % 45, pd.Timestamp("2025-01-01") + pd.to_timedelta(frame["id"], "D")
    return frame.assign(y=frame["a"] + 0.5 * frame["b"] + rng.normal(size=n), part=frame["id"] % 3)


@pytest.fixture
def home(shared_home: Home) -> Home:
    """Return one home for all: tests that count fits, or change a table, have a split or a model of another name."""
    return shared_home


@pytest.fixture
def data(tmp_path: Path) -> Path:
    table().to_parquet(tmp_path / "small.parquet")
    return tmp_path / "small.parquet"


def asked(data: Path, **fields: Any) -> Evaluation:
    return evaluate(data, **({"engine": "plain", "spec": GROUPED, "model": RIDGE} | fields))


def two(data: Path, **fields: Any) -> tuple[str, str]:
    return asked(data, **fields).run_id, asked(data, **fields, model=RIDGE | FAR).run_id


@cache
def shared(home: Home) -> tuple[str, str]:
    table().to_parquet(home.path / "small.parquet")
    return two(home.path / "small.parquet")


def by_hand(frame: pd.DataFrame, alpha: float, n_repeats: int) -> pd.DataFrame:
    ordered = frame.sort_values("id").reset_index(drop=True)
    folds = Repeated(BalancedGroupKFold(3), n_repeats).assign(ordered, ordered["y"], ordered["g"])
    parts = []
    for repeat, labels in enumerate(folds.T):
        for fold in range(3):
            train, test = ordered[labels != fold], ordered[labels == fold]
            said = Ridge(alpha=alpha).fit(train[["a", "b"]], train["y"]).predict(test[["a", "b"]])
            columns = {"id": test["id"], "y": test["y"], "group": test["g"], "prediction": said}
            parts.append(pd.DataFrame(columns).assign(repeat=repeat, fold=fold))
    return pd.concat(parts)


def test_the_verdict_is_that_of_ten_repeats_of_the_strategy_and_their_fits_are_kept(home: Home, data: Path) -> None:
    """Against repeats by hand, whose first is the recorded round; asked again, nothing is fitted."""
    model = RIDGE | {"features": ["a", "b"]}
    runs = asked(data, model=model).run_id, asked(data, model=model | FAR).run_id
    (made,) = compared(*runs)
    assert (made.repeats, made.n_fits, made.n_rows) == (10, 60, 90)
    found = re.search(r"60 fits, of which 6 were recorded, (\d+) kept and (\d+) made now", made.notes[0])
    assert sum(map(int, found.groups())) == 54  # a fold that comes out as in another repeat is fitted once
    assert int(found[2]) > 36
    a, b = (by_hand(table(), alpha, 10) for alpha in (1.0, 1000.0))
    known = compare(a, b, "neg_mean_squared_error", on=["id"])
    assert (made.a, made.b, made.p) == pytest.approx((known.a, known.b, known.p), rel=1e-9)
    assert made.se == pytest.approx(known.se, rel=1e-9)
    (again,) = compared(*runs)
    assert "54 kept and 0 made now" in again.notes[0]
    (one,) = compared(*runs, repeats=1)
    assert (one.repeats, one.n_fits) == (1, 6)


def test_no_repeat_parts_a_group_or_touches_a_locked_row(home: Home, data: Path) -> None:
    """In a split that has grown as well: each row in use is tested once a repeat, by a model of all other groups."""
    spec = GROUPED | {"holdout": {"fraction": 0.2}}
    outcome = split_flow(data, spec=spec | {"name": "locked"}, engine="plain")
    more = table().assign(id=lambda frame: frame["id"] + 500, g=lambda frame: frame["g"] + 50)
    both = pd.concat([table(), more.head(30)])
    grown = extend(outcome.split.uri, both, engine="plain").split
    for split in (outcome.split, grown):
        work = work_of(split, RIDGE)
        manifest, groups = work.manifest, work.problem.groups
        assert groups is not None
        open_rows = set(work.place[manifest.in_use.unlocked].tolist())
        assert 0 < len(open_rows) < manifest.n
        pairs = further_pairs(work, 4)
        assert len(pairs) == 9
        for repeat in range(3):
            tested = np.concatenate([test for _, test in pairs[3 * repeat : 3 * repeat + 3]])
            assert sorted(tested.tolist()) == sorted(open_rows)
        for train, test in pairs:
            assert set(train.tolist()) == open_rows - set(test.tolist())
            assert not set(groups[train]) & set(groups[test])
        assert [test.tolist() for _, test in further_pairs(work, 3)] == [test.tolist() for _, test in pairs[:6]]


ODD: dict[str, dict[str, Any]] = {
    "ForwardChaining has no other folds": {"columns": {"key": "id", "target": "y", "time": "day"}},
    "has nothing to repeat": {"strategy": "HashSplit", "columns": {"key": "id", "target": "y"}},
}


@pytest.mark.parametrize("reason", ODD)
def test_what_has_no_other_folds_is_compared_as_recorded_and_says_so(home: Home, data: Path, reason: str) -> None:
    runs = two(data, spec={"name": reason.split()[0], "params": {"n_splits": 2}} | ODD[reason])
    (made,) = compared(*runs)
    assert made.repeats == 1
    assert [reason in note for note in made.notes].count(True) == 1
    with pytest.raises(SplitError, match=reason):
        compared(*runs, repeats=3)


def test_long_fits_are_not_repeated_unasked(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    """As many repeats as the seconds allow; the command that has the rest is told, and does."""
    runs = shared(home)
    monkeypatch.setattr(Recorded, "fit_seconds", 10.0)  # for a round of three folds
    (made,) = compared(*runs)
    assert made.repeats == 4
    assert any(
        "would take about 180 s of further fits, and 60 s is what is taken unasked" in note for note in made.notes
    )
    (told,) = (note for note in made.notes if "to have them" in note)
    assert told.endswith(f"evenfold compare {runs[0][:8]} {runs[1][:8]} --repeats 10.")
    monkeypatch.setattr(Recorded, "fit_seconds", None)
    (silent,) = compared(*runs)
    assert silent.repeats == 1
    assert any("do not say what their fits took" in note for note in silent.notes)


def test_other_data_than_then_are_not_learnt_from(home: Home, data: Path) -> None:
    runs = two(data, spec=GROUPED | {"name": "changed", "params": {"n_splits": 2}})
    table().assign(a=0.0).to_parquet(data)
    (made,) = compared(*runs)
    assert made.repeats == 1
    assert any("small.parquet holds other values than those that run" in note for note in made.notes)
    data.unlink()
    (made,) = compared(*runs)
    assert any("evaluate it again: evenfold evaluate TABLE --manifest changed@1.0" in note for note in made.notes)


def test_prefect_runs_the_repeats_as_tasks_that_find_what_the_plain_engine_kept(prefect_home: Home, data: Path) -> None:
    runs = two(data, spec=GROUPED | {"params": {"n_splits": 2}})
    compared(*runs, repeats=2)
    made: list[Comparison] = compare_flow(*runs, repeats=3)
    assert made[0].repeats == 3
    (told,) = (found for note in made[0].notes if (found := re.search(r"(\d+) kept and \d+ made now", note)))
    assert int(told[1]) >= 4, "the second repeat of two folds and two recipes"
    assert made[0].se == compared(*runs, repeats=3)[0].se


def test_recipes_that_learnt_from_the_past_alone_are_less_sure_by_what_they_learnt_from(home: Home, data: Path) -> None:
    """The recorded training rows count: most rows that forward chaining tests elsewhere are future ones."""
    spec = {"name": "days", "columns": {"key": "id", "target": "y", "time": "day"}, "strategy": "ForwardChaining"}
    runs = [asked(data, spec=spec | {"params": {"n_splits": 3}}, model=RIDGE | more) for more in ({}, FAR)]
    (made,) = compared(*(run.run_id for run in runs), repeats=1)
    widths = [end.high - end.low for end in (made.interval, made.of_models)]
    n, n_train = made.n_rows, np.mean([score.n_train for score in runs[0].scores])
    assert widths[0] / widths[1] == pytest.approx(np.sqrt(1 + n / n_train))
    assert made.se[1] == 2, "each of the three stretches is one observation, as in the interval of the score"
