"""The same rows have the same identity in any container and any order, and another value has another."""

import datetime as dt
import hashlib
import json
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.csv
import pytest
from cases import CASES
from evenfold.manifests import Manifest, Plan, canonical_table, decide, digests_of, fingerprint, read_table
from evenfold.splitters import (
    BalancedGroupKFold,
    ForwardChaining,
    KFold,
    SortedStratifiedKFold,
    SplitError,
    Splitter,
    StratifiedBootstrap,
)
from tables import TYPES, quick_spec_of, spec_of, table, to_csv, to_folder

MOMENT = dt.datetime(2024, 1, 1)
THOROUGH = [SortedStratifiedKFold(4), BalancedGroupKFold(4), StratifiedBootstrap(3), ForwardChaining(3)]
NAMED = {type(splitter): splitter for splitter in CASES if spec_of(splitter) is not None}.values()


def to_parquet(frame: pd.DataFrame, folder: Path) -> Path:
    frame.to_parquet(folder / "data.parquet")
    return folder / "data.parquet"


def chunked(frame: pd.DataFrame, folder: Path) -> pa.Table:
    return pa.concat_tables([pa.Table.from_pandas(frame.iloc[:11]), pa.Table.from_pandas(frame.iloc[11:])])


CONTAINERS: dict[str, Callable[[pd.DataFrame, Path], Any]] = {
    "rows shuffled": lambda frame, folder: frame.sample(frac=1, random_state=1),
    "columns added and in another order": lambda frame, folder: frame.assign(more=1.5)[[*frame.columns[::-1], "more"]],
    "an index of its own": lambda frame, folder: frame.set_index("unread", drop=False),
    "pandas with Arrow types": lambda frame, folder: frame.convert_dtypes(dtype_backend="pyarrow"),
    "pandas with nullable types": lambda frame, folder: frame.convert_dtypes(),
    "pandas with objects": lambda frame, folder: frame.astype({"label": object, "group": object}),
    "pandas categories": lambda frame, folder: frame.astype({"label": "category", "group": "category"}),
    "narrow integers": lambda frame, folder: frame.astype({"id": np.int32}),
    "seconds": lambda frame, folder: frame.astype({"when": "datetime64[s]"}),
    "nanoseconds": lambda frame, folder: frame.astype({"when": "datetime64[ns]"}),
    "another time zone": lambda frame, folder: frame.assign(
        when=frame["when"].dt.tz_localize("UTC").dt.tz_convert("America/New_York")
    ),
    "polars": lambda frame, folder: pl.from_pandas(frame),
    "polars categories": lambda frame, folder: pl.from_pandas(frame).with_columns(
        pl.col("label").cast(pl.Categorical), pl.col("group").cast(pl.Enum(sorted(set(frame["group"]))))
    ),
    "pyarrow": lambda frame, folder: pa.Table.from_pandas(frame),
    "pyarrow in chunks": chunked,
    "pyarrow record batches": lambda frame, folder: pa.Table.from_pandas(frame).to_batches()[0],
    "a relation of DuckDB": lambda frame, folder: duckdb.from_arrow(pa.Table.from_pandas(frame)),
    "Parquet": to_parquet,
    "a folder of Parquet": to_folder,
    "CSV with types": to_csv,
}


def folds(manifest: Manifest, data: Any) -> list[tuple[list[int], list[int]]]:
    """Return the keys on both sides of every split, as a reader of ``data`` sees them."""
    keys = np.array(read_table(data, types=TYPES).column("id").to_pylist())
    cv = manifest.as_cv(data)
    assert len(cv) == cv.get_n_splits() == manifest.n_splits
    return [(keys[train].tolist(), keys[test].tolist()) for train, test in cv.split()]


# Every container with one of those that read columns.
PAIRED = [(splitter, "rows shuffled") for splitter in THOROUGH]
PAIRED += [(THOROUGH[number % 4], name) for number, name in enumerate(CONTAINERS) if number]


