"""Folds that were decided elsewhere become manifests: joined by key, auditable, and no longer a loose column."""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from evenfold.manifests.balance import PART_OF
from evenfold.manifests.manifest import Manifest
from evenfold.manifests.membership import EXCLUDED, LOCKED, NEVER_TESTED, fold_columns, in_several_folds
from evenfold.manifests.plan import Plan
from evenfold.manifests.spec import SplitSpec, read_spec
from evenfold.manifests.tables.canonical import amount, canonical_table, infer_type, key_order, listed, verb
from evenfold.manifests.tables.keys import positions_in
from evenfold.manifests.tables.read import read_table, source_of
from evenfold.splitters import FromSklearn, Pair, SplitError
from evenfold.splitters.strategies.given import valid_pair
from numpy.typing import NDArray


def adopt(
    data: Any, folds: Any, key: str | list[str] | None = None, *,
    target: str | None = None, group: str | None = None, time: str | None = None,
    params: Mapping[str, Any] | None = None, seed: int = 0,
    missing_group: Literal["refuse", "alone"] = "refuse", name: str = "adopted",
) -> Manifest:  # fmt: skip
    """Return a manifest of ``data`` (a file or a frame) whose folds are those of ``folds``, unmoved.

    ``folds`` is one of:

    - a splitter of scikit-learn's kind, or its path with its ``params``: it splits the rows in their order, and sees
      the target as y, the group as groups. One without a seed, which makes others each time, is seeded by ``seed``;
    - a column of whole numbers: 0..k-1 for the fold that tests a row, -1 never tested, -2 locked, -3 excluded; or one
      of words: train, validation (tested) and test (locked, or tested where there is no validation) in any of the words
      of Vertex AI, Databricks and BigQuery, or none for a row in no part;
    - an array of such numbers, one a row; or (train, test) pairs of positions or masks, {"train": ..., "val": ...} too;
    - a .json file of such pairs, as ``export`` to torch writes them, or of keys as text, as nnU-Net does;
    - a table of the columns group and fold, as ``export`` to groups writes it, for the column ``group`` of the data.

    Pairs that train on all that they do not test become folds; others stay pairs (``PredefinedPairs``), which cannot
    grow. Folds grow: ``extend`` deals new rows by what the columns ask for (classes or numbers of the target evenly,
    groups whole), and each fold keeps its share; with ``missing_group="alone"`` a row without a group is one of its
    own. A CSV has no types: where keys such as 02 or NA are text, give ``read_table(file, types={"id": "text"})``, or
    Parquet.

    Folds that tear the groups of a column are taken too; the audit says so, and they cannot grow. Raises SplitError for
    missing or skipped folds, rows on both sides, a table with several folds of a group, groups or keys that the data or
    the folds lack, and a key that is not unique.
    """
    rows, spec = given_folds(
        data, folds, key=key, target=target, group=group, time=time, params=params, seed=seed,
        missing_group=missing_group, name=name,
    )  # fmt: skip
    return Plan(spec, rows).decide()


def given_folds(
    data: Any, folds: Any, *, key: Any = None, target: str | None = None, group: str | None = None,
    time: str | None = None, params: Mapping[str, Any] | None = None, seed: int = 0, missing_group: str = "refuse",
    name: str = "adopted",
) -> tuple[Any, SplitSpec]:  # fmt: skip
    """Return the rows, ``data`` themselves or with a column of the folds, and the specification to take them as is."""
    roles = {"key": key, "target": target, "group": group, "time": time}
    roles = {role: column for role, column in roles.items() if column}
    spec = read_spec({"name": name, "missing_group": missing_group, "columns": roles})
    columns, source = spec.columns, source_of(data)
    if isinstance(folds, str) and folds in source.names:
        if infer_type(source.table([folds]).column(folds).type, folds) != "text":
            return data, _with_folds(spec, folds)
        return _of_words(source.table(), folds, spec)
    table = source.table()
    if ":" in folds if isinstance(folds, str) else callable(getattr(folds, "split", None)):
        frame = table.to_pandas()
        y, groups = (frame[role] if role else None for role in (columns.target, columns.group))
        splits = FromSklearn(folds, params, random_state=seed).wrapped_pairs(len(frame), frame, y, groups)
        return _of_pairs(list(splits), table, spec)
    is_file = isinstance(folds, (str, Path))
    if is_file and Path(folds).suffix == ".json":
        return _of_pairs(_read(Path(folds), table, columns.key), table, spec)
    if is_file and not Path(folds).is_file():
        raise SplitError(f"the data have no column {str(folds)!r}; they have {listed(source.names)}.")
    if is_file or "group" in list(getattr(folds, "column_names" if isinstance(folds, pa.Table) else "columns", ())):
        return _labelled(table, _of_groups(folds, table, spec), spec)
    try:
        labels = np.asarray(folds)
    except ValueError:  # pairs of unequal sides
        labels = np.empty(0)
    if labels.ndim != 1 or not labels.size or labels.dtype.kind not in "iuf":
        return _of_pairs(pairs_in(folds, table.num_rows), table, spec)
    if labels.size != table.num_rows:
        raise SplitError(f"there are {labels.size:,} folds for {table.num_rows:,} rows; give one for each row.")
    return _labelled(table, pa.array(labels), spec)


