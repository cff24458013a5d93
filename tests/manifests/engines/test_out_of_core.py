"""What a split comes to is the same whether its rows are in memory or not: balance, audit, exports, proofs."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from cases import CASES
from evenfold.manifests import (
    Manifest,
    StoredManifest,
    as_cv,
    audit,
    decide,
    export,
    extend,
    join_rows,
    measure,
    partition,
    write_join,
    write_manifest,
)
from evenfold.manifests.anywhere.auditing import ROW_BY_ROW
from evenfold.manifests.engines import ordered
from evenfold.splitters import SplitError, Splitter
from tables import TYPES, assert_alike, figures, quick_spec_of, shuffled, spec_of, table

# However long folds were searched for, they are measured alike; test_engines.py decides those as well.
LABELS = [
    splitter
    for splitter in CASES
    if splitter.kind == "labels" and not splitter.in_memory_because and spec_of(splitter) is not None
    if not any(searched in repr(splitter) for searched in ("effort", "optimiser"))
]
GROUPED: dict[str, Any] = {
    "columns": {"key": "id", "group": "group", "target": "number"},
    "types": TYPES,
    "params": {"effort": 1},  # however long folds were searched for, what they come to is found alike
}


@pytest.fixture(autouse=True)
def _small_shards(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a hundred rows be several shards, so that every border is crossed."""
    monkeypatch.setattr(ordered, "SHARD_ROWS", 20)


def kept(spec: Any, folder: Path, data: Any = None) -> StoredManifest:
    return decide(spec, table() if data is None else data, engine="duckdb", memory="64MB", to=folder)


def takes(splitter: Splitter, target: str) -> bool:
    return splitter.needs.y != {"label": "numbers", "number": "classes"}[target]


def measured(number: int, splitter: Splitter) -> list[tuple[Splitter, str, float | None]]:
    """Return every target that a strategy takes and both with and without a locked part, not each with each."""
    targets = [y for y in ("label", "number") if takes(splitter, y)]
    if "parts" in splitter.get_params(deep=False):
        return [(splitter, y, None) for y in targets]
    shares = [None, 0.2] if number % 2 else [0.2, None]
    return list(zip([splitter] * 2, targets * (3 - len(targets)), shares, strict=True))


@pytest.mark.parametrize(
    ("splitter", "target", "holdout"),
    [case for number, splitter in enumerate(LABELS) for case in measured(number, splitter)],
    ids=repr,
)
def test_balance_is_measured_the_same_out_of_core(
    splitter: Splitter, target: str, holdout: float | None, tmp_path: Path
) -> None:
    """Every figure of every fold and part, the bounds and the reach, of rows in another order."""
    rows = table()
    manifest = decide(dict(quick_spec_of(splitter, target) or {}) | {"holdout": holdout}, rows)
    report = measure(StoredManifest(write_manifest(manifest, tmp_path)), shuffled(rows), memory="64MB")
    assert_alike(report.model_dump(), measure(manifest, rows).model_dump())


def test_strata_are_measured_the_same_out_of_core(tmp_path: Path) -> None:
    """Columns of classes and of numbers beside the target."""
    spec = GROUPED | {"columns": GROUPED["columns"] | {"stratify": ["label", "flag"]}}
    report = measure(kept(spec, tmp_path), shuffled(table()), memory="64MB")
    assert_alike(report.model_dump(), measure(decide(spec, table()), table()).model_dump())


def test_rows_without_a_key_are_measured_by_position(tmp_path: Path) -> None:
    """The same rows in the same order; another number of rows is refused."""
    spec = {"columns": {"target": "label"}}
    stored = kept(spec, tmp_path)
    assert_alike(measure(stored, table()).model_dump(), measure(decide(spec, table()), table()).model_dump())
    with pytest.raises(SplitError, match=r"holds 97 rows by position .* and the data have 96 rows"):
        measure(stored, table().iloc[1:])


SPOILT: list[tuple[Callable[[pd.DataFrame], pd.DataFrame], str]] = [
    (lambda f: f.iloc[3:], r"^3 rows of the manifest are not in the data \(first key .*extend the manifest"),
    (lambda f: pd.concat([f, f.tail(2).assign(id=[9001, 9002])]), r"^2 rows have no fold \(first key 9001\)"),
    (lambda f: pd.concat([f, f.tail(2)]), r"key id is not unique: 2 of 99 rows repeat"),
    (lambda f: f.assign(number=f["number"].mask(f.index < 2)), r"'number' is missing in 2 of 97 rows; drop, fill"),
    (lambda f: f.drop(columns="group"), r"no column 'group'|has no column|there is no"),
]


