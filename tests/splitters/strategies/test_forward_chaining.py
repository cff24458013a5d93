"""Time: the past trains, the future tests, and equal times are never parted."""

from datetime import UTC, date, datetime, timedelta
from itertools import pairwise
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
from evenfold.splitters import ForwardChaining, LeaveLastOut, SplitError, TimeSplit
from hypothesis import assume, given, settings, strategies as st


def split(splitter: ForwardChaining, time: Any, groups: Any = None) -> list[tuple[Any, Any]]:
    return list(splitter.split(None, None, groups, time=time))


def test_without_ties_the_stretches_are_those_of_textbooks() -> None:
    """12 rows in 3 splits: 3 to train on, then stretches of 3."""
    pairs = split(ForwardChaining(3), np.arange(12)[::-1])
    assert [(train.tolist(), test.tolist()) for train, test in pairs] == [
        ([9, 10, 11], [6, 7, 8]),
        ([6, 7, 8, 9, 10, 11], [3, 4, 5]),
        ([3, 4, 5, 6, 7, 8, 9, 10, 11], [0, 1, 2]),
    ]


def test_a_window_slides_when_its_size_is_given() -> None:
    pairs = split(ForwardChaining(2, max_train_size=3, test_size=2), np.arange(10))
    assert [(train.tolist(), test.tolist()) for train, test in pairs] == [([3, 4, 5], [6, 7]), ([5, 6, 7], [8, 9])]


@settings(max_examples=60)
@given(
    times=st.lists(st.integers(0, 30), min_size=4, max_size=80),
    k=st.integers(1, 6),
    gap=st.integers(0, 5),
    limit=st.none() | st.integers(1, 20),
)
def test_every_train_time_and_gap_lies_before_every_test_time(
    times: list[int], k: int, gap: int, limit: int | None
) -> None:
    time = np.array(times)
    assume(np.unique(time).size > k)
    stretches = split(ForwardChaining(k, max_train_size=limit), time)
    assume((time + gap < time[stretches[0][1]].min()).any())
    pairs = split(ForwardChaining(k, gap=gap, max_train_size=limit), time)
    tests = [time[test] for _, test in pairs]
    assert len(pairs) == k
    assert all((time[train] + gap).max() < time[test].min() for train, test in pairs)
    assert all(train.size <= (limit or train.size) for train, _ in pairs)
    assert all(before.max() < after.min() for before, after in pairwise(tests))
    assert tests[-1].max() == time.max()
    assert sum(test.size for test in tests) == np.sum(time >= tests[0].min())


def test_a_group_in_the_future_is_dropped_from_the_past() -> None:
    """Group 1 straddles the boundary: its past is in neither side."""
    time, groups = np.arange(8), np.array([0, 1, 0, 2, 2, 0, 1, 3])
    ((train, test),) = split(ForwardChaining(1, test_size=2), time, groups)
    assert (train.tolist(), test.tolist()) == ([0, 2, 3, 4, 5], [6, 7])


DAYS = [datetime(2024, 1, 1) + timedelta(days=i) for i in range(20)]


@pytest.mark.parametrize(
    "container",
    [DAYS, [day.replace(tzinfo=UTC) for day in DAYS], pd.Series(DAYS).dt.tz_localize("Europe/Prague"), pl.Series(DAYS)],
    ids=lambda container: type(container).__name__,
)
def test_timestamps_come_from_any_container(container: Any) -> None:
    pairs = split(ForwardChaining(3, gap="2 days"), container)
    assert [test.tolist() for _, test in pairs] == [[5, 6, 7, 8, 9], [10, 11, 12, 13, 14], [15, 16, 17, 18, 19]]
    assert [train.size for train, _ in pairs] == [3, 8, 13]


def test_a_panel_is_told_what_helps_it() -> None:
    with pytest.raises(SplitError, match=r"split 0 has nothing to train on: .* name the time alone where groups"):
        ForwardChaining(2).split(None, time=np.repeat(range(10), 3), groups=list(range(3)) * 10)


