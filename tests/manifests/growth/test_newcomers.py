"""What is odd of new rows whatever a model says of them, and the rows and tables that they are compared with."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from evenfold.manifests import Snapshot, decide, extend
from evenfold.manifests.growth.arrivals import check_arrival
from evenfold.manifests.growth.newcomers import types_of
from evenfold.manifests.tables.read import source_of

SHOPS = {"name": "rows", "columns": {"key": "id", "target": "y", "group": "shop", "time": "day"}}
SHOPS |= {"strategy": "BalancedGroupKFold", "params": {"n_splits": 3}}
UNTIMED = SHOPS | {"columns": {"key": "id", "target": "y", "group": "shop"}}
ODD = ("constant_columns", "repeated_targets", "restated_target", "copied_rows", "jumps_in_time", "swallowing_groups")
OFF = {"new_rows": "off"}
NEW = 600  # the first of the new rows: three months of 200 are known
FLAGS = np.array(["no", "yes"])


def four_months() -> pd.DataFrame:
    """Return four months of 200 rows: a column that names the month, and one that is zero in more and more of them."""
    rng, n = np.random.default_rng(0), 800
    month = np.arange(n) // 200
    day = pd.Timestamp("2026-01-01") + pd.to_timedelta(month * 30 + np.arange(n) % 30, unit="D")
    snow = np.where(rng.uniform(size=n) < month / 3, 0.0, rng.normal(size=n))
    return pd.DataFrame(
        {"id": range(n), "y": rng.normal(size=n), "shop": rng.integers(0, 40, n), "day": day, "x": rng.normal(size=n),
         "month": month, "snow": snow, "flag": FLAGS[np.arange(n) % 2]}
    )  # fmt: skip


def last_again(data: pd.DataFrame, *stamped: str) -> pd.DataFrame:
    """Return the rows with the last known month in place of the new one, but for the columns that are ``stamped``."""
    again = pd.concat([data[:NEW], data[NEW - 200 : NEW].assign(id=lambda old: old["id"] + 5000)], ignore_index=True)
    return again.assign(**{name: data[name].array for name in stamped})


def of_new(data: pd.DataFrame, name: str, values: object, share: float = 1.0) -> pd.DataFrame:
    return data.assign(**{name: data[name].where(data.index < 800 - 200 * share, values)})


def every_other_row(data: pd.DataFrame) -> pd.DataFrame:
    return of_new(data, "x", 3 - data["y"]).assign(x=lambda of: of["x"].where(of["id"] % 2 > 0))


DATES, HALF_A_YEAR_LATER = pd.Timestamp("2099-01-01"), pd.Timestamp("2026-09-27")
# Each with what is told of it, by how much, and whether it stops the table.
CASES: dict[str, tuple[Callable[[pd.DataFrame], pd.DataFrame], str, float, bool]] = {
    "a column emptied": (lambda data: of_new(data, "x", np.nan), "constant_columns", 0.99, True),
    "a column filled": (lambda data: of_new(data, "x", 0.5), "constant_columns", 0.99, True),
    "two fifths missing": (lambda data: of_new(data, "x", np.nan, 0.4), "constant_columns", 0.395, False),
    "the target capped": (lambda data: of_new(data, "y", data["y"].clip(upper=0)), "repeated_targets", 49, True),
    "the target rounded": (lambda data: of_new(data, "y", data["y"].round()), "repeated_targets", 59, True),
    "noise on whole numbers": (lambda data: of_new(data.round({"y": 0}), "y", data["y"]), "repeated_targets", 55, True),
    "a tenth of it zero": (lambda data: of_new(data, "y", 0.0, 0.1), "repeated_targets", 2.9, False),
    "a flag filled from it": (lambda of: of_new(of, "flag", FLAGS[1 * (of["y"] > 0)]), "restated_target", 0.9, True),
    "a feature of every other row filled from it": (every_other_row, "restated_target", 0.9, True),
    "the target by a formula": (lambda data: of_new(data, "y", np.exp(data["x"])), "restated_target", 0.9, True),
    "the last month again": (last_again, "copied_rows", 1.0, True),
    "its rows on other days": (lambda data: last_again(data.iloc[:, :5], "day"), "copied_rows", 1.0, True),
    "stamped anew": (lambda data: last_again(data, "day", "month"), "copied_rows", 1.0, True),
    "a fifth of it": (lambda data: pd.concat([data, last_again(data)[NEW : NEW + 50]]), "copied_rows", 0.2, False),
    "half with another x": (lambda data: of_new(last_again(data), "x", data["x"] + 9, 0.5), "copied_rows", 0.5, False),
    "days far ahead": (lambda data: of_new(data, "day", DATES), "jumps_in_time", 800, True),
    "one day ahead": (lambda data: of_new(data, "day", HALF_A_YEAR_LATER, 0.005), "jumps_in_time", 0.9, False),
    "one shop of a month": (lambda data: of_new(data, "shop", 99), "swallowing_groups", 8, True),
    "a big shop": (lambda of: of_new(of.assign(shop=of.id.clip(149) % 51), "shop", 47), "swallowing_groups", 2, False),
}


@pytest.mark.parametrize("case", CASES)
def test_what_is_odd_is_told_and_stops_where_it_is_gross(case: str) -> None:
    change, check, figure, stops = CASES[case]
    found = check_arrival(decide(SHOPS, four_months()[:NEW]), change(four_months()), None, gates=OFF)
    assert found.failed == [check] * stops
    if stops:
        assert found.findings[0].figure == pytest.approx(figure, rel=0.2)
    assert [name for name in ODD if found.passed.get(name)] == [check] * (not stops)


def test_what_an_earlier_month_was_like_is_no_news() -> None:
    """Its target was rounded, and a column stood in the order of it."""
    months = four_months().assign(x=lambda data: data["x"].where(data["month"] % 2 == 0, data["y"]))
    found = check_arrival(decide(SHOPS, months[:NEW]), months, None, gates=OFF)
    assert (found.failed, found.passed["restated_target"]) == ([], "")
    months["y"] = months["y"].where(months["month"] % 2 == 0, months["y"].round())
    for data, told in ((months, ""), (of_new(months, "y", 0.0), "capped, rounded or filled.")):
        made = check_arrival(decide(SHOPS, data[:NEW]), data, None, gates={"repeated_targets": 1e9})
        assert made.passed["repeated_targets"].rpartition(": ")[2] == told


def test_times_that_nobody_named_are_asked_too() -> None:
    found = check_arrival(decide(UNTIMED, four_months()[:NEW]), of_new(four_months(), "day", DATES), None, gates=OFF)
    assert found.failed == ["jumps_in_time"]
    known = four_months()[:200]  # three times as many new rows explain no more than as many do
    far = pd.concat([known, four_months()[200:].assign(day=lambda new: new["day"] + pd.Timedelta("120D"))])
    assert (
        "to 7.24 times further" in check_arrival(decide(UNTIMED, known), far, None, gates=OFF).passed["jumps_in_time"]
    )
    once = four_months().assign(day=DATES)
    assert "jumps_in_time" in check_arrival(decide(UNTIMED, once[:NEW]), once, None).not_asked


def test_a_measure_that_is_one_value_is_told_beside_a_single_earlier_part() -> None:
    data = of_new(four_months(), "x", 0.0).assign(
        rain=lambda data: data["id"] * (data["id"] % 15 > 0) * (data["id"] < NEW)
    )
    found = check_arrival(decide(UNTIMED, data[:NEW]), data, None, gates=OFF | {"copied_rows": "off"})
    assert found.failed == ["constant_columns"]
    assert found.findings[0].figures["columns"] == ["x"], "neither month nor snow, nor what was one value in 1 of 15"


def test_the_right_month_is_not_odd() -> None:
    for change in (lambda data: data, lambda data: data.assign(y=data["id"] % 2, x=data["id"] % 3, snow=0)):
        data = change(four_months())
        found = check_arrival(decide(SHOPS, data[:NEW]), data, None, gates=OFF)
        assert (found.failed, [name for name in ODD if found.passed.get(name)]) == ([], [])
    found = check_arrival(decide(SHOPS, data[:NEW]), data[: NEW + 19], None, gates=OFF)
    assert {*ODD} <= found.not_asked.keys(), "19 new rows are too few"


SPEC = {"name": "rows", "columns": {"key": "id", "target": "y"}, "strategy": "KFold"}


def rows(n: int) -> pd.DataFrame:
    return pd.DataFrame({"id": range(n), "y": np.random.default_rng(0).normal(size=n)})


def grown(*ends: int) -> Any:
    """Return the manifest of rows up to the first end, to which those up to the others joined one by one."""
    manifest = decide(SPEC, rows(ends[0]))
    for end in ends[1:]:
        manifest = extend(manifest, rows(end)).manifest
    return manifest


def finding(check: str, manifest: Any, data: pd.DataFrame, before: Snapshot | None, **gates: Any) -> Any:
    found = check_arrival(manifest, data, before, gates=gates)
    return next(each for each in found.findings if each.check == check)


def test_rows_that_were_deleted_before_have_not_vanished_again() -> None:
    left = rows(100).tail(95)
    manifest = extend(grown(100), left).manifest
    told = finding("vanished_rows", manifest, left.tail(94), Snapshot.of(manifest, left), vanished_rows=0).figures
    assert told == {"rows": 1, "known": 95}


def test_rows_that_nothing_was_learnt_from_are_not_missed() -> None:
    first = grown(100)
    manifest = grown(100, 150)
    learnt = Snapshot.of(first, rows(100)).grown(manifest, 0)
    assert not check_arrival(manifest, rows(100), learnt, gates={"vanished_rows": 0}).failed
    told = finding("vanished_rows", manifest, rows(99), learnt, vanished_rows=0).figures
    assert told == {"rows": 1, "known": 100}


def test_what_joins_is_compared_with_the_median_of_what_joined_and_not_with_the_first_table() -> None:
    manifest = grown(100, 101, 111, 141, 190)
    told = check_arrival(manifest, rows(210), Snapshot.of(manifest, rows(190))).passed["new_rows"]
    assert told == "20 new rows, as many as usual (20, the median of 4)."
    manifest = grown(100, 110, 130)
    told = check_arrival(manifest, rows(150), Snapshot.of(manifest, rows(130))).not_asked["new_rows"]
    assert told == "2 generations joined so far, and 3 are needed"


@pytest.mark.parametrize(("classes", "distance"), [(1, 2 / 3), (2, 1 / 3)], ids=["one is left", "one is gone"])
def test_what_chance_explains_is_told_by_the_number_of_classes_and_of_rows(classes: int, distance: float) -> None:
    """The two-sample bound of Dvoretzky, Kiefer and Wolfowitz; three classes share one false alarm in 1,000 tables."""
    data = rows(500).assign(y=lambda frame: (frame["id"] % np.where(frame["id"] < 300, 3, classes)).astype(str))
    known = data.head(300)
    manifest = decide({**SPEC, "strategy": "StratifiedKFold"}, known)
    told = finding("target_distribution", manifest, data, Snapshot.of(manifest, known), target_distribution=0).figures
    bound = np.log(2 * 3 / 0.001) / 2
    assert told == {"distance": pytest.approx(distance), "chance": pytest.approx((bound / 200 + bound / 300) ** 0.5)}


def test_a_month_is_compared_by_its_days_from_the_first_in_the_table_with_months_that_nothing_joined() -> None:
    """January begins on the 20th, with 20 rows a day; February has 10, March 30, and April, which is new, 40."""
    asked = (("2026-01-20", 12, 20), ("2026-02-01", 28, 10), ("2026-03-01", 31, 30), ("2026-04-01", 30, 40))
    days = [np.repeat(np.arange(first, np.datetime64(first) + n), a_day) for first, n, a_day in asked]
    data = rows(sum(map(len, days))).assign(day=np.concatenate(days).astype("datetime64[ns]"))
    known = data.head(len(data) - 1200)
    manifest = decide({**SPEC, "columns": {"key": "id", "target": "y", "time": "day"}}, known)
    told = check_arrival(manifest, data, Snapshot.of(manifest, known)).passed["new_rows"]
    assert told == ("2026-04 has 40 rows a day, 2 times more than usual (20, the median of 3 months without new rows).")
    two_days = rows(len(data) + 2).tail(2).assign(day=pd.to_datetime(["2026-05-01", "2026-05-02"]))
    few = finding("new_rows", manifest, pd.concat([data, two_days]), Snapshot.of(manifest, known), new_rows=0)
    assert few.message.startswith("2026-05 has 1 rows a day, 20 times fewer than usual"), "two days are no day begun"


def test_where_the_last_generations_are_fewer_than_what_is_new_all_rows_are_held_against_it() -> None:
    manifest = grown(300, 305, 310, 315, 320)
    data = rows(420).assign(y=lambda frame: frame["y"] + 9 * (frame["id"] >= 320))
    told = finding("target_distribution", manifest, data, Snapshot.of(manifest, rows(320)), new_rows="off").message
    assert "y of 100 new rows is 1 apart from that of the last 320 (" in told


def test_the_last_generations_are_the_last_that_were_learnt_from() -> None:
    learnt = grown(100, 200, 300, 400)
    manifest = grown(100, 200, 300, 400, 410, 420)
    data = rows(450).assign(y=lambda frame: frame["y"] + 9 * (frame["id"] >= 420))
    snapshot = Snapshot.of(learnt, rows(400)).grown(manifest, 3)
    told = finding("target_distribution", manifest, data, snapshot, new_rows="off").message
    assert "y of 30 new rows is 1 apart from that of the last 300 (" in told


def test_a_column_that_is_emptied_is_told_though_some_rows_are_gone() -> None:
    manifest, before = grown(100), rows(100).assign(**dict.fromkeys("abcdefghij", "a"))
    emptied = before.tail(98).assign(**dict.fromkeys("abcdefghij"))
    told = finding("lost_columns", manifest, emptied, Snapshot.of(manifest, before)).message
    assert told.count(" has no value in any row") == 10


def test_rows_out_of_use_are_not_among_those_that_new_ones_are_compared_with() -> None:
    """Two groups turned out to be one: their 8 rows are in no split."""
    whole = rows(600).assign(g=lambda frame: frame["id"] // 4)
    spec = SPEC | {"columns": {"key": "id", "target": "y", "group": "g"}, "strategy": "BalancedGroupKFold"}
    manifest = decide(spec, whole.head(400))
    apart = whole["g"][int(np.flatnonzero(manifest.codes != manifest.codes[0])[0])]
    whole = whole.assign(g=whole["g"].replace(apart, 0), y=whole["y"] + 9 * (whole["id"] >= 400))
    grown = extend(manifest, whole.head(400))
    assert grown.quarantined == 8
    told = finding("target_distribution", grown.manifest, whole, None).message
    assert "y of 200 new rows is" in told
    assert "from that of the last 392 (" in told


def test_of_two_group_columns_the_fewer_groups_say_what_chance_explains_and_numbers_may_become_text() -> None:
    """Rows of either err together: 25 new groups of four rows among 50 of two; they are read as they were declared."""
    data = rows(400).assign(pair=lambda frame: frame["id"] // 2, four=lambda frame: frame["id"] // 4)
    data["y"] = np.where(data["id"] < 300, data["id"] % 2, 2).astype(str)
    columns = {"key": "id", "target": "y", "group": ["pair", "four"]}
    manifest = decide({"name": "rows", "columns": columns, "strategy": "BalancedGroupKFold"}, data.head(300))
    later = data.astype({"pair": str, "four": str})
    found = check_arrival(manifest, later, Snapshot.of(manifest, data.head(300)), gates={"target_distribution": 0})
    assert "lost_columns" not in found.failed
    (told,) = (each.figures for each in found.findings if each.check == "target_distribution")
    bound = np.log(2 * 3 / 0.001) / 2
    assert told == {"distance": 1.0, "chance": pytest.approx((bound / 25 + bound / 75) ** 0.5)}


def test_a_category_is_told_where_the_model_reads_its_column() -> None:
    data = rows(120).assign(city=lambda frame: np.where(frame["id"] < 100, "Rome", "Oslo"), x=1.0)
    manifest = decide(SPEC, data.head(100))
    snapshot = Snapshot.of(manifest, data.head(100))
    for columns, said in ((["city"], ["unseen_categories"]), (["x"], [])):
        found = check_arrival(manifest, data, snapshot, columns=columns)
        assert [each.check for each in found.findings] == said


def test_the_targets_that_were_kept_of_another_split_are_not_compared() -> None:
    other = Snapshot.of(grown(50), rows(50))
    told = check_arrival(grown(100), rows(100), other).not_asked["changed_targets"]
    assert told == "the known rows' targets were not kept"


def test_categories_are_kept_of_a_column_of_at_most_a_thousand() -> None:
    data = rows(1001).assign(many=[str(i) for i in range(1001)], most=[str(min(i, 999)) for i in range(1001)])
    ((name, kept),) = Snapshot.of(decide(SPEC, data), data).categories.items()
    assert (name, len(kept)) == ("most", 1000)


def test_real_months_pass() -> None:
    flights = pd.read_parquet(Path(__file__).parents[3] / "examples" / "flights.parquet")
    spec = {"columns": {"key": "flight_id", "target": "arr_delay"}, "strategy": "SortedStratifiedKFold"}
    known = flights[flights["month"] <= 1]
    manifest = decide(spec, known)
    for month in range(2, 13):
        snapshot, known = Snapshot.of(manifest, known), flights[flights["month"] <= month]
        assert check_arrival(manifest, known, snapshot).failed == [], month
        manifest = extend(manifest, known).manifest


def weeks(n: int) -> pd.DataFrame:
    random = np.random.default_rng(0)
    rows = pd.DataFrame({"id": range(100 * n), "y": random.normal(size=100 * n), "x": random.normal(size=100 * n)})
    return rows.assign(city=np.where(rows["id"] < 100, "Rome", "Oslo"))


@pytest.mark.parametrize("empty", [None, np.nan, pd.NaT, pa.nulls(200, pa.int64())])
def test_a_column_without_a_value_has_no_type_whatever_holds_it(empty: Any, tmp_path: Path) -> None:
    if isinstance(empty, pa.Array):
        empty = empty.to_pandas(types_mapper=lambda _: pd.Int64Dtype())
    frame = weeks(2).assign(gone=empty, late=np.where(weeks(2)["id"] == 199, 1.0, np.nan))
    frame.to_parquet(tmp_path / "rows.parquet", row_group_size=50)
    for source in (pa.Table.from_pandas(frame), str(tmp_path / "rows.parquet")):
        assert types_of(source_of(source)) == {"id": "int", "y": "float", "x": "float", "city": "text", "late": "float"}