def _with_folds(spec: SplitSpec, fold: str) -> SplitSpec:
    columns = spec.columns.model_copy(update={"fold": fold})
    return spec.model_copy(update={"strategy": "Predefined", "columns": columns})


def _labelled(table: pa.Table, folds: pa.Array, spec: SplitSpec) -> tuple[pa.Table, SplitSpec]:
    names = ("fold", *(f"fold_{i}" for i in range(table.num_columns)))
    free = next(name for name in names if name not in table.column_names)
    return table.append_column(free, folds), _with_folds(spec, free)


def _read(path: Path, table: pa.Table, key: list[str]) -> list[Pair]:
    """Return the pairs in a JSON file as positions in the table; it may name rows by their key as text."""
    try:
        splits = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise SplitError(f"{path} holds no splits ({type(error).__name__}: {error}); correct it.") from None
    mappings = splits if isinstance(splits, list) and all(isinstance(split, dict) for split in splits) else []
    sides = [side if isinstance(side, list) else [[side]] for split in mappings for side in split.values()]
    if not any(isinstance(name, str) for side in sides for name in side):
        return pairs_in(splits, table.num_rows)
    if len(key) != 1:
        raise SplitError(f"{path} names rows by one key, and {len(key)} columns are given; give one as key.")
    place = {str(value): row for row, value in enumerate(canonical_table(table, key, {}).column(0).to_pylist())}
    lacking = [str(name) for side in sides for name in side if str(name) not in place]
    if lacking:
        what = f"{amount(len(lacking), 'key')} of {path} ({listed(lacking, most=3)}) {verb(len(lacking), 'is', 'are')}"
        raise SplitError(f"{what} not in the data; pass the data that they name, and the column that holds them.")
    rows = (np.array(sorted(place[str(name)] for name in side), dtype=np.int64) for side in sides)
    return pairs_in([{name: next(rows) for name in split} for split in mappings], table.num_rows)


def _of_pairs(pairs: Sequence[Pair], table: pa.Table, spec: SplitSpec) -> tuple[pa.Table, SplitSpec]:
    """Return what ``given_folds`` does of pairs: folds where a column can say them."""
    folds, key = _as_folds(pairs, table.num_rows), spec.columns.key
    if folds is not None:
        return _labelled(table, pa.array(folds), spec)
    order = key_order(canonical_table(table, key, {}), key) if key else None
    if order is not None:  # the pairs of a table with a key are told in its order
        ranks = np.argsort(order)
        table, pairs = table.take(order), [(np.sort(ranks[train]), np.sort(ranks[test])) for train, test in pairs]
    sides = [[train.tolist(), test.tolist()] for train, test in pairs]
    recipe = {"strategy": "PredefinedPairs", "params": {"given_pairs": sides}}
    return table, read_spec(spec.model_dump(exclude_unset=True) | recipe)