@pytest.mark.parametrize(("splitter", "container"), PAIRED, ids=[f"{name}: {each!r}" for each, name in PAIRED])
def test_the_container_and_the_order_of_rows_do_not_matter(splitter: Splitter, container: str, tmp_path: Path) -> None:
    other = CONTAINERS[container](table(), tmp_path)
    one, two = (decide(quick_spec_of(splitter), data) for data in (table(), other))
    assert (one.plan_id, one.split_id) == (two.plan_id, two.split_id)
    assert folds(one, table()) == folds(two, other)


@pytest.mark.parametrize("splitter", NAMED, ids=repr)
def test_one_changed_value_is_another_plan_exactly_where_it_is_read(splitter: Splitter) -> None:
    spec = spec_of(splitter)
    frame, target = table(), spec["columns"]["target"]
    plan = Plan(spec, frame).plan_id

    def changed(column: str, value: Any) -> str:
        other = frame.copy()
        other.loc[5, column] = value
        return Plan(spec, other).plan_id

    assert changed("unread", 99.0) == plan
    assert (changed(target, "z" if target == "label" else 99.0) == plan) == (splitter.needs.y == "ignored")
    assert (changed("group", "another") == plan) == (splitter.needs.groups is not True)
    assert changed("id", 10_000) != plan
    assert Plan(spec, frame.iloc[:-1]).plan_id != plan
    assert Plan(spec, pd.concat([frame, frame.iloc[:1].assign(id=10_000)])).plan_id != plan


def test_the_seed_and_a_parameter_are_part_of_the_plan() -> None:
    frame, columns = table(), {"key": "id", "target": "number"}

    def plan(**fields: Any) -> str:
        return Plan({"columns": columns, **fields}, frame).plan_id

    default = plan()
    assert plan(seed=1) != default
    assert plan(params={"leftovers": "end"}) != default
    assert plan(params={"n_splits": 4}) != default
    assert plan(strategy="KFold") != default
    assert plan(columns={**columns, "key": ["id", "label"]}) != default
    assert default == plan(seed=0, params={"n_splits": 5, "leftovers": "spread"}, on_new_rows="fill")
    assert default == plan(strategy="SortedStratifiedKFold", types={"id": "int", "number": "float"})
    assert default == plan(name="another-name")


def test_without_a_key_the_position_is_the_key(tmp_path: Path) -> None:
    frame, spec, plain = table(), {"columns": {"target": "number"}}, {"strategy": "KFold"}
    assert Plan(spec, frame).plan_id != Plan(spec, frame.iloc[::-1]).plan_id
    assert Plan(plain, frame).plan_id == Plan(plain, frame.iloc[::-1]).plan_id != Plan(plain, frame.iloc[:-1]).plan_id
    (tmp_path / "late.csv").write_text("id\n" + "1\n" * 10**6 + "x\n")  # rows are counted, whatever they hold
    assert Plan(plain, tmp_path / "late.csv").n == 10**6 + 1


@pytest.mark.parametrize(
    ("some", "others"),
    [
        (pa.array([1, 2, 3], pa.int8()), pa.array([1, 2, 3], pa.uint64())),
        (pa.array([0.1, 0.2, 0.3], pa.float32()), pa.array(np.array([0.1, 0.2, 0.3], np.float32).astype(np.float64))),
        (pa.array([0.0, 1.0, 2.0]), pa.array([-0.0, 1.0, 2.0])),
        (pa.array([1.5, None, 2.0]), pa.array([1.5, float("nan"), 2.0])),
        (pa.array(["caf\u00e9", "b", "c"]), pa.array(["cafe\u0301", "b", "c"])),
        (pa.array(["a", "b", "a"]), pa.array(["a", "b", "a"]).dictionary_encode()),
        (pa.array(["a", "b", "a"]), pa.array(["a", "b", "a"], pa.string_view())),
        (pa.array([dt.date(2024, 2, 29)] * 3), pa.array([dt.date(2024, 2, 29)] * 3, pa.date64())),
        (pa.array([MOMENT] * 3, pa.timestamp("s")), pa.array([MOMENT] * 3, pa.timestamp("ns", "UTC"))),
        (pa.array([1.25, 2.5, 3.0]), pa.array([1.25, 2.5, 3.0]).cast(pa.decimal128(6, 2))),
    ],
    ids=["integers", "float32", "minus-zero", "NaN", "NFC", "categories", "views", "dates", "times", "decimals"],
)
def test_equal_values_have_equal_fingerprints(some: pa.Array, others: pa.Array) -> None:
    def of(values: pa.Array) -> str:
        return fingerprint(digests_of(canonical_table(pa.table({"x": values}), ["x"], {})))

    assert of(some) == of(others)
    assert of(some) != of(pa.concat_arrays([some[1:], some[:1]])) or len(set(some.to_pylist())) == 1