@pytest.mark.parametrize(
    ("splitter", "time", "message"),
    [
        (ForwardChaining(3), [1, 1, 2, 2], "n_splits=3 with 2 different times; choose 1."),
        (ForwardChaining(1), [1, 1, 1, 1], "n_splits=1 with 1 different times; pass more"),
        (ForwardChaining(2, test_size=2), range(4), "test_size=2 with 2 stretches of 4 rows; choose 1."),
        (ForwardChaining(2, gap=7), DAYS, "gap=7 for timestamps; choose text such as '7 days'"),
        (ForwardChaining(2, gap="soon"), DAYS, "gap='soon'"),
        (ForwardChaining(2, gap="2 days"), range(20), "gap='2 days' for times that are numbers"),
        (ForwardChaining(2, gap=-1), range(20), "gap=-1"),
        (ForwardChaining(2, gap=8), range(20), "split 0 has nothing to train on"),
        (ForwardChaining(2), ["2024-01-01"] * 20, "time holds text"),
        (ForwardChaining(2), [True, False] * 10, "time holds text or truth values"),
        (ForwardChaining(2), [*DAYS[:10], *[day.replace(tzinfo=UTC) for day in DAYS[10:]]], "with and without"),
        (ForwardChaining(2), [*range(19), np.inf], "time is infinite in 1 rows"),
        (ForwardChaining(2), [date(2024, 1, 1), None] * 10, "time is missing"),
        (ForwardChaining(0), range(20), "n_splits=0"),
        (ForwardChaining(2, max_train_size=0), range(20), "max_train_size=0"),
    ],
)
def test_times_that_cannot_be_chained_are_refused(splitter: ForwardChaining, time: Any, message: str) -> None:
    with pytest.raises(SplitError, match=message):
        splitter.split(None, time=time)


def test_parts_follow_one_another_in_time_whatever_their_order_and_no_time_is_parted() -> None:
    time = np.array([9, 0, 1, 2, 2, 2, 3, 4, 5, 5])
    for parts in ({"test": 0.2, "train": 0.6, "validation": 0.2}, {"train": 6, "validation": 2, "test": 2}):
        splitter = TimeSplit(parts)
        labels, codes = splitter.assign(time, time=time), splitter.part_codes()
        assert {name: sorted(time[labels == code]) for name, code in codes.items()} == {
            "train": [0, 1, 2, 2, 2, 3],
            "validation": [4, 5, 5],
            "test": [9],
        }
    assert splitter.trainable(splitter.rows(time=time), np.array([1, 2, 6]), np.array([0, 6])).tolist() == [1, 2]
    with pytest.raises(SplitError, match=r"parts=3 with 2 different times; choose 2"):
        TimeSplit(parts).split(time % 2, time=time % 2)


def test_the_last_time_of_each_group_is_tested_and_its_only_time_is_not() -> None:
    groups = np.array(["a", "b", "a", "c", "a", "b", "a"])
    time = np.array([1, 2, 5, 3, 3, 9, 5])
    pairs = list(LeaveLastOut(2).split(time, None, groups, time=time))
    assert [(train.tolist(), test.tolist()) for train, test in pairs] == [([0, 1, 3], [4]), ([0, 1, 3, 4], [2, 5, 6])]
    with pytest.raises(SplitError, match=r"n_splits=3 with at most 3 times of a group; choose 1 or 2"):
        LeaveLastOut(3).split(time, None, groups, time=time)


def test_months_are_those_of_a_zone_through_summer_time_and_its_end() -> None:
    """22:30 UTC is the next day in Berlin in summer, and 23:30 of the same day in winter."""
    time = pd.to_datetime(["2024-03-31 21:00", "2024-03-31 22:30", "2024-10-31 22:30", "2024-10-31 23:30"])
    every = {"unit": "month", "zone": "Europe/Berlin"}
    ((train, test),) = split(ForwardChaining(1, every=every), time)
    assert (train.tolist(), test.tolist()) == ([0, 1, 2], [3])
    assert [rows.tolist() for _, rows in split(ForwardChaining(3, every=every), time)] == [[1], [2], [3]]
    assert not ForwardChaining(every=every).portable
    for wrong, message in (({**every, "zone": "Europe/Berlim"}, "no time zone"), ({"unit": "month"}, "choose day")):
        with pytest.raises(SplitError, match=message):
            split(ForwardChaining(1, every=wrong), time)