def _of_groups(groups: Any, table: pa.Table, spec: SplitSpec) -> pa.Array:
    """Return the fold of each row from a table of groups and folds; what is text in the data is text in a CSV."""
    if spec.columns.group is None:
        raise SplitError("a table of groups and their folds is given; name the column of the groups: group.")
    ours = canonical_table(table, [spec.columns.group], {}).rename_columns(["group"])
    types = {"group": infer_type(ours.schema.field("group").type, "group"), "fold": "int"}
    theirs = read_table(groups, types=types if isinstance(groups, (str, Path)) else {})
    if len(repeats := fold_columns(theirs.column_names)) > 1:
        raise SplitError(f"the table holds {len(repeats)} repeats ({listed(repeats)}); keep one, and call it fold.")
    held = canonical_table(theirs, ["group", "fold"], types).group_by("group", use_threads=False)
    folds = held.aggregate([("fold", "count_distinct"), ("fold", "min")])
    torn = folds.filter(pc.greater(folds.column("fold_count_distinct"), 1)).column("group")
    if n := len(torn):
        have = f"{amount(n, 'group')} of the table {verb(n, 'has', 'have')} several folds"
        raise SplitError(f"{have} (first group {torn[0].as_py()!r}); give each one fold.")
    place = positions_in(folds.select(["group"]), ours)
    if (unknown := np.flatnonzero(place < 0)).size:
        are = f"{amount(unknown.size, 'row')} of the data are of groups without a fold"
        raise SplitError(f"{are} (first group {ours.column('group')[int(unknown[0])].as_py()!r}).")
    return folds.column("fold_min").combine_chunks().take(pa.array(place))


def _as_folds(pairs: Sequence[Pair], n: int) -> NDArray[np.int64] | None:
    """Return the fold of each row, or None where no column of folds says what the pairs say."""
    trains, tests = (np.sum([np.bincount(pair[side], minlength=n) for pair in pairs], axis=0) for side in (0, 1))
    as_folds = (tests <= 1) & np.isin(trains + tests, (0, len(pairs)))
    if not as_folds.all() or any(np.unique(train).size < train.size for train, _ in pairs):
        return None
    folds = np.where(trains > 0, NEVER_TESTED, EXCLUDED)
    for fold, (_, test) in enumerate(pairs):
        folds[test] = fold
    return folds.astype(np.int64)


def _of_words(table: pa.Table, column: str, spec: SplitSpec) -> tuple[pa.Table, SplitSpec]:
    """Return what ``given_folds`` does of a column that says training, validation or test in known words, or nothing.

    Warns where values of one of a key's several columns are in several parts, which may be by design.
    """
    words, key = table.column(column).to_pylist(), spec.columns.key
    unknown = sorted({word for word in words if word is not None and word.lower() not in PART_OF})
    if unknown:
        raise SplitError(f"column {column!r} holds {listed(unknown)}; known are {listed(PART_OF, most=len(PART_OF))}.")
    parts = [None if word is None else PART_OF[word.lower()] for word in words]
    codes = {"train": NEVER_TESTED, "validation": 0, "test": LOCKED if "validation" in parts else 0, None: EXCLUDED}
    table, spec = _labelled(table, pa.array([codes[part] for part in parts], pa.int64()), spec)
    for name in key if len(key) > 1 else ():
        if n := in_several_folds(table, [name], str(spec.columns.fold)).num_rows:
            what = f"{amount(n, 'value')} of {name} {verb(n, 'is', 'are')} in several parts"
            instead = f"leave these rows out of one, or split anew with group {name!r}"
            logging.getLogger("evenfold").warning("%s; %s.", what, instead)
    return table, spec


def pairs_in(splits: Any, n: int) -> list[Pair]:
    """Return the (train, test) of each split of ``n`` rows; SplitError for what is none, and positions that lack."""
    try:
        pairs = [(_side(pair, ("train",), 0), _side(pair, ("val", "validation", "test"), 1)) for pair in splits]
    except SplitError:
        raise
    except (TypeError, ValueError, KeyError, IndexError, OverflowError):
        raise SplitError("the splits are no list of (train, test) positions; give one.") from None
    if not pairs:
        raise SplitError("there are 0 splits; at least 1 is needed.")
    pairs = [valid_pair(train, test, n, f"split {i}") for i, (train, test) in enumerate(pairs)]
    for i, (_, test) in enumerate(pairs):  # on the training side a row may be drawn several times
        places, times = np.unique(test, return_counts=True)
        if (times > 1).any():
            twice = f"split {i} tests row {places[times > 1][0]:,} {times.max()} times"
            raise SplitError(f"{twice}; name each test row once.")
    return pairs


def _side(pair: Any, names: Sequence[str], place: int) -> Any:
    sides = [name for name in names if name in pair] if isinstance(pair, Mapping) else [place]
    if len(sides) > 1:
        raise SplitError(f"a split names {listed(sides)}; name the rows that it tests once, and leave out the others.")
    side = np.asarray(pair[sides[0]])
    if side.ndim != 1 or (side.size and side.dtype.kind not in "biu"):
        raise ValueError("no positions")
    return side
