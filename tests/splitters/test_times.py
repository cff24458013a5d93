"""Lengths of time: text says its unit, and every unit is what the calendar says."""

import warnings
from datetime import datetime, timedelta, timezone
from typing import Any

import numpy as np
import pytest
from evenfold.splitters import ForwardChaining, PurgedKFold, SplitError
from evenfold.splitters.times import calendar_units, gap_of, times_of

DAYS = np.array(["2024-01-01", "2024-02-01"], dtype="datetime64[us]")


@pytest.mark.parametrize(
    ("text", "length"),
    [
        ("1 second", timedelta(seconds=1)),
        ("90 seconds", timedelta(seconds=90)),
        ("1 minute", timedelta(minutes=1)),
        ("36 hours", timedelta(hours=36)),
        ("1 day", timedelta(days=1)),
        ("1.5 days", timedelta(days=1.5)),
        (" 2 weeks ", timedelta(weeks=2)),
    ],
)
def test_a_gap_in_words_is_that_length_to_the_microsecond(text: str, length: timedelta) -> None:
    wanted = np.timedelta64(length // timedelta(microseconds=1), "us")
    assert gap_of(text, DAYS) == gap_of(length, DAYS) == wanted


def test_no_gap_needs_no_unit() -> None:
    assert gap_of(0, DAYS) == np.timedelta64(0, "us")
    assert gap_of(2.5, np.arange(3)) == 2.5


def test_a_zone_is_converted_and_none_is_left_as_it_is() -> None:
    aware = datetime(2026, 3, 1, 1, tzinfo=timezone(timedelta(hours=2)))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert times_of([aware], "time").tolist() == [datetime(2026, 2, 28, 23)]
        assert times_of([aware.replace(tzinfo=None)], "time").tolist() == [datetime(2026, 3, 1, 1)]


def test_weeks_begin_on_monday() -> None:
    """The first Monday after 1970 began is the 5th of January."""
    days = np.arange("1970-01-03", "1970-01-13", dtype="datetime64[D]").astype("datetime64[us]")
    assert calendar_units(days, "week").tolist() == [0, 0, 1, 1, 1, 1, 1, 1, 1, 2]
    assert calendar_units(days, "day").tolist() == list(range(2, 12))


def test_a_gap_beyond_what_64_bits_hold_is_refused() -> None:
    with pytest.raises(SplitError, match="gap='99999999 weeks' for timestamps"):
        gap_of("99999999 weeks", DAYS)
    with pytest.raises(SplitError, match="gap=9223372036854775808 for times that are numbers"):
        gap_of(2**63, np.arange(3))


NEVER = np.where(np.isin(np.arange(20), [9, 10]), np.iinfo(np.int64).max, np.arange(20))


@pytest.mark.parametrize(
    ("strategy", "gap", "unit"),
    [(ForwardChaining(2), 0, "int64"), (ForwardChaining(2), 5, "datetime64[us]"), (PurgedKFold(3), 1, "int64")],
    ids=repr,
)
def test_a_label_that_is_known_at_the_last_time_there_is_is_never_known_in_time(
    strategy: Any, gap: int, unit: str
) -> None:
    strategy.set_params(gap=gap if unit == "int64" else timedelta(microseconds=gap))
    pairs = list(strategy.split(None, time=np.arange(20).astype(unit), label_end=NEVER.astype(unit)))
    assert pairs[-1][1].min() > 10
    assert not any(np.isin([9, 10], train[train < test.min()]).any() for train, test in pairs)


@pytest.mark.parametrize("embargo", [0, 3])
def test_after_a_tested_row_whose_label_is_never_known_nothing_is_learnt(embargo: int) -> None:
    (_, (train, test), _) = PurgedKFold(3, embargo=embargo).split(None, time=np.arange(20), label_end=NEVER)
    assert train.tolist() == list(range(test.min()))


def test_times_beyond_signed_64_bits_are_refused() -> None:
    with pytest.raises(SplitError, match="time holds 9,223,372,036,854,775,813"):
        list(ForwardChaining(2).split(np.zeros(6), time=np.array([1, 2, 3, 4, 5, 2**63 + 5], dtype=np.uint64)))
