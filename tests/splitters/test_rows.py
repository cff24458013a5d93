"""Rows.of gives checked rows or one sentence, whatever it is given."""

import datetime as dt
from decimal import Decimal
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from evenfold.splitters import BalancedGroupKFold, KFold, Needs, Rows, SplitError, StratifiedKFold
from evenfold.splitters.errors import amount, listed, meant, verb
from evenfold.splitters.numbers import array_of
from hypothesis import HealthCheck, given, settings, strategies as st
from hypothesis.extra import numpy as hnp

EVERY_NEED = [
    Needs(y=y, groups=groups, key=key, time=time)
    for y in ("ignored", "classes", "numbers", "any")
    for groups, key, time in ((False, False, False), (True, False, False), ("optional", True, True))
]
TEXT = "text or objects, and this strategy needs numbers; use StratifiedKFold, or StratifiedSplit for parts."
UNEQUAL = "holds values that cannot be compared"
CLASSES = Needs(y="classes")
NUMBERS = Needs(y="numbers")

SCALARS: Any = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.complex_numbers()
    | st.text(max_size=3)
    | st.binary(max_size=3)
    | st.decimals(allow_nan=False)
    | st.dates()
    | st.datetimes()
    | st.timedeltas()
    | st.tuples(st.integers())
    | st.sampled_from([pd.NA, pd.NaT, np.float32(2.5), np.datetime64("NaT"), np.str_("a"), object(), [1], {}])
)
DTYPES: Any = hnp.scalar_dtypes() | st.sampled_from([np.dtype(object), np.dtype([("a", "i4")])])
CONTAINERS = st.sampled_from(
    [list, tuple, np.array, pd.Series, pd.Categorical, pd.array, pa.array, set, iter, "".join, pd.DataFrame]
)


@st.composite
def columns(draw: Any, n: int) -> Any:
    """Draw something that somebody might pass for a column, most of the time of ``n`` values."""
    n = draw(st.just(n) | st.just(n) | st.just(n) | st.integers(0, 3))
    if draw(st.booleans()):
        shape = draw(st.sampled_from([(n,), (n,), (n, 1), (n, 2), (), (n, 2, 2)]))
        return draw(st.none() | SCALARS | hnp.arrays(draw(DTYPES), shape))
    one_kind = draw(st.sampled_from([SCALARS, st.integers(-3, 3), st.sampled_from(["a", "b"]), st.floats()]))
    values = draw(st.lists(one_kind, min_size=n, max_size=n))
    try:
        return draw(CONTAINERS)(values)
    except Exception:  # not every container takes every value; a list does
        return values


@settings(max_examples=30, suppress_health_check=list(HealthCheck))
@given(data=st.data(), n=st.integers(2, 5), needs=st.sampled_from(EVERY_NEED))
def test_anything_gives_rows_or_a_split_error(data: st.DataObject, n: int, needs: Needs) -> None:
    """And rows are what they say: codes from 0 without a gap, in order of appearance; finite numbers."""
    plain = st.just([i % 2 for i in range(n)])
    X, y, groups, key, time = (data.draw(plain | plain | columns(n)) for _ in range(5))
    try:
        rows = Rows.of(X, y, groups if needs.groups else None, needs=needs, key=key, time=time)
    except SplitError:
        return
    assert rows.n >= 2
    for codes, n_codes in ((rows.y, len(rows.levels)), (rows.groups, rows.n_groups)):
        if codes is not None and codes.ndim == 1 and codes.dtype == np.int64:
            assert codes.shape == (rows.n,)
            first = [int(np.argmax(codes == code)) for code in range(n_codes)]
            assert first == sorted(first)
            assert codes.max() == n_codes - 1
    if rows.y is not None and rows.y.dtype == np.float64:
        assert np.isfinite(rows.y).all()
    assert (rows.key is None) == (not needs.key)
    assert (rows.time is None) == (not needs.time)


