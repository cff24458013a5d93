"""A manifest on disk is whole or absent, readable without us, and never taken for another one."""

import copy
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow.parquet as pq
import pytest
from cases import CASES
from evenfold.manifests import (
    Manifest,
    decide,
    describe,
    extend,
    prove_files,
    read_header,
    read_manifest,
    write_manifest,
)
from evenfold.splitters import SplitError, Splitter
from hypothesis import HealthCheck, given, settings, strategies as st
from tables import quick_spec_of, spec_of, table

SHAPES = ("BalancedGroupKFold", "CombinatorialPurgedKFold", "ForwardChaining", "FractionalStratifiedSplit", "Repeated")
SHAPES += ("FromSklearn", "GroupBootstrap", "HashSplit", "Holdout", "LeaveOneOut", "PoissonBootstrap")
NAMED = [*{type(each): each for each in CASES if type(each).__name__ in SHAPES and spec_of(each)}.values()]
SORTED = {"columns": {"key": "id", "target": "number"}, "name": "sorted"}
GROUPED = {"columns": {"key": "id", "target": "label", "group": "group"}, "name": "grouped"}
DRAWN = {"columns": {"key": "id"}, "strategy": "Bootstrap", "params": {"n_splits": 3}, "name": "drawn"}
PAIRED = {
    "columns": {"key": "id"},
    "strategy": "FromSklearn",
    "params": {"splitter": "sklearn.model_selection:ShuffleSplit", "params": {"n_splits": 2}},
    "name": "paired",
}
KINDS = [SORTED, GROUPED, DRAWN, PAIRED]


def assert_same(one: Manifest, two: Manifest) -> None:
    for name in ("kind", "spec", "types", "fingerprint", "plan_id", "split_id", "n_splits", "version"):
        assert getattr(one, name) == getattr(two, name), name
    assert one.algorithm.items() <= two.algorithm.items()
    assert one.codes.dtype == two.codes.dtype
    assert np.array_equal(one.codes, two.codes)
    assert np.array_equal(one.status, two.status)
    assert (one.keys is None and two.keys is None) or one.keys.equals(two.keys)
    for some, others in zip(one.pairs(), two.pairs(), strict=True):
        assert all(np.array_equal(a, b) for a, b in zip(some, others, strict=True))
    assert (one.group_table is None) == (two.group_table is None)
    if one.group_table is not None:
        assert one.group_table.equals(two.group_table.replace_schema_metadata(None))


@pytest.mark.parametrize("splitter", NAMED, ids=repr)
def test_what_was_written_is_read(splitter: Splitter, tmp_path: Path) -> None:
    keyed = splitter.needs.key or NAMED.index(splitter) % 2 == 0
    spec = copy.deepcopy(quick_spec_of(splitter))
    if not keyed:
        del spec["columns"]["key"]
    manifest = decide(spec, table())
    folder = write_manifest(manifest, tmp_path / "one")
    assert folder == tmp_path / "one" / "split" / "1.0"
    found = read_manifest(folder)
    assert_same(manifest, found)
    assert describe(found) == describe(manifest)
    again = write_manifest(found, tmp_path / "two").rename(tmp_path / "moved")
    assert_same(manifest, read_manifest(os.path.relpath(again)))


@pytest.mark.parametrize("spec", KINDS, ids=lambda spec: spec["name"])
def test_others_read_it_without_us(spec: dict[str, Any], tmp_path: Path) -> None:
    folder = write_manifest(decide(spec, table()), tmp_path)
    header = json.loads((folder / "manifest.json").read_text())
    assert pl.read_parquet(folder / "assignments-0000.parquet")["id"].to_list() == sorted(table()["id"])

    def counts_of(name: str, column: str) -> dict[str, int]:
        counts = duckdb.sql(f"select {column}, count(*) from '{folder / name}' group by 1").fetchall()
        return {str(value): n for value, n in counts}

    assert counts_of("assignments-0000.parquet", "fold") == header["counts"]
    if spec is GROUPED:
        assert sum(counts_of("groups-0000.parquet", "fold").values()) == table()["group"].nunique()
    if spec is DRAWN:
        assert counts_of("resamples.parquet", "n_train") == {"97": 3}
    if spec is PAIRED:
        assert counts_of("splits.parquet", "split") == {"0": 97, "1": 97}


