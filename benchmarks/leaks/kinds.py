"""The kinds of leak that are planted, each a change to a clean table. What it is called is its function's name."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pandas as pd

from .tables import Table

Plant = Callable[[Table], None]
KINDS: dict[str, Plant] = {}
COPIED = 0.03  # of the rows


def kind(plant: Plant) -> Plant:
    KINDS[plant.__name__.replace("_", " ")] = plant
    return plant


def _copies(table: Table) -> tuple[np.ndarray, np.ndarray]:
    """Write rows over others, which then lie in the next fold, and return both."""
    rows = table.random.permutation(table.n)[: 2 * int(COPIED * table.n)]
    source, copy = np.split(rows, 2)
    for name in [*table.features, "y"]:
        values = table.frame[name].to_numpy().copy()
        values[copy] = values[source]
        table.frame[name] = values
    table.folds[copy] = (table.folds[source] + 1) % 5
    return source, copy


def _numbers(table: Table) -> list[str]:
    return [name for name in table.features if table.frame[name].dtype.kind == "f"]


def _blur(table: Table, copy: np.ndarray, share: float) -> None:
    for name in _numbers(table):
        values = table.frame[name].to_numpy().copy()
        values[copy] += table.random.normal(size=copy.size) * share * np.nanstd(values)
        table.frame[name] = values


@kind
def exact_copies(table: Table) -> None:
    _copies(table)


@kind
def copies_with_noise_of_a_ten_thousandth(table: Table) -> None:
    _blur(table, _copies(table)[1], 1e-4)


@kind
def copies_with_noise_of_a_twentieth(table: Table) -> None:
    _blur(table, _copies(table)[1], 0.05)


@kind
def rounded_copies(table: Table) -> None:
    _, copy = _copies(table)
    for name in _numbers(table):
        values = table.frame[name].to_numpy().copy()
        values[copy] = np.round(values[copy], 2)
        table.frame[name] = values


@kind
def copies_with_one_field_changed(table: Table) -> None:
    _, copy = _copies(table)
    for row in copy:
        name = table.random.choice(_numbers(table))
        table.frame.loc[row, name] = table.frame[name].iloc[table.random.integers(table.n)]


@kind
def same_features_and_another_label(table: Table) -> None:
    _, copy = _copies(table)
    values = table.frame["y"].to_numpy().copy()
    values[copy] = table.random.permutation(values)[: copy.size] if table.numeric else 1 - values[copy]
    table.frame["y"] = values


@kind
def reworded_texts(table: Table) -> None:
    words = np.array(
        [a + b for a in ("ba", "lo", "mi", "ten", "ra", "su") for b in ("rin", "dol", "pas", "ket", "mur")]
    )
    texts = [" ".join(table.random.choice(words, 18)) for _ in range(table.n)]
    rows = table.random.permutation(table.n)[: 2 * int(COPIED * table.n)]
    for source, copy in rows.reshape(2, -1).T:
        said = texts[source].split()
        said[table.random.integers(18)] = "indeed"
        texts[copy] = " ".join(said).capitalize() + "."
        table.folds[copy] = (table.folds[source] + 1) % 5
    table.frame["note"] = texts


def _entity(table: Table, levels: int) -> np.ndarray:
    codes = table.random.integers(0, levels, table.n)
    table.redraw_target(table.random.normal(size=levels)[codes])
    return codes


@kind
def a_named_group_crosses(table: Table) -> None:
    table.frame["patient"] = _entity(table, table.n // 8)
    table.roles["group"] = "patient"


@kind
def an_entity_of_numbers_nobody_named(table: Table) -> None:
    table.frame["subject"] = _entity(table, table.n // 10) + 1000


@kind
def an_entity_of_texts_nobody_named(table: Table) -> None:
    table.frame["shop"] = [f"S-{code:04d}" for code in _entity(table, table.n // 12)]


@kind
def a_second_entity_crosses(table: Table) -> None:
    patients = table.random.integers(0, table.n // 6, table.n)
    table.frame["device"] = [f"D{code:03d}" for code in _entity(table, table.n // 25)]
    table.frame["patient"] = patients
    table.folds = table.random.permutation(np.arange(table.n // 6) % 5)[patients]
    table.roles["group"] = "patient"


@kind
def an_entity_in_the_key(table: Table) -> None:
    codes = _entity(table, table.n // 8)
    visits = pd.Series(codes).groupby(codes).cumcount().to_numpy()
    table.frame["id"] = [f"S{code:04d}-V{visit}" for code, visit in zip(codes, visits, strict=True)]


@kind
def an_entity_of_two_columns(table: Table) -> None:
    codes = _entity(table, table.n // 8)
    sites = max(int(np.sqrt(codes.max() + 1)), 2)
    table.frame["site"], table.frame["number"] = codes % sites, codes // sites


def _drift(table: Table) -> np.ndarray:
    walk = np.cumsum(table.random.normal(size=table.n))
    table.redraw_target((walk - walk.mean()) / walk.std())
    return np.arange(table.n)


@kind
def random_folds_over_a_named_time(table: Table) -> None:
    table.frame["day"] = pd.Timestamp("2025-01-01") + pd.to_timedelta(_drift(table), "h")
    table.roles["time"] = "day"


@kind
def random_folds_over_a_time_nobody_named(table: Table) -> None:
    table.frame["taken"] = pd.Timestamp("2025-01-01") + pd.to_timedelta(_drift(table), "h")
    order = table.random.permutation(table.n)
    table.frame, table.folds = table.frame.iloc[order].reset_index(drop=True), table.folds[order]


@kind
def a_copy_of_the_target(table: Table) -> None:
    table.frame["status"] = table.frame["y"] * 3.0 + 1.0


@kind
def a_noisy_proxy(table: Table) -> None:
    noise = table.random.normal(size=table.n)
    table.frame["paid"] = table.outcome() + noise * (0.12 if table.numeric else 0.6)


@kind
def a_proxy_that_is_not_monotone(table: Table) -> None:
    side = table.random.choice([-1.0, 1.0], table.n)
    table.frame["swing"] = side * (3.0 + table.outcome()) + table.random.normal(size=table.n) * 0.05


@kind
def missing_where_the_target_is_low(table: Table) -> None:
    low = table.outcome() < (np.median(table.outcome()) if table.numeric else 0.0)
    value = table.random.normal(size=table.n)
    proxy = np.round(table.outcome(), 1) if table.numeric else value
    table.frame["discharge"] = np.where(low & ~(table.numeric & (table.random.random(table.n) < 0.0)), np.nan, proxy)
    if table.numeric:
        table.frame["discharge"] = np.where(low, np.nan, 5.0)
        table.frame["closed"] = table.outcome() + table.random.normal(size=table.n) * 0.1


@kind
def a_category_that_knows(table: Table) -> None:
    bins = pd.qcut(table.outcome() + table.random.normal(size=table.n) * 0.02, 12, labels=False, duplicates="drop")
    slips = table.random.random(table.n) < 0.01
    table.frame["tariff"] = [f"t{code}" for code in np.where(slips, 0, bins)]


@kind
def a_date_that_knows(table: Table) -> None:
    days = 40 * table.outcome() + table.random.normal(size=table.n) * (3 if table.numeric else 20)
    table.frame["closed_on"] = pd.Timestamp("2025-01-01") + pd.to_timedelta(np.round(days), "D")


@kind
def two_proxies(table: Table) -> None:
    scale = 0.1 if table.numeric else 0.4
    for name in ("refund", "refund_tax"):
        table.frame[name] = table.outcome() + table.random.normal(size=table.n) * scale


@kind
def rows_numbered_in_order_of_the_target(table: Table) -> None:
    order = np.argsort(table.frame["y"].to_numpy(), kind="stable")
    table.frame, table.folds = table.frame.iloc[order].reset_index(drop=True), table.folds[order]
    table.frame["row"] = np.arange(table.n)


def _levels(table: Table, rows_a_level: int) -> tuple[np.ndarray, pd.Series]:
    return table.random.integers(0, table.n // rows_a_level, table.n), table.frame["y"].astype(float)


@kind
def rates_over_all_rows(table: Table) -> None:
    zips, y = _levels(table, 4)
    table.frame["zip_rate"] = y.groupby(zips).transform("mean").to_numpy()


@kind
def rates_over_all_rows_beside_their_column(table: Table) -> None:
    zips, y = _levels(table, 5)
    table.frame["zip"] = [f"Z{code:05d}" for code in zips]
    table.frame["zip_rate"] = y.groupby(zips).transform("mean").to_numpy() * 100


@kind
def smoothed_rates_over_all_rows(table: Table) -> None:
    zips, y = _levels(table, 6)
    rows = y.groupby(zips).transform("size")
    table.frame["zip_rate"] = ((y.groupby(zips).transform("sum") + 10 * y.mean()) / (rows + 10)).to_numpy()


@kind
def rates_without_the_own_row(table: Table) -> None:
    zips, y = _levels(table, 6)
    rows = y.groupby(zips).transform("size")
    table.frame["zip"] = [f"Z{code:05d}" for code in zips]
    rest = (y.groupby(zips).transform("sum") - y) / (rows - 1).clip(lower=1)
    table.frame["zip_rate"] = np.where(rows > 1, rest, y.mean())


@kind
def the_score_of_a_model_that_saw_the_rows(table: Table) -> None:
    from sklearn.ensemble import RandomForestRegressor

    X = table.frame[_numbers(table)].fillna(0.0)
    model = RandomForestRegressor(50, random_state=0, n_jobs=1).fit(X, table.outcome())
    table.frame["old_score"] = model.predict(X)


@kind
def the_next_rows_target(table: Table) -> None:
    table.frame["day"] = pd.Timestamp("2025-01-01") + pd.to_timedelta(np.arange(table.n), "h")
    table.frame["next_level"] = np.roll(table.outcome(), -1)


@kind
def a_moving_mean_of_the_target(table: Table) -> None:
    y = pd.Series(table.outcome())
    table.frame["smooth"] = y.rolling(5, center=True, min_periods=1).mean().to_numpy()


@kind
def keys_that_differ_by_case(table: Table) -> None:
    source, copy = np.split(table.random.permutation(table.n)[: 2 * int(COPIED * table.n)], 2)
    keys = table.frame["id"].to_numpy().copy()
    keys[copy] = [key.lower() + " " for key in keys[source]]
    table.frame["id"] = keys
    table.folds[copy] = (table.folds[source] + 1) % 5


@kind
def a_fold_that_is_shifted(table: Table) -> None:
    table.frame.loc[table.folds == 4, "x2"] += 1.2


@kind
def a_fold_with_gaps(table: Table) -> None:
    table.frame.loc[(table.folds == 3) & (table.random.random(table.n) < 0.35), "x0"] = np.nan


@kind
def a_fold_of_other_categories(table: Table) -> None:
    change = (table.folds == 1) & (table.random.random(table.n) < 0.4)
    table.frame.loc[change, "kind"] = "fir"


@kind
def a_generation_of_another_population(table: Table) -> None:
    table.grown = table.n // 5
    table.frame.loc[table.n - table.grown :, "x2"] += 1.5
