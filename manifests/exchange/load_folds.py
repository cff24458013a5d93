"""Folds that were decided elsewhere become manifests: joined by key, auditable, and no longer a loose column."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from evenfold.manifests.fields import Columns
from evenfold.manifests.manifest import Manifest
from evenfold.manifests.membership import EXCLUDED, NEVER_TESTED, fold_columns
from evenfold.manifests.plan import Plan
from evenfold.manifests.tables.canonical import amount, canonical_table, column_types, key_order, listed, verb
from evenfold.manifests.tables.keys import positions_in
from evenfold.manifests.tables.read import read_table
from evenfold.splitters import Pair, SplitError
from evenfold.splitters.deployed import reason_of
from numpy.typing import NDArray

Sides = list[tuple[list[str], list[str]]]


def import_folds(
    data: Any, key: str | list[str], fold_column: str, *, name: str = "imported", target: str | None = None
) -> Manifest:
    """Return a manifest of the folds in a column of ``data`` (a file or a frame): the strategy is ``Predefined``.

    The column holds whole numbers: 0..k-1 for the fold that tests a row, -1 never tested, -2 locked, -3 excluded.
    ``target`` is remembered for balance and audit. A CSV has no types: where keys such as 02 or NA are text, give
    ``read_table(file, types={"id": "text"})``, or Parquet. Raises SplitError for anything else, a missing fold or key,
    and a key that is not unique.
    """
    columns = {"key": key, "fold": fold_column, "target": target}
    return Plan({"name": name, "columns": columns, "strategy": "Predefined"}, data).decide()


def import_groups(
    groups: Any, data: Any, key: str | list[str], group: str, *, name: str = "imported", target: str | None = None
) -> Manifest:
    """Return a manifest of ``data`` in which each row has the fold of its group in the table ``groups``.

    ``groups`` holds the columns group and fold, as ``export`` to groups writes them; no row is needed where they come
    from. Groups that are text in the data are text in a CSV, NA and 02 too, unless only 1.0 is there for 1. Raises
    SplitError for groups of the data that the table lacks, and for a table of several repeats.
    """
    table = read_table(data)
    theirs, ours, place = _places(groups, canonical_table(table, [group], {}).rename_columns(["group"]))
    unknown = int(np.count_nonzero(place < 0))
    if unknown:
        first = ours.column("group")[int(np.flatnonzero(place < 0)[0])].as_py()
        raise SplitError(f"{amount(unknown, 'row')} of the data are of groups without a fold (first group {first!r}).")
    column = free_name(table.column_names)
    columns = {"key": key, "fold": column, "target": target}
    folds = theirs.column("fold").combine_chunks().take(pa.array(place))
    return Plan(
        {"name": name, "columns": columns, "strategy": "Predefined"}, table.append_column(column, folds)
    ).decide()


def _places(groups: Any, ours: pa.Table) -> tuple[pa.Table, pa.Table, NDArray[np.int64]]:
    """Return the groups that have folds, those of the data, and where among the former each of the latter is, or -1.

    Text is compared as text; where that leaves groups without a fold, as what the table holds, if it finds them all and
    makes no two of them one.
    """
    texts = column_types(ours)["group"] == "text"
    matched = _compared(groups, ours, texts)
    if texts and np.any(matched[2] < 0):
        with suppress(SplitError):
            other = _compared(groups, ours, texts=False)
            n_before, n_after = (pc.count_distinct(each.column("group"), mode="all") for each in (ours, other[1]))
            if np.all(other[2] >= 0) and n_before == n_after:
                return other
    return matched


def _compared(groups: Any, ours: pa.Table, texts: bool) -> tuple[pa.Table, pa.Table, NDArray[np.int64]]:
    """Return what ``_places`` does, of one comparison: as texts where the table may hold them, else as it is read."""
    table = read_table(groups, types={"group": "text"} if texts and isinstance(groups, (str, Path)) else {})
    repeats = fold_columns(table.column_names)
    if len(repeats) > 1:
        raise SplitError(
            f"the table holds {len(repeats)} repeats ({listed(repeats)}); keep one of them, and call it fold."
        )
    canonical = canonical_table(table, ["group", "fold"], {"fold": "int"})
    if texts and column_types(canonical)["group"] == "int":
        canonical = canonical_table(table, ["group", "fold"], {"fold": "int", "group": "text"})
    folds_of = canonical.group_by("group").aggregate([("fold", "count_distinct")])
    torn = folds_of.filter(pc.greater(folds_of.column("fold_count_distinct"), 1))
    if torn.num_rows:
        raise SplitError(
            f"{amount(torn.num_rows, 'group')} of the table {verb(torn.num_rows, 'has', 'have')} several folds (first "
            f"group {torn.column('group')[0].as_py()!r}); give each one fold."
        )
    ours = canonical_table(ours, ["group"], {"group": column_types(canonical)["group"]})
    return canonical, ours, positions_in(canonical.select(["group"]), ours)


def import_nnunet(
    path: str | Path, data: Any, key: str, *, name: str = "imported", target: str | None = None
) -> Manifest:
    """Return a manifest of the splits in an nnU-Net ``splits_final.json``, whose keys are those of ``data`` as text.

    Where no row is validated twice and each split trains on all others, folds are what it says: ``Predefined``. Rows
    that every split trains on get -1, rows in no split -3. Anything else is kept as it is: ``PredefinedPairs``.
    Raises SplitError for a file of another shape, and for keys that the data lack.
    """
    sides = _read_sides(Path(path))
    columns = Columns(key=[key], target=target)
    table, keys, _ = in_key_order(read_table(data), columns)
    place = {str(value): row for row, value in enumerate(keys.column(0).to_pylist())}
    pairs = [(_rows(train, place, str(path)), _rows(test, place, str(path))) for train, test in sides]
    return manifest_of_pairs(pairs, table, columns, name)


def in_key_order(table: pa.Table, columns: Columns) -> tuple[pa.Table, pa.Table, NDArray[np.int64]]:
    """Return a table and its keys in the order of the key, and the rank that each of its rows got there."""
    keys = canonical_table(table, columns.key, {})
    order = key_order(keys, columns.key) if columns.key else None
    if order is None:
        return table, keys, np.arange(table.num_rows)
    ranks = np.empty(order.size, dtype=np.int64)
    ranks[order] = np.arange(order.size)
    return table.take(order), keys.take(order), ranks


def manifest_of_pairs(pairs: Sequence[Pair], table: pa.Table, columns: Columns, name: str) -> Manifest:
    """Return the manifest of (train, test) ranks of a table in key order: folds where a column can say them."""
    spec: dict[str, Any] = {"name": name, "columns": columns.model_dump()}
    folds = _as_folds(pairs, table.num_rows)
    if folds is None:
        positions = [[train.tolist(), test.tolist()] for train, test in pairs]
        return Plan(spec | {"strategy": "PredefinedPairs", "params": {"given_pairs": positions}}, table).decide()
    column = free_name(table.column_names)
    spec["columns"]["fold"] = column
    return Plan(spec | {"strategy": "Predefined"}, table.append_column(column, pa.array(folds))).decide()


def _read_sides(path: Path) -> Sides:
    try:
        splits = json.loads(path.read_text(encoding="utf-8"))
        if any(not isinstance(split[side], list) for split in splits for side in ("train", "val")):
            raise TypeError("a side is not a list")
        sides = [(list(map(str, split["train"])), list(map(str, split["val"]))) for split in splits]
    except OSError as error:
        raise SplitError(f"{path} cannot be read ({error.strerror}).") from None
    except (ValueError, TypeError, KeyError) as error:
        raise SplitError(
            f"{path} is not a list of {{'train': keys, 'val': keys}} ({type(error).__name__}: {reason_of(error)}); "
            "correct it."
        ) from None
    if not sides:
        raise SplitError(f"{path} holds 0 splits; at least 1 is needed.")
    return sides


def _rows(names: list[str], place: dict[str, int], path: str) -> NDArray[np.int64]:
    unknown = [name for name in names if name not in place]
    if unknown:
        raise SplitError(
            f"{amount(len(unknown), 'key')} of {path} ({listed(unknown, most=3)}) are not in the data; pass the data "
            "that they name, and the column that holds them."
        )
    twice = [name for name, times in Counter(names).items() if times > 1]
    if twice:
        raise SplitError(
            f"{amount(len(twice), 'key')} of {path} ({listed(twice, most=3)}) {verb(len(twice), 'is', 'are')} on one "
            "side of a split more than once; name each once."
        )
    return np.array(sorted(place[name] for name in names), dtype=np.int64)


def _as_folds(pairs: Sequence[Pair], n: int) -> NDArray[np.int64] | None:
    """Return the fold of each row, or None where no column of folds says what the pairs say."""
    trains = np.sum([np.bincount(train, minlength=n) for train, _ in pairs], axis=0)
    tests = np.sum([np.bincount(test, minlength=n) for _, test in pairs], axis=0)
    as_folds = (tests <= 1) & (trains == np.where(tests == 1, len(pairs) - 1, np.where(trains > 0, len(pairs), 0)))
    apart = all(not np.intersect1d(train, test).size for train, test in pairs)
    once = all(np.unique(side).size == np.size(side) for pair in pairs for side in pair)
    if not apart or not once or not np.all(as_folds):
        return None
    folds = np.where(trains > 0, NEVER_TESTED, EXCLUDED)
    for fold, (_, test) in enumerate(pairs):
        folds[test] = fold
    return folds.astype(np.int64)


def free_name(taken: list[str]) -> str:
    """Return a name for a column of folds that no column has."""
    names = ["fold", "nnunet_fold", *(f"nnunet_fold_{i}" for i in range(len(taken)))]
    return next(name for name in names if name not in taken)