@pytest.mark.parametrize("n_splits", [1000, 1001])
def test_the_header_is_small_and_complete(n_splits: int, tmp_path: Path) -> None:
    """Even a thousand folds keep it below 20 kB, and every file is listed with its digest."""
    manifest = decide(pd.DataFrame({"id": range(3000)}), strategy="KFold", key="id", params={"n_splits": n_splits})
    folder = write_manifest(manifest, tmp_path)
    text = (folder / "manifest.json").read_bytes()
    header = json.loads(text)
    assert len(text) < 20_000
    assert len(header["counts"]) == (n_splits if n_splits <= 1000 else 0)
    assert {entry["path"] for entry in header["files"]} | {"manifest.json"} == {p.name for p in folder.iterdir()}
    assert header["schema"] == "evenfold-manifest/1"
    assert header["n_rows"] == 3000
    for entry in header.pop("files"):
        assert json.loads(pq.read_schema(folder / entry["path"]).metadata[b"evenfold"]) == header


def damaged(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)


def truncated(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-20])


def emptied(path: Path) -> None:
    path.write_bytes(b"")


def a_folder(path: Path) -> None:
    path.unlink()
    path.mkdir()


HARMS = (Path.unlink, damaged, truncated, emptied, a_folder)
FILES = [(SORTED, "assignments-0000.parquet"), (GROUPED, "groups-0000.parquet"), (DRAWN, "resamples.parquet"),
         (PAIRED, "splits.parquet"), (SORTED, "manifest.json")]  # fmt: skip


@pytest.mark.parametrize(
    ("spec", "name", "harm"),
    [(*file, harm) for file, harm in zip(FILES, HARMS, strict=True)] + [(*file, damaged) for file in FILES[2:]],
    ids=lambda each: each if isinstance(each, str) else getattr(each, "__name__", ""),
)
def test_a_harmed_file_is_named(spec: dict[str, Any], name: str, harm: Any, tmp_path: Path) -> None:
    folder = write_manifest(decide(spec, table()), tmp_path)
    harm(folder / name)
    for read in (read_manifest, lambda folder: prove_files(read_header(folder), folder)):
        with pytest.raises(SplitError) as error:
            read(folder)
        assert name in str(error.value)
        assert str(folder) in str(error.value)


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=4,
)


def grown(root: Path) -> tuple[Manifest, Path]:
    """Return a manifest with two generations, of which some rows are gone, and the folder that holds it."""
    first = read_manifest(write_manifest(decide(GROUPED, table(60).iloc[:40]), root))
    manifest = extend(first, table(60).iloc[5:], max_missing=0.2).manifest
    return manifest, write_manifest(manifest, root)


@pytest.fixture(scope="module", params=[*KINDS, None], ids=lambda spec: spec["name"] if spec else "grown")
def written(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[Manifest, Path]:
    root = tmp_path_factory.mktemp("fuzz")
    if request.param is None:
        return grown(root)
    manifest = decide(request.param, table(30))
    return manifest, write_manifest(manifest, root)


def places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    inside = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for name, each in inside:
        yield (*path, name)
        yield from places(each, (*path, name))


@settings(max_examples=10, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_a_header_changed_anywhere_gives_the_manifest_or_an_error(
    written: tuple[Manifest, Path], data: st.DataObject
) -> None:
    manifest, folder = written
    original = (folder / "manifest.json").read_bytes()
    header = json.loads(original)
    *way, last = data.draw(st.sampled_from(list(places(header))))
    place = header
    for step in way:
        place = place[step]
    if data.draw(st.booleans()):
        place[last] = data.draw(VALUES)
    else:
        del place[last]
    text = json.dumps(header).encode()
    if data.draw(st.booleans()):
        at = data.draw(st.integers(0, len(text)))
        text = text[:at] + data.draw(st.binary(max_size=3)) + text[at + data.draw(st.integers(0, 3)) :]
    (folder / "manifest.json").write_bytes(text)
    try:
        assert_same(manifest, read_manifest(folder))
    except SplitError:
        pass
    finally:
        (folder / "manifest.json").write_bytes(original)