def test_missing_values_and_text_have_fingerprints_of_their_own() -> None:
    def of(values: list[Any]) -> str:
        return fingerprint(digests_of(canonical_table(pa.table({"x": pa.array(values)}), ["x"], {})))

    seen = [
        of([1.5, 0.0]), of([1.5, None]), of([None, 1.5]), of(["ab", "c"]), of(["a", "bc"]), of(["abc", ""]),
        of(["abc", None]), of([1, 0]), of([True, False]), of(["1", "0"]), of([1, 0, 0]),
    ]  # fmt: skip
    assert len(set(seen)) == len(seen)


def test_the_format_of_a_fingerprint_is_pinned() -> None:
    frame = pd.DataFrame(
        {
            "id": [3, 1, 2],
            "weight": [-0.0, 2.5, np.nan],
            "name": ["é", "a", ""],
            "open": [True, False, True],
            "when": pd.to_datetime(["2024-01-01 00:00:01", "1970-01-01 00:00:00", "1969-12-31 23:59:59"]),
            "day": [dt.date(1970, 1, 3), dt.date(1970, 1, 1), dt.date(1969, 12, 31)],
        }
    )
    ordered = canonical_table(pa.Table.from_pandas(frame.sort_values("id")), frame.columns, {})

    def digest(kind: str, content: bytes) -> list[str]:
        return [kind, hashlib.sha256(f"{kind}|3|".encode() + content).hexdigest()]

    by_hand = {
        "id": digest("int", struct.pack("<3q", 1, 2, 3)),
        "weight": digest("float", bytes([0b01000000]) + struct.pack("<3d", 2.5, 0.0, 0.0)),
        "name": digest("text", struct.pack("<3q", 1, 0, 2) + "aé".encode()),
        "open": digest("bool", bytes([0, 1, 1])),
        "when": digest("timestamp", struct.pack("<3q", 0, -1_000_000, 1_704_067_201_000_000)),
        "day": digest("date", struct.pack("<3i", 0, -1, 2)),
    }
    text = json.dumps({"columns": dict(sorted(by_hand.items())), "rows": 3}, separators=(",", ":"), sort_keys=True)
    assert fingerprint(digests_of(ordered)) == hashlib.sha256(text.encode()).hexdigest()


def test_the_formats_of_plan_id_and_split_id_are_pinned() -> None:
    frame = pd.DataFrame({"id": [30, 10, 20, 40], "y": [1.5, 2.5, 3.5, 4.5]})
    manifest = decide({"columns": {"key": "id", "target": "y"}, "params": {"n_splits": 2}, "seed": 9}, frame)

    def sha(value: Any) -> str:
        text = value if isinstance(value, bytes) else json.dumps(value, separators=(",", ":"), sort_keys=True).encode()
        return hashlib.sha256(text).hexdigest()

    plan = {
        "algorithm": {"name": "SortedStratifiedKFold", "version": manifest.splitter.version},
        "decision": {
            "columns": {"key": ["id"], "target": "y"},
            "params": {"n_splits": 2},
            "seed": 9,
            "strategy": "SortedStratifiedKFold",
            "types": {"id": "int", "y": "float"},
        },
        "fingerprint": manifest.fingerprint,
        "parent_split_id": None,
    }
    assert manifest.plan_id == sha(plan)
    keys = sha([sha(b"int|4|" + struct.pack("<4q", 10, 20, 30, 40))])
    codes = sha(struct.pack("<4i", *manifest.codes.tolist()))
    assert manifest.split_id == sha({"kind": "labels", "keys": keys, "codes": codes, "members": None})


