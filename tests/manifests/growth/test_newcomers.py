"""New rows that are odd whatever a model says of them: by how much, and that usual ones are not."""

from collections.abc import Callable

import numpy as np
import pandas as pd
import pytest
from evenfold.manifests import decide
from evenfold.manifests.growth.arrivals import check_arrival

SPEC = {"name": "rows", "columns": {"key": "id", "target": "y", "group": "shop", "time": "day"}}
SPEC |= {"strategy": "BalancedGroupKFold", "params": {"n_splits": 3}}
ODD = ("constant_columns", "repeated_targets", "restated_target", "copied_rows", "jumps_in_time", "swallowing_groups")
OFF = {"new_rows": "off"}
NEW = 600  # the first of the new rows: three months of 200 are known


def rows() -> pd.DataFrame:
    """Return four months of 200 rows: a column that names the month, and one that is zero in more and more of them."""
    rng, n = np.random.default_rng(0), 800
    month = np.arange(n) // 200
    day = pd.Timestamp("2026-01-01") + pd.to_timedelta(month * 30 + np.arange(n) % 30, unit="D")
    snow = np.where(rng.uniform(size=n) < month / 3, 0.0, rng.normal(size=n))
    return pd.DataFrame(
        {"id": range(n), "y": rng.normal(size=n), "shop": rng.integers(0, 40, n), "day": day, "x": rng.normal(size=n),
         "month": month, "snow": snow}
    )  # fmt: skip


def last_again(data: pd.DataFrame, *stamped: str) -> pd.DataFrame:
    """Return the rows with the last known month in place of the new one, but for the columns that are ``stamped``."""
    again = pd.concat([data[:NEW], data[NEW - 200 : NEW].assign(id=lambda old: old["id"] + 5000)], ignore_index=True)
    return again.assign(**{name: data[name].array for name in stamped})


def of_new(data: pd.DataFrame, name: str, values: object, share: float = 1.0) -> pd.DataFrame:
    return data.assign(**{name: data[name].where(data.index < 800 - 200 * share, values)})


DATES = pd.Timestamp("2099-01-01")
# Each with what is told of it, by how much, and whether it stops the table.
CASES: dict[str, tuple[Callable[[pd.DataFrame], pd.DataFrame], str, float, bool]] = {
    "a column emptied": (lambda data: of_new(data, "x", np.nan), "constant_columns", 0.99, True),
    "a column filled": (lambda data: of_new(data, "x", 0.5), "constant_columns", 0.99, True),
    "two fifths missing": (lambda data: of_new(data, "x", np.nan, 0.4), "constant_columns", 0.395, False),
    "the target capped": (lambda data: of_new(data, "y", data["y"].clip(upper=0)), "repeated_targets", 49, True),
    "the target rounded": (lambda data: of_new(data, "y", data["y"].round()), "repeated_targets", 59, True),
    "noise on whole numbers": (lambda data: of_new(data.round({"y": 0}), "y", data["y"]), "repeated_targets", 55, True),
    "a tenth of it zero": (lambda data: of_new(data, "y", 0.0, 0.1), "repeated_targets", 2.9, False),
    "a feature filled from it": (lambda data: of_new(data, "x", 3 - data["y"]), "restated_target", 0.9, True),
    "a feature of every other row filled from it": (
        lambda data: of_new(data, "x", 3 - data["y"]).assign(x=lambda of: of["x"].where(of["id"] % 2 > 0)),
        "restated_target",
        0.9,
        True,
    ),
    "the target by a formula": (lambda data: of_new(data, "y", np.exp(data["x"])), "restated_target", 0.9, True),
    "the last month again": (last_again, "copied_rows", 1.0, True),
    "its rows on other days": (lambda data: last_again(data.iloc[:, :5], "day"), "copied_rows", 1.0, True),
    "stamped anew": (lambda data: last_again(data, "day", "month"), "copied_rows", 1.0, True),
    "a fifth of it": (lambda data: pd.concat([data, last_again(data)[NEW : NEW + 50]]), "copied_rows", 0.2, False),
    "half with another x": (lambda data: of_new(last_again(data), "x", data["x"] + 9, 0.5), "copied_rows", 0.5, False),
    "days far ahead": (lambda data: of_new(data, "day", DATES), "jumps_in_time", 800, True),
    "one day far ahead": (lambda data: of_new(data, "day", DATES, 0.005), "jumps_in_time", 0.9, False),
    "one shop of a month": (lambda data: of_new(data, "shop", 99), "swallowing_groups", 8, True),
}


@pytest.mark.parametrize("case", CASES)
def test_what_is_odd_is_told_and_stops_where_it_is_gross(case: str) -> None:
    change, check, figure, stops = CASES[case]
    found = check_arrival(decide(SPEC, rows()[:NEW]), change(rows()), None, gates=OFF)
    assert found.failed == [check] * stops
    if stops:
        assert found.findings[0].figure == pytest.approx(figure, rel=0.2)
    assert [name for name in ODD if found.passed.get(name)] == [check] * (not stops)


def test_what_an_earlier_month_was_like_is_no_news() -> None:
    """Its target was rounded, and a column stood in the order of it."""
    months = rows().assign(x=lambda data: data["x"].where(data["month"] % 2 == 0, data["y"]))
    found = check_arrival(decide(SPEC, months[:NEW]), months, None, gates=OFF)
    assert (found.failed, found.passed["restated_target"]) == ([], "")
    months["y"] = months["y"].where(months["month"] % 2 == 0, months["y"].round())
    for data, told in ((months, ""), (of_new(months, "y", 0.0), "capped, rounded or filled.")):
        made = check_arrival(decide(SPEC, data[:NEW]), data, None, gates={"repeated_targets": 1e9})
        assert made.passed["repeated_targets"].rpartition(": ")[2] == told


def test_times_that_nobody_named_are_asked_too() -> None:
    spec = SPEC | {"columns": {"key": "id", "target": "y", "group": "shop"}}
    found = check_arrival(decide(spec, rows()[:NEW]), of_new(rows(), "day", DATES), None, gates=OFF)
    assert found.failed == ["jumps_in_time"]
    once = rows().assign(day=DATES)
    assert "jumps_in_time" in check_arrival(decide(spec, once[:NEW]), once, None).not_asked


def test_a_measure_that_is_one_value_is_told_beside_a_single_earlier_part() -> None:
    spec = SPEC | {"columns": {"key": "id", "target": "y", "group": "shop"}}
    data = of_new(rows(), "x", 0.0).assign(rain=lambda data: data["id"] * (data["id"] % 15 > 0) * (data["id"] < NEW))
    found = check_arrival(decide(spec, data[:NEW]), data, None, gates=OFF | {"copied_rows": "off"})
    assert found.failed == ["constant_columns"]
    assert found.findings[0].figures["columns"] == ["x"], "neither month nor snow, nor what was one value in 1 of 15"


def test_the_right_month_is_not_odd() -> None:
    for change in (lambda data: data, lambda data: data.assign(y=data["id"] % 2, x=data["id"] % 3, snow=0)):
        data = change(rows())
        found = check_arrival(decide(SPEC, data[:NEW]), data, None, gates=OFF)
        assert (found.failed, [name for name in ODD if found.passed.get(name)]) == ([], [])
    found = check_arrival(decide(SPEC, data[:NEW]), data[: NEW + 19], None, gates=OFF)
    assert {*ODD} <= found.not_asked.keys(), "19 new rows are too few"
