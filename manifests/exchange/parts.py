"""One split into training, validation and test: as a column of three words, both ways, and as positions."""

from __future__ import annotations

import json
import logging
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from evenfold.manifests.attributes import PART_OF, PARTS, WORDS
from evenfold.manifests.manifest import DELETED, Manifest
from evenfold.manifests.membership import EXCLUDED, LOCKED, NEVER_TESTED, Labels, Pairs
from evenfold.manifests.tables.canonical import amount, infer_type, listed, verb
from evenfold.manifests.tables.read import read_table
from evenfold.splitters import Pair, SplitError
from evenfold.splitters.strategies.given import valid_pair
from numpy.typing import NDArray

FOLDS = "fold"  # the column of exports
Ranks = NDArray[np.int64]


def require_data(data: Any, to: str) -> None:
    """Raise SplitError where no data say in what order rows stand: their positions would be those of no frame."""
    if data is None:
        raise SplitError(
            f"{to} tells rows by their position, so the frame whose order they stand in is needed; give data (--data "
            "FILE), or export to csv, which names rows by their key."
        )


def in_order_of(manifest: Manifest, data: Any, folds: NDArray[Any]) -> NDArray[Any]:
    """Return the folds of the rows that are kept in the order of the rows of ``data``, which must be those."""
    lookup = manifest.lookup(data)
    positions, waiting = lookup.exact_rows()[kept_rows(manifest)], int(np.count_nonzero(lookup.waits))
    if waiting:
        wait = f"{amount(waiting, 'row')} of the data {verb(waiting, 'waits for its', 'wait for their')} target"
        raise SplitError(f"{wait} and {verb(waiting, 'has', 'have')} no fold; leave them out of the data.")
    back = lookup.rank.size - folds.size  # every row is known, so what is left are deleted rows that are back
    if back:
        are = verb(back, "is", "are")
        raise SplitError(f"{amount(back, 'row')} of the data {are} deleted in the manifest; extend it.")
    in_order = np.empty_like(folds)
    in_order[positions] = folds
    return in_order


def folds_of_kept(manifest: Manifest, repeat: int, to: str, least: int) -> NDArray[Any]:
    """Return the fold of every row that is kept; SplitError where a code is below ``least``."""
    labels = labels_of(manifest, to)
    manifest.split_number(0, repeat)
    folds = labels.column(repeat)[kept_rows(manifest)]
    unfit = folds[folds < least]
    if unfit.size:
        which = listed(f"{labels.code_name(code)} ({code})" for code in np.unique(unfit)[::-1].tolist())
        raise SplitError(
            f"{to} has no word for {amount(unfit.size, 'row')} {which}; it would train on or test them. Export to csv, "
            "and pass on the rows with a fold of 0 or more."
        )
    return np.asarray(folds)


def sides(manifest: Manifest, data: Any = None) -> Iterator[tuple[Ranks, Ranks, Ranks]]:
    """Yield the ranks that each split trains on, tests, and sets apart to calibrate by.

    None are set apart without such a share, or without the ``data`` whose groups, classes and times say which.
    """
    apart = data is not None and manifest.spec.calibration is not None
    cv = manifest.as_cv(read_table(data, types=manifest.spec.types), calibration=True) if apart else None
    for i, (train, test) in enumerate(map(manifest.in_use.pair, range(manifest.n_splits))):
        left, held_out = (train, train[:0]) if cv is None or cv.parted is None else cv.parted(i, train)
        yield left, test, held_out


def labels_of(manifest: Manifest, to: str) -> Labels:
    """Return the folds in use; SplitError where the manifest holds none."""
    if isinstance(manifest.in_use, Labels):
        return manifest.in_use
    remedy = "export to nnunet" if isinstance(manifest.in_use, Pairs) else "use a split into folds"
    title = f"{manifest.name} {manifest.version}"
    raise SplitError(f"{to} takes one fold a row, and {title} holds {manifest.kind}; {remedy}.")


def kept_rows(manifest: Manifest) -> NDArray[np.int64]:
    """Return the ranks of the rows that were not deleted."""
    return np.flatnonzero(manifest.status != DELETED)


def kept_keys(manifest: Manifest) -> pa.Table:
    """Return the keys of those rows; the position, as ``row``, where there is no key."""
    keys = manifest.keys if manifest.keys is not None else pa.table({"row": np.arange(manifest.n)})
    return keys.take(pa.array(kept_rows(manifest)))


TAKEN_BY = {
    "vertex": "predefined_split_column_name='split'",
    "databricks": "split_col='split'",
    "bigquery": "DATA_SPLIT_METHOD='CUSTOM', DATA_SPLIT_COL='split', with NUM_TRIALS",
}
COLUMN = "split"


def with_words(to: str, manifest: Manifest, data: Any, repeat: int) -> tuple[pa.Table, str]:
    """Return the keys, or the data, with a column ``split`` of the words that ``to`` knows, and how it is taken."""
    parts = parts_of(manifest, to)
    table, of_rows = kept_keys(manifest), parts[kept_rows(manifest)]
    if data is not None:
        table = read_table(data, types=manifest.spec.types)
        table = table.take(pa.array(manifest.positions(table)[kept_rows(manifest)]))
    if COLUMN in table.column_names:
        raise SplitError(f"the data have a column {COLUMN!r} already; rename it, or export without the data.")
    words = dict(zip(PARTS, WORDS[to], strict=True))
    texts = pa.array([words.get(part) for part in of_rows.tolist()], pa.string())
    left = int(texts.null_count)
    without = f" {amount(left, 'row')} in no part left out." if left else ""
    table = table.append_column(COLUMN, texts).filter(texts.is_valid())
    return table, f"{to} takes {TAKEN_BY[to]}.{without} Lost: strategy, seed and every fold but this one."