def test_keys_sort_by_value_and_text_by_its_bytes() -> None:
    frame = pd.DataFrame({"n": [10, 9, 100], "text": ["b", "Z", "é"], "same": ["x", "x", "a"]})
    spec: dict[str, Any] = {"strategy": "KFold", "params": {"n_splits": 2}}

    def keys(*names: str) -> list[tuple[Any, ...]]:
        manifest = decide({**spec, "columns": {"key": list(names)}}, frame)
        return [tuple(row.values()) for row in manifest.keys.to_pylist()]

    assert keys("n") == [(9,), (10,), (100,)]
    assert keys("text") == [("Z",), ("b",), ("é",)]
    assert keys("same", "n") == [("a", 100), ("x", 9), ("x", 10)]


def test_types_that_are_given_apply_to_every_container(tmp_path: Path) -> None:
    frame = pd.DataFrame(
        {
            "id": ["007", "7", "08", "9"],
            "y": [1, 2, 3, 4],
            "when": pd.to_datetime(
                ["2024-01-01", "2024-01-02 10:00", "2024-01-03 10:00:00.25", "2024-01-04"], format="ISO8601"
            ),
        }
    )
    types = {"id": "text", "y": "float", "when": "timestamp"}
    frame.to_csv(tmp_path / "naive.csv", index=False)
    frame.assign(when=frame["when"].dt.tz_localize("UTC")).to_csv(tmp_path / "zoned.csv", index=False)
    days = frame.assign(when=frame["when"].dt.floor("D"))
    days.assign(when=days["when"].dt.strftime("%Y-%m-%d")).to_csv(tmp_path / "days.csv", index=False)

    def of(data: Any) -> str:
        return fingerprint(digests_of(canonical_table(read_table(data, types=types), types, types)))

    text = frame.assign(when=frame["when"].astype(str))
    assert of(frame) == of(tmp_path / "naive.csv") == of(tmp_path / "zoned.csv") == of(text)
    assert of(days) == of(tmp_path / "days.csv")


@pytest.mark.parametrize(
    ("values", "declared", "said"),
    [
        (pa.array([1.5]), "int", "column 'x' is declared int and holds something else"),
        (pa.array([2]), "bool", "column 'x' is declared bool and holds something else"),
        (pa.array([dt.datetime(2024, 1, 1, 5)]), "date", "column 'x' is declared date and holds something else"),
        (pa.array([1.5]), "text", "column 'x' is declared text and holds float values; "),
        (pa.array([b"a"]), "text", "column 'x' is of type binary; cast it to "),
        (pa.array([2**63], pa.uint64()), None, "column 'x' holds whole numbers of 2^63 and more; keep them as text"),
        (pa.nulls(2), None, "column 'x' has no value in any row"),
    ],
)  # fmt: skip
def test_a_value_that_does_not_fit_its_type_is_an_error(values: pa.Array, declared: str | None, said: str) -> None:
    with pytest.raises(SplitError) as error:
        canonical_table(pa.table({"x": values}), ["x"], {} if declared is None else {"x": declared})
    assert said in str(error.value)


def test_a_declared_column_without_a_value_has_its_type() -> None:
    made = canonical_table(pa.table({"x": pa.nulls(2)}), ["x"], {"x": "text"})
    assert made.equals(pa.table({"x": pa.nulls(2, pa.large_string())}))


@pytest.mark.parametrize(
    "column",
    [[1, "a"] * 20, [1j] * 40, [[1]] * 40, [object()] * 40, pd.arrays.SparseArray([0.0] * 40)],
    ids=["mixed", "complex", "lists", "objects", "sparse"],
)
def test_a_column_that_nothing_reads_may_hold_anything(column: Any) -> None:
    frame = table(40)
    spec = spec_of(KFold(5))
    assert decide(spec, frame.assign(odd=column)).split_id == decide(spec, frame).split_id


def test_a_text_is_composed_on_its_own_whatever_stands_beside_it() -> None:
    apart, together = ["é", "e", "\u0301x"], ["é", "e\u0301x", "e"]
    for texts, composed in ((apart, apart), (together, ["é", "éx", "e"])):
        table = canonical_table(pa.table({"key": texts}), ["key"], {})
        assert table.column("key").to_pylist() == composed
