"""Blocks of time and forward chaining beside labels that are known later, held to code that asks row by row."""

import itertools
from datetime import datetime, timedelta
from typing import Any

import numpy as np
import pytest
from evenfold.splitters import CombinatorialPurgedKFold, ForwardChaining, Holdout, PurgedKFold, SplitError, Splitter

TIMES = np.random.default_rng(5).integers(0, 120, 300)
ENDS = TIMES + np.random.default_rng(6).integers(0, 9, 300)
ENTITIES = np.random.default_rng(7).integers(0, 150, 300)


@pytest.mark.parametrize(
    ("make", "gap", "embargo", "grouped"),
    [(PurgedKFold, 0, 0, False), (PurgedKFold, 2, 0, True), (CombinatorialPurgedKFold, 0, 5, False),
     (CombinatorialPurgedKFold, 3, 4, True)],
)  # fmt: skip
def test_what_is_learnt_is_every_row_that_overlaps_no_tested_one(
    make: Any, gap: int, embargo: int, grouped: bool
) -> None:
    groups = ENTITIES if grouped else None
    pairs = list(make(6, gap=gap, embargo=embargo).split(None, None, groups, time=TIMES, label_end=ENDS))
    assert len(pairs) == (6 if make is PurgedKFold else 15)
    for train, test in pairs:
        # A row is over before a tested one begins, or begins after that one is known.
        apart = (ENDS[:, None] + gap < TIMES[test]) | (TIMES[:, None] > ENDS[test] + embargo)
        wanted = apart.all(axis=1) & ~np.isin(np.arange(300), test)
        wanted &= ~np.isin(ENTITIES, ENTITIES[test]) if grouped else True
        assert train.tolist() == np.flatnonzero(wanted).tolist()


def test_blocks_hold_whole_times_and_about_as_many_rows() -> None:
    tests = [test for _, test in PurgedKFold(6).split(None, time=TIMES)]
    of_time = {int(time): {i for i, test in enumerate(tests) if time in TIMES[test]} for time in np.unique(TIMES)}
    assert all(len(folds) == 1 for folds in of_time.values())
    assert all(abs(test.size - 50) <= np.unique(TIMES, return_counts=True)[1].max() for test in tests)
    assert [test.tolist() for _, test in PurgedKFold(3).split(None, time=[5, 1, 3])] == [[1], [2], [0]]


def test_an_embargo_of_rows_leaves_out_the_next_ones_with_those_of_their_time() -> None:
    (_, test), (train, again) = (
        list(PurgedKFold(4, gap=gap, embargo=embargo).split(None, time=TIMES, label_end=ENDS))[1]
        for gap, embargo in ((0, 0), ("3 rows", "4 rows"))
    )
    assert test.tolist() == again.tolist()
    over = sorted((t, row) for row, t in enumerate(TIMES.tolist()) if ENDS[row] < TIMES[test].min())
    later = sorted((t, row) for row, t in enumerate(TIMES.tolist()) if t > ENDS[test].max())
    wanted = [row for t, row in over if t < over[-3][0]] + [row for t, row in later if t > later[3][0]]
    assert train.tolist() == sorted(wanted)


def test_every_path_tests_every_row_once() -> None:
    splitter = CombinatorialPurgedKFold(6, 2)
    tests = [set(test.tolist()) for _, test in splitter.split(None, time=TIMES)]
    subsets = list(itertools.combinations(range(6), 2))
    blocks = [set.intersection(*(tests[i] for i, subset in enumerate(subsets) if b in subset)) for b in range(6)]
    assert sorted(row for block in blocks for row in block) == list(range(300))
    assert len(splitter.paths()) == splitter.n_paths == 5
    for path in splitter.paths():
        assert all(blocks[block] <= tests[split] for block, split in enumerate(path))
    used = [(split, block) for path in splitter.paths() for block, split in enumerate(path)]
    assert len(used) == len(set(used)) == 30


@pytest.mark.parametrize("gap", [0, 4])
def test_forward_chaining_learns_only_what_was_known(gap: int) -> None:
    pairs = list(ForwardChaining(4, gap=gap).split(None, time=TIMES, label_end=ENDS))
    plain = list(ForwardChaining(4, gap=gap).split(None, time=TIMES))
    for (train, test), (_, same) in zip(pairs, plain, strict=True):
        assert test.tolist() == same.tolist()
        assert train.tolist() == [row for row in range(300) if ENDS[row] + gap < TIMES[test].min()]
    window = list(ForwardChaining(4, gap=gap, max_train_size=20).split(None, time=TIMES, label_end=ENDS))
    assert [train.size for train, _ in window] == [20] * 4


