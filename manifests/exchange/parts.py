"""One split into training, validation and test as a column of three words, both ways."""

from __future__ import annotations

import logging
from collections import Counter
from typing import Any

import numpy as np
import pyarrow as pa
from evenfold.manifests.attributes import PART_OF, PARTS, WORDS
from evenfold.manifests.manifest import Manifest
from evenfold.manifests.membership import EXCLUDED, LOCKED, NEVER_TESTED, Labels
from evenfold.manifests.tables.canonical import amount, infer_type, listed, verb
from evenfold.manifests.tables.read import read_table
from evenfold.splitters import SplitError
from numpy.typing import NDArray

from .kept import kept_keys, kept_rows, labels_of

TAKEN_BY = {
    "vertex": "predefined_split_column_name='split'",
    "databricks": "split_col='split'",
    "bigquery": "DATA_SPLIT_METHOD='CUSTOM', DATA_SPLIT_COL='split', with NUM_TRIALS",
}
COLUMN = "split"


def with_words(manifest: Manifest, data: Any, to: str) -> tuple[pa.Table, str]:
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
    codes, parts = labels.column(), np.full(labels.n, None, dtype=object)
    for part, code in _codes(labels).items():
        parts[codes == code] = part
    return parts


def _codes(labels: Labels) -> dict[str, int]:
    """Return the code of each of the three parts: by name where they are named, else by what the code means."""
    if labels.parts and set(labels.parts) <= set(PARTS):
        return dict(labels.parts)
    tested = "validation" if labels.locked.size else "test"
    return {"train": NEVER_TESTED, tested: labels.tested[0]} | ({"test": LOCKED} if labels.locked.size else {})


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
