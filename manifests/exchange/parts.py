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
from evenfold.manifests.plan import Plan
from evenfold.manifests.tables.canonical import amount, listed
from evenfold.manifests.tables.read import read_table
from evenfold.splitters import SplitError
from numpy.typing import NDArray

from .kept import kept_keys, kept_rows, labels_of
from .load_folds import free_name

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


def import_parts(
    data: Any, key: str | list[str] | None, column: str = COLUMN, *, name: str = "imported", target: str | None = None
) -> Manifest:
    """Return a manifest of a column that says training, validation or test, in whichever of the known words.

    ``data`` is a file or a frame with the column. Known are Vertex AI's, Databricks' and BigQuery's words, ``valid``,
    ``val`` and ``dev``, in any case. Validation is tested and test is locked; where there is but one of them, it is
    tested. Rows without a word are in no part. Raises SplitError for any other word, and for parts that share a value
    of the key.
    """
    table = read_table(data)
    if column not in table.column_names:
        raise SplitError(f"the data have no column {column!r}; they have {listed(table.column_names)}.")
    words = table.column(column).to_pylist()
    unknown = sorted({str(word) for word in words if word is not None and str(word).lower() not in PART_OF})
    if unknown:
        raise SplitError(f"column {column!r} holds {listed(unknown)}; known are {listed(PART_OF, most=len(PART_OF))}.")
    parts = [None if word is None else PART_OF[str(word).lower()] for word in words]
    _require_apart(table, [key] if isinstance(key, str) else key or [], column, parts)
    codes = {"train": NEVER_TESTED, "validation": 0, "test": LOCKED if "validation" in parts else 0, None: EXCLUDED}
    folds = pa.array([codes[part] for part in parts], pa.int64())
    place = free_name(table.column_names)
    columns = {"key": key, "fold": place, "target": target}
    spec = {"name": name, "columns": columns, "strategy": "Predefined"}
    return Plan(spec, table.append_column(place, folds)).decide()


def _require_apart(table: pa.Table, key: list[str], column: str, parts: list[str | None]) -> None:
    """Raise SplitError where a value of the key is in several parts, whose rows then are no test of one another.

    The column of the parts tells no row apart. That a column which is part of a key shares values is told, for it may
    be by design.
    """
    names = [name for name in key if name != column and name in table.column_names]
    if len(names) < len({*key} - {column}):
        return  # which is said where the key is read
    if shared := _shared(table, names, parts):
        raise SplitError(f"{shared}; where {', '.join(names)} is no key, name one.")
    for name in names if len(names) > 1 else []:
        if shared := _shared(table, [name], parts):
            logging.getLogger("evenfold").warning("%s.", shared)


def _shared(table: pa.Table, names: list[str], parts: list[str | None]) -> str:
    held: dict[Any, set[str]] = {}
    for value, part in zip(zip(*(table.column(name).to_pylist() for name in names), strict=True), parts, strict=False):
        held.setdefault(value, set()).update([part] if part else [])
    both = Counter(tuple(part for part in PARTS if part in among) for among in held.values() if len(among) > 1)
    counts = [f"{amount(n, 'value')} of {', '.join(names)} {'is' if n == 1 else 'are'} in {' and in '.join(among)}"
              for among, n in sorted(both.items())]  # fmt: skip
    words = f"{'; '.join(counts)}: what is learnt in one part is known in the other. Leave these rows out of one, or "
    return f"{words}split anew with group {names[0]!r}" if both else ""