@pytest.mark.parametrize(
    "values",
    [
        ["b", "a", "b", "c"],
        np.array(["b", "a", "b", "c"], dtype=object),
        np.array(["b", "a", "b", "c"], dtype=np.dtypes.StringDType()),
        pd.Series(["b", "a", "b", "c"], index=[3, 2, 1, 0]),
        pl.Series(["b", "a", "b", "c"]),
        pa.array(["b", "a", "b", "c"]),
        [[2], [1], [2], [3]],
        [Decimal("2.50"), Decimal(1), Decimal("2.5"), Decimal(7)],
        np.array([127, -128, 127, 5], dtype=np.int8),
        np.array([2**64 - 1, 2**64 - 2, 2**64 - 1, 2**64 - 3], dtype=np.uint64),
        [dt.date(2024, 1, 2), dt.date(2024, 1, 1), dt.date(2024, 1, 2), dt.date(2024, 1, 5)],
        [1, "1", 1, "one"],
        [2**53 + 1, 2**53, 2**53 + 1, -1],
    ],
    ids=lambda values: f"{type(values).__name__} of {getattr(values, 'dtype', type(values[0]).__name__)}",
)
def test_codes_follow_first_appearance(values: Any) -> None:
    rows = Rows.of(groups=values, needs=Needs(groups=True))
    assert rows.groups.tolist() == [0, 1, 0, 2]
    assert rows.groups.dtype == np.int64
    assert rows.n_groups == 3


@pytest.mark.parametrize(
    "holed",
    [
        ["a", None, "b", "a"],
        [1, None, 2, 1],
        [pd.Timestamp("2024"), pd.NaT, pd.Timestamp("2024"), pd.Timestamp("2024")],
        ["a", pd.NA, "b", "a"],
        np.array(["2024", "NaT", "2024", "2024"], dtype="datetime64[D]"),
        np.array([1, "NaT", 1, 1], dtype="timedelta64[D]"),
        np.array([1, complex("nan"), 2, 1]),
        np.array(["a", np.nan, "b", "a"], dtype=np.dtypes.StringDType(na_object=np.nan)),
        pd.Series([1, None, 2, 1], dtype="Int64"),
        pd.Series(["a", None, "b", "a"], dtype="category"),
        pd.Series([1, None, 2, 1], dtype="int64[pyarrow]"),
        pd.Series(pd.to_datetime(["2024", None, "2024", "2024"])).dt.tz_localize("UTC"),
        pl.Series(["a", None, "b", "a"]),
        pa.array(["a", None, "b", "a"]),
    ],
    ids=lambda values: f"{type(values).__name__} of {getattr(values, 'dtype', type(values[0]).__name__)}",
)
def test_a_missing_value_of_any_kind_is_counted_in_every_role(holed: Any) -> None:
    for role in ("y", "groups", "key", "time"):
        with pytest.raises(
            SplitError, match=rf"^{role} is missing \(None or NaN\) in 1 of 4 rows \(first at row 1\); "
        ):
            Rows.of(needs=CLASSES if role == "y" else Needs(**{role: True}), **{role: holed})


@pytest.mark.parametrize(
    ("given", "needs", "said"),
    [
        ({}, Needs(), "there are no rows: X, y and groups are all None; pass one of them."),
        ({"X": [1]}, Needs(), "there is 1 row; at least 2 are needed."),
        ({"X": np.array(5)}, Needs(), "X is of type ndarray and has no length; pass one value per row."),
        ({"X": iter([1, 2])}, Needs(), "X is of type list_iterator and has no length; pass one value per row."),
        ({"X": [1, 2], "y": [1]}, CLASSES, "y has 1 value for the 2 rows of X; pass one value per row."),
        ({"y": [1, 2], "groups": [1, 2, 3]}, Needs(y="any", groups=True), "groups has 3 values for the 2 rows of y; "),
        ({"y": "ab"}, CLASSES, "y is of type str; pass one value per row."),
        ({"y": [[1, 2], [3, 4]]}, CLASSES, "y has 2 dimensions; pass one value per row."),
        ({"y": [[1], [2, 3]]}, CLASSES, f"y {UNEQUAL} (unhashable type: 'list'); pass numbers or text."),
        ({"X": [1, 2]}, CLASSES, "this strategy needs y, and none was given; pass one value per row."),
        ({"y": ["a", "b"]}, NUMBERS, f"y holds {TEXT}"),
        ({"y": [1.0, np.inf]}, NUMBERS, "y is infinite in 1 of 2 rows; drop those rows first."),
        ({"coordinates": [[0, np.inf], [1, 1]]}, Needs(coordinates=True), "a coordinate is infinite in 1 of 2"),
        ({"y": [10**400, 1]}, NUMBERS, "y holds a whole number too large for a float; drop or correct that row first."),
        (
            {"y": [0.5, 1]},
            CLASSES,
            "y holds 2 different fractional numbers, and this strategy needs classes; use Sorted",
        ),
    ],
)
def test_what_is_wrong_is_said_in_numbers(given: dict[str, Any], needs: Needs, said: str) -> None:
    with pytest.raises(SplitError) as error:
        Rows.of(**given, needs=needs)
    assert str(error.value).startswith(said)