def parts_of(manifest: Manifest, to: str) -> NDArray[np.object_]:
    """Return train, validation, test or None of each row in key order; SplitError where the manifest holds more."""
    labels = labels_of(manifest, to)
    if labels.n_splits != 1:
        raise SplitError(
            f"{to} takes one split into training, validation and test, and {manifest.name} {manifest.version} tests "
            f"{labels.n_splits:,} {labels.unit}s; split with parts (HashSplit, BalancedGroupSplit), or take "
            "train_test(frame, fold)."
        )
    code_of = dict(labels.parts)
    if not code_of or not set(code_of) <= set(PARTS):  # parts of no such names are what their codes mean
        tested = "validation" if labels.locked.size else "test"
        code_of = {"train": NEVER_TESTED, tested: labels.tested[0]} | ({"test": LOCKED} if labels.locked.size else {})
    codes, parts = labels.column(), np.full(labels.n, None, dtype=object)
    for part, code in code_of.items():
        parts[codes == code] = part
    return parts


def codes_of_words(table: pa.Table, key: list[str], column: str) -> pa.Array | None:
    """Return the codes of a column that says training, validation or test in known words; None where it is no text.

    Known are Vertex AI's, Databricks' and BigQuery's words, ``valid``, ``val`` and ``dev``, in any case. Raises
    SplitError for any other word.
    """
    if infer_type(table.column(column).type, column) != "text":
        return None
    words = table.column(column).to_pylist()
    unknown = sorted({word for word in words if word is not None and word.lower() not in PART_OF})
    if unknown:
        raise SplitError(f"column {column!r} holds {listed(unknown)}; known are {listed(PART_OF, most=len(PART_OF))}.")
    parts = [None if word is None else PART_OF[word.lower()] for word in words]
    _tell_shared(table, key, column, parts)
    codes = {"train": NEVER_TESTED, "validation": 0, "test": LOCKED if "validation" in parts else 0, None: EXCLUDED}
    return pa.array([codes[part] for part in parts], pa.int64())


def _tell_shared(table: pa.Table, key: list[str], column: str, parts: list[str | None]) -> None:
    """Say where a column of the key has values in several parts: what is learnt in one is known in another.

    Of a key of several columns it may be by design, and is a warning; a key of one column is refused by it.
    """
    for name in [name for name in key if name != column and name in table.column_names]:
        places: dict[Any, set[str]] = {}
        for value, part in zip(table.column(name).to_pylist(), parts, strict=True):
            places.setdefault(value, set()).update([part] if part else [])
        both = Counter(" and in ".join(p for p in PARTS if p in among) for among in places.values() if len(among) > 1)
        for where, n in sorted(both.items()):
            shared = (
                f"{amount(n, 'value')} of {name} {verb(n, 'is', 'are')} in {where}: what is learnt in one part is "
                f"known in the other. Leave these rows out of one, or split anew with group {name!r}."
            )
            if len(key) == 1:
                raise SplitError(shared)
            logging.getLogger("evenfold").warning("%s", shared)


def for_torch(manifest: Manifest, data: Any, repeat: int) -> tuple[str, str]:
    """Return a list of {"train": positions, "val": positions} as JSON, and what is lost."""
    require_data(data, "torch")
    position = manifest.positions(read_table(data, types=manifest.spec.types))
    splits = [
        {"train": np.sort(position[train]).tolist(), "val": np.sort(position[test]).tolist()}
        | ({"calibration": np.sort(position[apart]).tolist()} if manifest.spec.calibration else {})
        for train, test, apart in sides(manifest, data)
    ]
    n = manifest.in_use.locked.size
    lock = f", and the lock of {amount(n, 'row')}, which {verb(n, 'is', 'are')} on no side" if n else ""
    lost = f"Lost: keys, strategy and seed{lock}; the positions hold for this order of rows alone."
    return json.dumps(splits), f"Subset(dataset, split['train']) takes them, in Lightning's data modules too. {lost}"


def pairs_in(splits: Any, n: int) -> list[Pair]:
    """Return the (train, test) of each split of ``n`` rows; SplitError for what is none, and positions that lack."""
    try:
        pairs = [(_side(pair, ("train",), 0), _side(pair, ("val", "validation", "test"), 1)) for pair in splits]
    except (TypeError, ValueError, KeyError, IndexError, OverflowError):
        raise SplitError("the splits are no list of (train, test) positions; give one.") from None
    if not pairs:
        raise SplitError("there are 0 splits; at least 1 is needed.")
    for i, (train, test) in enumerate(pairs):
        pairs[i] = valid_pair(train, test, n, f"split {i}")
        # On the training side a row may be drawn several times; tested twice it would count as two.
        places, times = np.unique(pairs[i][1], return_counts=True)
        if (times > 1).any():
            twice = f"split {i} tests row {places[times > 1][0]:,} {times.max()} times"
            raise SplitError(f"{twice}; name each test row once.")
    return pairs


def _side(pair: Any, names: Sequence[str], place: int) -> Any:
    sides = [name for name in names if name in pair] if isinstance(pair, Mapping) else [place]
    side = np.asarray(pair[sides[0]])
    if side.ndim != 1 or (side.size and side.dtype.kind not in "biu"):
        raise ValueError("no positions")
    return side