@pytest.mark.parametrize(
    ("every", "unit"), [("day", "%Y-%m-%d"), ("week", "%G-%V"), ("month", "%Y-%m"), ("year", "%Y")]
)
def test_calendar_stretches_are_the_last_that_have_rows(every: Any, unit: str) -> None:
    random = np.random.default_rng(3)
    moments = [datetime(2021, 1, 1) + timedelta(hours=int(h)) for h in random.integers(0, 24 * 1200, 400)]
    names = [moment.strftime(unit) for moment in moments]
    pairs = list(ForwardChaining(2, every=every).split(None, time=moments))
    for name, (train, test) in zip(sorted(set(names))[-2:], pairs, strict=True):
        assert test.tolist() == [row for row, each in enumerate(names) if each == name]
        assert train.tolist() == [row for row, each in enumerate(names) if each < name]


def test_quarters_begin_in_january_april_july_and_october() -> None:
    months = np.arange(np.datetime64("2023-01"), np.datetime64("2024-07")).astype("datetime64[D]")
    tests = [months[test].astype("datetime64[M]").astype(str).tolist()
             for _, test in ForwardChaining(2, every="quarter").split(None, time=months)]  # fmt: skip
    assert tests == [["2024-01", "2024-02", "2024-03"], ["2024-04", "2024-05", "2024-06"]]


@pytest.mark.parametrize("inner", [ForwardChaining(3), PurgedKFold(4), CombinatorialPurgedKFold(5, 2)], ids=repr)
def test_the_holdout_of_a_strategy_of_time_is_the_latest_stretch(inner: Splitter) -> None:
    holdout = Holdout(inner, 0.15)
    roles: dict[str, Any] = {"time": TIMES, "label_end": ENDS}
    locked = set(holdout.locked(None, None, ENTITIES, **roles).tolist())
    start = min(TIMES[row] for row in locked)
    assert locked == {row for row in range(300) if TIMES[row] >= start}
    assert abs(len(locked) - 45) <= 3
    groups = {ENTITIES[row] for row in locked}
    free = [row for row in range(300) if ENDS[row] < start and ENTITIES[row] not in groups]
    assert holdout.rest(None, None, ENTITIES, **roles).tolist() == free
    for train, test in holdout.split(None, None, ENTITIES, **roles):
        assert {*train.tolist(), *test.tolist()} <= set(free)


@pytest.mark.parametrize(
    ("splitter", "roles", "message"),
    [
        (PurgedKFold(5), {"time": [1, 1, 2, 2, 3, 3]}, "n_splits=5 with 3 different times; choose 2 or 3"),
        (PurgedKFold(1), {"time": range(9)}, "n_splits=1"),
        (PurgedKFold(2, gap=90), {"time": range(9)}, "split 1 has nothing to train on"),
        (PurgedKFold(2, embargo="soon"), {"time": range(9)}, "embargo='soon'"),
        (PurgedKFold(2), {"time": range(9), "label_end": [0] * 9}, "label_end is before time in 8 of 9 rows"),
        (PurgedKFold(2), {"time": range(9), "label_end": [datetime(2024, 1, 1)] * 9}, "are not of one kind"),
        (CombinatorialPurgedKFold(4, 4), {"time": range(9)}, "n_test_blocks=4 with n_blocks=4; choose 1 to 3"),
        (CombinatorialPurgedKFold(40, 20), {"time": range(90)}, "at most 10,000 are made"),
        (ForwardChaining(2, every="month"), {"time": range(9)}, "pass dates or timestamps"),
        (ForwardChaining(2, every="moon"), {"time": range(9)}, "choose day, week, month, quarter or year"),
        (ForwardChaining(2, every="day", test_size=3), {"time": range(9)}, "both say what is tested"),
        (ForwardChaining(3, every="year"), {"time": [datetime(2024, 1, 1)] * 9}, "3 with 1 different years"),
    ],
)
def test_what_cannot_be_purged_is_refused_in_numbers(splitter: Splitter, roles: Any, message: str) -> None:
    with pytest.raises(SplitError, match=message):
        splitter.split(None, **roles)