def test_numbers_names_and_lists_are_told_in_words() -> None:
    assert [(amount(n, "row"), verb(n, "is", "are")) for n in (0, 1)] == [("0 rows", "are"), ("1 row", "is")]
    assert [listed("abcdef"[:n]) for n in (2, 5, 6)] == ["a and b", "a, b, c, d and e", "a, b, c, d, e and 1 more"]
    assert meant("KFold", ["KFolda", "KFoldb", "KFoldc"]).count(" or ") == 1


def crossing(n: int, shared: int) -> np.ndarray[Any, Any]:
    """Return patients and devices of n rows: three devices of three patients, one of whom is at ``shared`` of them."""
    rows = np.array([[f"p{i}", f"d{i if i < n - 9 else f'{(i - n) // 3}'}"] for i in range(n)])
    rows[-1 : -1 - 3 * shared : -3, 0] = "all"
    return rows


def test_entities_that_join_more_than_half_of_the_rows_are_refused_with_the_level_that_joins_most() -> None:
    needs = BalancedGroupKFold.needs
    with pytest.raises(SplitError) as error:
        BalancedGroupKFold(2).split(groups=crossing(17, 3))
    assert "join 9 of 17 rows (53%) into one group; 'all' of column 0 of groups, which meets 3" in str(error.value)
    BalancedGroupKFold(2).check(Rows.of(groups=crossing(18, 3), needs=needs))
    large = crossing(18, 1)
    large[:12, 1] = "one"
    BalancedGroupKFold(2).check(Rows.of(groups=large, needs=needs))
    numbered_anew = np.array([[f"h{i % 4}", f"{i // 4 % 5}"] for i in range(40)])
    with pytest.raises(SplitError, match=r"join 40 of 40 rows \(100%\) .*Where values are numbered anew"):
        BalancedGroupKFold(2).split(groups=numbered_anew)


def test_rows_are_joined_by_each_of_three_columns() -> None:
    """And by nothing but equal values of one column: 1 and 1 in two columns are two levels."""
    table = np.array([[1, 5, 9], [1, 6, 8], [2, 6, 7], [3, 1, 6], [4, 2, 6], [5, 9, 1]])
    rows = Rows.of(groups=table, needs=Needs(groups=True))
    assert rows.groups.tolist() == [0, 0, 0, 1, 1, 2]


def test_one_column_of_groups_may_stand_in_a_table() -> None:
    groups = np.array([["a"], ["b"], ["a"]])
    rows = Rows.of(groups=groups, needs=Needs(groups=True))
    assert (rows.groups.tolist(), rows.entities) == ([0, 1, 0], None)


def test_whole_numbers_that_no_float_holds_stay_themselves() -> None:
    assert array_of([2**53 + 1, 0.5], "y").tolist() == [2**53 + 1, 0.5]
    assert array_of([2.0**52, 0.5], "y").dtype == np.float64


def test_text_and_numbers_stay_apart() -> None:
    """A list of both would become text in an array, and 1 would meet '1'."""
    rows = Rows.of(y=[1, "1", 2, "nan"], needs=CLASSES)
    assert rows.levels == (1, "1", 2, "nan")


def test_numbers_come_as_they_are() -> None:
    """Float64, minus zero as zero, from any container of numbers."""
    for values in (
        [1, -0.0, 2.5],
        np.array([1, -0.0, 2.5], np.float32),
        pl.Series([1.0, -0.0, 2.5]),
        [Decimal(1), 0, 2.5],
    ):
        rows = Rows.of(y=values, needs=NUMBERS)
        assert rows.y.tolist() == [1.0, 0.0, 2.5]
        assert not np.signbit(rows.y).any()


def test_what_is_not_needed_is_not_seen() -> None:
    rows = Rows.of([1, 2], [None, None], needs=Needs(), key=[None, None], time=[[1], {}])
    assert (rows.n, rows.y, rows.key, rows.time) == (2, None, None, None)


def test_groups_given_to_a_strategy_that_ignores_them_are_an_error() -> None:
    for splitter in (KFold(2), StratifiedKFold(2)):
        with pytest.raises(SplitError, match=f"{type(splitter).__name__} does not keep groups whole, and groups were"):
            splitter.split([0] * 4, list("abab"), [1, 1, 2, 2])
    assert len(list(BalancedGroupKFold(2).split([0] * 4, list("abab"), [1, 1, 2, 2]))) == 2