@pytest.mark.parametrize(("spoil", "message"), SPOILT)
def test_rows_that_are_not_the_manifests_are_not_measured(
    spoil: Callable[[pd.DataFrame], pd.DataFrame], message: str, tmp_path: Path
) -> None:
    """The sentence says how many, with the first key; nothing that was spilled stays."""
    stored = kept(GROUPED, tmp_path)
    with pytest.raises(SplitError, match=message):
        measure(stored, shuffled(spoil(table())), memory="64MB")
    assert not list(tmp_path.glob(".spilling-*"))


WRONG: list[Callable[[pd.DataFrame], pd.DataFrame]] = [
    lambda f: f,
    lambda f: f.iloc[5:],
    lambda f: pd.concat([f, f.tail(3).assign(id=[9001, 9002, 9003])]),
    lambda f: pd.concat([f, f.tail(2)]),
    lambda f: f.assign(group=f["group"].mask(f.index % 9 == 0, "merged")),
    lambda f: f.assign(group=[str(i) for i in range(len(f))]),
    lambda f: f.assign(label=f["label"].mask(f.index == 4, "rare")),
    lambda f: f.assign(label=f["label"].mask(f.index == 4)),
]


@pytest.fixture(scope="module", params=[GROUPED, {"columns": {"key": "id", "target": "label"}, "types": TYPES}])
def both(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[Manifest, StoredManifest]:
    """Return a manifest in memory, and the same on disk; audits only read them."""
    manifest = decide(request.param, table())
    return manifest, StoredManifest(write_manifest(manifest, tmp_path_factory.mktemp("both")))


@pytest.mark.parametrize("wrong", range(len(WRONG)))
def test_what_counts_can_tell_is_found_out_of_core_too(both: tuple[Manifest, StoredManifest], wrong: int) -> None:
    """Figures, severities and gates are those of the audit in memory, and the sentences but for places of rows."""
    manifest, stored = both
    data = shuffled(WRONG[wrong](table()))
    found = audit(stored, data, group="group", memory="64MB")
    # Names are listed by first appearance, which is in the order of keys where rows are sorted.
    whole = audit(manifest, data.sort_values("id"), group="group")
    asked = {name for name, why in found.not_asked.items() if why == ROW_BY_ROW}
    assert figures(found) == {k: v for k, v in figures(whole).items() if k not in asked}
    assert set(found.passed) == set(whole.passed) - asked
    by_place = {"rows_without_fold", "repeated_keys"}
    told = {f.check: f.message for f in found.findings if f.check not in by_place}
    assert told == {f.check: f.message for f in whole.findings if f.check in told}
    assert {"duplicate_rows", "near_duplicates", "similar_keys"} <= asked


def test_draws_are_measured_as_a_whole(tmp_path: Path) -> None:
    """What is made from all rows at once is read into memory, with the same report."""
    spec = spec_of(next(s for s in CASES if type(s).__name__ == "PoissonBootstrap"))
    stored = kept(spec, tmp_path)
    assert measure(stored, table()) == measure(decide(spec, table()), table())
    assert audit(stored, table()) == audit(decide(spec, table()), table())


def test_many_rows_are_measured_the_same_within_a_limit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Text keys, many groups, and a numeric target whose values go on from one stretch to the next."""
    monkeypatch.setattr(ordered, "SHARD_ROWS", 30_000)
    rng, n = np.random.default_rng(1), 140_000  # DuckDB hands over 131,072 at a time
    rows = pa.table(
        {
            "key": pa.array([f"clé-{i:07d}" for i in rng.permutation(n)]),
            "group": pa.array(rng.integers(0, 5_000, n)).cast(pa.string()),
            "y": rng.poisson(3.0, n).astype(float),
        }
    )
    spec = GROUPED | {"columns": {"key": "key", "group": "group", "target": "y"}, "types": {}}
    stored = decide(spec, rows, engine="duckdb", memory="100MB", to=tmp_path)
    assert_alike(measure(stored, rows, memory="100MB").model_dump(), measure(stored.read(), rows).model_dump())


PARTED: list[dict[str, Any]] = [
    GROUPED,
    {"columns": {"key": ["when", "id"], "target": "label"}, "types": TYPES, "holdout": 0.2},
    {"columns": {"target": "label"}},
    {"columns": {"key": "id", "target": "number"}, "strategy": "FractionalStratifiedSplit", "types": TYPES},
]


@pytest.mark.parametrize("spec", PARTED)
def test_a_table_is_parted_by_its_folds_without_being_in_memory(spec: dict[str, Any], tmp_path: Path) -> None:
    """Every fold's training and test rows are those of ``join_rows``, in the same order; locked rows are in neither."""
    rows = pa.Table.from_pandas(shuffled(table()) if spec["columns"].get("key") else table(), preserve_index=False)
    manifest = decide(spec, rows)
    parted = partition(kept(spec, tmp_path / "splits", rows), rows, tmp_path / "parted", memory="64MB")
    assert parted.n_splits == manifest.n_splits
    for split in range(parted.n_splits):
        for role in ("train", "test"):
            wanted = join_rows(manifest, rows, split, role)  # type: ignore[arg-type]
            assert parted.read(split, role).equals(wanted)  # type: ignore[arg-type]
            assert parted.rows(split, role) == wanted.num_rows  # type: ignore[arg-type]
            assert parted.read(split, role, ["unread"]).equals(wanted.select(["unread"]))  # type: ignore[arg-type]
    batches = pa.concat_tables(parted.batches(0, "test", ["id"]))
    assert sorted(batches.column("id").to_pylist()) == sorted(join_rows(manifest, rows, 0, "test")["id"].to_pylist())
    whole = pd.read_parquet(tmp_path / "parted")  # by a reader that is not ours
    assert len(whole) == 97
    assert set(whole["fold"].astype(int)) == set(np.unique(manifest.codes).tolist())


def test_a_table_that_cannot_be_parted_leaves_nothing(tmp_path: Path) -> None:
    """Another table, a folder that is there, a column that is called like ours: a sentence, and no file."""
    stored = kept(GROUPED, tmp_path / "splits")
    with pytest.raises(SplitError, match="3 rows of the manifest are not in the data"):
        partition(stored, table().iloc[3:], tmp_path / "parted")
    with pytest.raises(SplitError, match="begin with 'fold' are ours"):
        partition(stored, table().assign(fold_1=1), tmp_path / "parted")
    for repeat in (3, -1):
        with pytest.raises(SplitError, match=f"there is no repeat {repeat} in .*; choose 0"):
            partition(stored, table(), tmp_path / "parted", repeat=repeat)
    assert [path.name for path in tmp_path.iterdir()] == ["splits"]
    made = partition(stored, table(), tmp_path / "parted")
    with pytest.raises(SplitError, match="exists already; name another folder"):
        partition(stored, table(), tmp_path / "parted")
    with pytest.raises(SplitError, match="there is no split 5; choose 0 to 4"):
        made.read(5, "test")
    with pytest.raises(SplitError, match="there is no role 'both'"):
        made.read(0, "both")  # type: ignore[arg-type]
    assert not list(tmp_path.rglob(".spilling-*"))


@pytest.mark.parametrize("engine", ["memory", "duckdb"])
def test_a_table_of_groups_and_classes_beyond_any_memory_is_refused(
    engine: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A column of as many classes as there are groups: the sentence says the size, and nothing is asked for."""
    monkeypatch.setattr(ordered, "SHARD_ROWS", 30_000)
    n = 60_000
    rows = pa.table({"id": np.arange(n), "group": np.arange(n), "class": [f"class {i}" for i in range(n)]})
    spec = {"columns": {"key": "id", "group": "group", "stratify": ["class"]}}
    with pytest.raises(SplitError, match=r"60,000 groups by 60,000 classes are a table of 29 GB, and 16 GB are the"):
        decide(spec, rows, engine=engine, to=tmp_path / "splits")
    assert not (tmp_path / "splits").exists()


def test_a_refusal_leaves_no_folder_behind(tmp_path: Path) -> None:
    """Not even the home that it would have been the first to make; a folder that was there stays."""
    misread = tmp_path / "misread.csv"
    misread.write_text("id,cost\n" + "".join(f'{i},"{i},50"\n' for i in range(300)))
    with pytest.raises(SplitError, match="those are not classes"):
        decide({"columns": {"target": "cost"}}, misread, engine="duckdb", to=tmp_path / "home" / "splits")
    assert sorted(each.name for each in tmp_path.iterdir()) == ["misread.csv"]
    (tmp_path / "home").mkdir()
    with pytest.raises(SplitError, match="those are not classes"):
        decide({"columns": {"target": "cost"}}, misread, engine="duckdb", to=tmp_path / "home" / "splits")
    assert list((tmp_path / "home").iterdir()) == []


@pytest.mark.parametrize("key", ["id", None])
def test_a_manifest_on_disk_is_a_cv_and_its_folds_are_joined_as_in_memory(tmp_path: Path, key: str | None) -> None:
    """The same positions in the same order, and the same rows of each role, after growth and deletion as well."""
    spec = GROUPED | {"columns": {**GROUPED["columns"], "key": key}, "holdout": {"fraction": 0.2}}
    rows = table()
    stored = kept(spec, tmp_path / "splits", rows)
    data = rows if key is None else shuffled(rows)
    if key:
        data = data.drop(index=data.index[3]).reset_index(drop=True)
        stored = extend(stored, data, max_missing=0.5).manifest
    whole = stored.read()
    cv, known = as_cv(stored, data, memory="64MB"), whole.as_cv(data)
    assert cv.get_n_splits() == known.get_n_splits() == 5
    for (train, test), (learnt, tested) in zip(cv.split(data), known.split(data), strict=True):
        assert train.tolist() == learnt.tolist()
        assert test.tolist() == tested.tolist()
    with pytest.raises(SplitError, match="rows and the manifest was joined to"):
        cv.split(data.head(5))
    data.to_parquet(tmp_path / "rows.parquet")
    for role in ("train", "test"):
        n = write_join(stored, tmp_path / "rows.parquet", 1, role, tmp_path / "one.parquet", memory="1kB")
        wanted = join_rows(whole, tmp_path / "rows.parquet", 1, role).replace_schema_metadata(None)
        assert n == wanted.num_rows
        assert pq.read_table(tmp_path / "one.parquet").equals(wanted)
    for asked in ({"fold": 9}, {"fold": 0, "repeat": 2}, {"fold": 0, "role": "both"}):
        with pytest.raises(SplitError, match="there is no"):
            write_join(
                stored, tmp_path / "rows.parquet", **{"role": "test", "to": tmp_path / "x.csv"} | asked, memory=1
            )
    assert not (tmp_path / "x.csv").exists()


@pytest.mark.parametrize("key", ["position", "born"])
def test_a_key_may_be_called_as_what_we_count_by(key: str, tmp_path: Path) -> None:
    """Of a manifest on disk the folds, files and joined rows are those of the manifest in memory, whatever its key."""
    rows = pa.Table.from_pandas(shuffled(table()), preserve_index=False)
    rows = rows.append_column(key, pa.array(np.random.default_rng(3).permutation(rows.num_rows)))
    columns, params = {"key": key, "group": "group", "target": "number"}, {"n_splits": 3, "effort": 1}
    stored = kept({"columns": columns, "params": params}, tmp_path / "splits", rows)
    whole = stored.read()
    ours, theirs = as_cv(stored, rows, memory="1kB").split(rows), whole.as_cv(rows).split(rows)
    assert [np.concatenate(pair).tolist() for pair in ours] == [np.concatenate(pair).tolist() for pair in theirs]
    parted = partition(stored, rows, tmp_path / "parted", memory="64MB")
    for fold in range(3):
        wanted = join_rows(whole, rows, fold, "test")
        assert parted.read(fold, "test").equals(wanted)
        write_join(stored, rows, fold, "test", tmp_path / "one.parquet", memory=1000)
        assert pq.read_table(tmp_path / "one.parquet").equals(wanted)
    taken = rows.append_column("fold_place", rows.column(key))
    with pytest.raises(SplitError, match="a column 'fold_place', and that name is ours; rename it"):
        write_join(stored, taken, 0, "test", tmp_path / "one.parquet", memory=1000)


@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
def test_a_fold_without_rows_is_a_file_without_rows(suffix: str, tmp_path: Path) -> None:
    """All rows of a fold were deleted: the columns are there, as in memory."""
    rows = table()
    first = kept(GROUPED, tmp_path / "splits", rows)
    data = rows[rows["id"].isin(join_rows(first.read(), rows, 0, "train").column("id").to_pylist())]
    stored = extend(first, data, max_missing=0.9).manifest
    ours, theirs = tmp_path / f"ours{suffix}", tmp_path / f"theirs{suffix}"
    assert write_join(stored, data, 0, "test", theirs) == write_join(stored, data, 0, "test", ours, memory=1000) == 0
    assert ours.read_bytes() == theirs.read_bytes()


@pytest.mark.parametrize(("to", "suffix"), [("csv", ".csv"), ("h2o", ".csv"), ("spark", ".parquet")])
def test_folds_are_exported_from_disk_with_the_bytes_of_memory(tmp_path: Path, to: Any, suffix: str) -> None:
    """With the data and without; where a tool has no word for a fold, it says so and writes nothing."""
    rows = shuffled(table())
    rows.to_parquet(tmp_path / "rows.parquet")
    stored = kept(GROUPED, tmp_path / "splits", rows)
    for data in (None, tmp_path / "rows.parquet"):
        ours, theirs = tmp_path / f"ours{suffix}", tmp_path / f"theirs{suffix}"
        told = export(stored, to, ours, data, memory="1kB")
        known = export(stored.read(), to, theirs, data)
        assert (told.rows, told.note) == (known.rows, known.note)
        assert ours.read_bytes() == theirs.read_bytes()
    if to != "csv":
        locked = kept(GROUPED | {"name": "locked", "holdout": {"fraction": 0.2}}, tmp_path / "splits", rows)
        with pytest.raises(SplitError, match=r"no word for rows locked \(-2\)"):
            export(locked, to, tmp_path / f"never{suffix}", memory="1kB")
        assert not (tmp_path / f"never{suffix}").exists()


def test_rows_that_were_deleted_and_are_still_in_the_data_leave_no_export(tmp_path: Path) -> None:
    """As in memory they are left out; their place in the data is no reason to refuse the others."""
    rows = shuffled(table())
    rows.to_parquet(tmp_path / "rows.parquet")
    stored = extend(kept(GROUPED, tmp_path / "splits", rows), rows[5:], max_missing=0.5).manifest
    told = export(stored, "spark", tmp_path / "ours.parquet", tmp_path / "rows.parquet", memory="1kB")
    known = export(stored.read(), "spark", tmp_path / "theirs.parquet", tmp_path / "rows.parquet")
    assert told.rows == known.rows == 92
    assert (tmp_path / "ours.parquet").read_bytes() == (tmp_path / "theirs.parquet").read_bytes()


def test_a_form_that_needs_all_rows_says_which_do_not(tmp_path: Path) -> None:
    """The folds of a manifest on disk are not made from all of its rows; scikit-learn's file is."""
    stored = kept(GROUPED, tmp_path / "splits", table())
    with pytest.raises(SplitError, match=r"97 rows take about .* in memory, .* export to csv, h2o, autogluon or spark"):
        export(stored, "sklearn", tmp_path / "folds.npy", table(), memory="1kB")


def test_the_folders_of_one_repeat_are_counted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Those of the others are not made."""
    rows = pd.DataFrame({"id": range(40)})
    inner = {"strategy": "KFold", "params": {"n_splits": 4}}
    spec = {"columns": {"key": "id"}, "strategy": "Repeated", "params": {"strategy": inner, "n_repeats": 3}}
    stored = kept(spec, tmp_path / "splits", rows)
    monkeypatch.setattr("evenfold.manifests.anywhere.joining.MOST_PARTS", 4)
    assert partition(stored, rows, tmp_path / "parted", repeat=2).n_splits == 4
    monkeypatch.setattr("evenfold.manifests.anywhere.joining.MOST_PARTS", 3)
    with pytest.raises(SplitError, match="4 folds make as many folders"):
        partition(stored, rows, tmp_path / "more")


def test_a_table_without_rows_is_told_as_in_memory(tmp_path: Path) -> None:
    """One sentence, whatever reads the rows."""
    table = pa.table({"id": pa.array([], pa.int64()), "y": pa.array([], pa.float64())})
    pq.write_table(table, tmp_path / "rows.parquet")
    for room in ({}, {"engine": "duckdb", "memory": "1MB", "to": tmp_path / "splits"}):
        with pytest.raises(SplitError, match=r" has 0 rows; 1 is needed at least, and 2 to split\.$"):
            decide({"columns": {"key": "id", "target": "y"}}, tmp_path / "rows.parquet", **room)
