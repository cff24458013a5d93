"""The one place where a container's columns become canonical: same values, same bytes, whatever held them."""

from __future__ import annotations

import hashlib
import mmap
import re
import unicodedata
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from datetime import date, datetime
from typing import Any, Literal
from weakref import WeakValueDictionary

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from evenfold.splitters import SplitError
from evenfold.splitters.errors import amount as amount, listed as listed, meant, reason_of, shown, verb as verb
from evenfold.splitters.numbers import Coded, digest_json, first_rows, require_present, stable_order
from numpy.typing import NDArray

ColumnType = Literal["int", "float", "text", "bool", "timestamp", "date"]

ARROW_TYPES: dict[str, pa.DataType] = {
    "int": pa.int64(), "float": pa.float64(), "text": pa.large_string(), "bool": pa.bool_(),
    "timestamp": pa.timestamp("us", "UTC"), "date": pa.date32(),
}  # fmt: skip
TYPE_NAMES = {arrow: name for name, arrow in ARROW_TYPES.items()}

# What pandas calls an index without a name. It is no column: a row number would be a feature, and a leak.
INDEX = re.compile(r"__index_level_\d+__")

# What a type can be made of besides itself: only where the result depends on no unit and no format.
MADE_OF: dict[str, set[str]] = {
    "int": {"float", "bool", "text"}, "float": {"int", "bool", "text"}, "text": {"int", "date"},
    "bool": {"int", "text"}, "timestamp": {"date", "text"}, "date": {"timestamp", "text"},
}  # fmt: skip

KINDS: tuple[tuple[Callable[[pa.DataType], bool], str], ...] = (
    (pa.types.is_boolean, "bool"), (pa.types.is_integer, "int"), (pa.types.is_floating, "float"),
    (pa.types.is_decimal, "float"), (pa.types.is_timestamp, "timestamp"), (pa.types.is_date, "date"),
    (pa.types.is_string, "text"), (pa.types.is_large_string, "text"), (pa.types.is_string_view, "text"),
)  # fmt: skip


def canonical_table(table: pa.Table, columns: Iterable[str], types: Mapping[str, str]) -> pa.Table:
    """Return ``columns`` of ``table`` in the types of ``types``, else in those that they have, one chunk each.

    int64, float64 (-0.0 becomes 0.0, NaN is missing; float32 its exact float64, decimals the nearest), text in
    Unicode's NFC form, bool, UTC microseconds (a time without zone is UTC), dates. SplitError where a column is absent
    (with the nearest names) or does not fit its type.
    """
    names = list(dict.fromkeys(columns))
    require_columns(names, table.column_names)
    # A manifest's type of an encoded column says what became of it, not what it is made of.
    declared = {name: kind for name, kind in types.items() if not is_pseudonym(kind)}
    return pa.table({name: _canonical(table.column(name), declared.get(name), name) for name in names})


PSEUDONYM = "hmac-sha256-"


def is_pseudonym(kind: str) -> bool:
    """Return whether a manifest's type of a column says that its values are pseudonyms."""
    return kind.startswith(PSEUDONYM)


def column_types(table: pa.Table) -> dict[str, str]:
    """Return the type name of each column of a canonical table."""
    return {field.name: TYPE_NAMES[field.type] for field in table.schema}


def require_columns(names: Iterable[str], available: Collection[str]) -> None:
    """Raise SplitError where a name is not among the available ones, with the nearest that are, or there twice."""
    for name in names:
        if list(available).count(name) > 1:
            raise SplitError(f"{list(available).count(name)} columns are called {name!r}; give each a name of its own.")
        if name not in available:
            near = meant(name, available, most=3, cutoff=0.5, show=repr)
            hint = near or f"it has {listed(sorted(available), most=12)}."
            raise SplitError(f"there is no column {name!r} in the data; {hint}")


def one_schema(files: Sequence[Any], schemas: Sequence[pa.Schema]) -> pa.Schema:
    """Return the schema of all files; SplitError where they differ in columns, ArrowTypeError where types fit not."""
    for file, schema in zip(files[1:], schemas[1:], strict=True):
        odd = sorted(name for name in {*schema.names} ^ {*schemas[0].names} if not INDEX.fullmatch(name))
        if odd:
            raise SplitError(f"{files[0]} and {file} differ in columns ({', '.join(odd[:5])}); give both the same.")
    return schemas[0] if len(schemas) == 1 else pa.unify_schemas(schemas, promote_options="permissive")


def infer_type(arrow: pa.DataType, name: str) -> str:
    """Return the type name that an Arrow type stands for; raises SplitError for one that has none."""
    if pa.types.is_dictionary(arrow):
        return infer_type(arrow.value_type, name)
    for test, kind in KINDS:
        if test(arrow):
            return kind
    what = f"is of type {arrow}; cast it to an integer, float, text, bool, timestamp or date"
    if pa.types.is_null(arrow):
        what = "has no value in any row that was read; drop it, fill it or declare its type"
    raise SplitError(f"column {name!r} {what}.")


def _canonical(column: pa.ChunkedArray, declared: str | None, name: str) -> pa.Array:
    if pa.types.is_dictionary(column.type):
        # A dictionary's codes depend on what wrote it; its values do not.
        column = column.cast(column.type.value_type)
    if declared and pa.types.is_null(column.type):
        return pa.nulls(len(column), ARROW_TYPES[declared])
    kind = infer_type(column.type, name)
    wanted = declared or kind
    if wanted != kind and kind not in MADE_OF[wanted]:
        why = f"is declared {wanted} and holds {kind} values; declare it {kind}, or cast it first"
        raise SplitError(f"column {name!r} {why}.")
    try:
        array = whole(_cast(column, kind, wanted))
    except pa.ArrowException as error:
        origin = "declared" if declared else "read as"
        why = f"is {origin} {wanted} and holds something else ({reason_of(error)}); correct it"
        if pa.types.is_uint64(column.type):
            why = f"holds whole numbers of 2^63 and more; keep them as text (types: {{{name}: text}})"
        raise SplitError(f"column {name!r} {why}.") from None
    if wanted == "float":
        # Adding 0.0 turns -0.0 into 0.0.
        return pc.if_else(pc.is_nan(array), pa.scalar(None, array.type), pc.add(array, 0.0))
    return array if wanted != "text" else _composed(array)


def _cast(column: pa.ChunkedArray, kind: str, wanted: str) -> pa.ChunkedArray:
    if "timestamp" not in (kind, wanted):
        # As text only 0 and 1 are booleans; as a number anything is.
        plain = column.cast(pa.large_string()) if (kind, wanted) == ("int", "bool") else column
        return plain.cast(ARROW_TYPES[wanted])
    if kind == "text":
        try:
            return column.cast(ARROW_TYPES["timestamp"])
        except pa.ArrowInvalid:
            column = column.cast(pa.timestamp("us"))  # without zones
    # Nanoseconds are cut to microseconds on purpose; two keys that become equal are found by the unique check.
    cut = pa.types.is_timestamp(column.type) and column.type.unit == "ns"  # of coarser ones an overflow is an error
    local = column.cast(pa.timestamp("us", getattr(column.type, "tz", None)), safe=not cut)
    moments = local.cast(ARROW_TYPES["timestamp"])
    if wanted == "timestamp":
        return moments
    days = moments.cast(ARROW_TYPES["date"])
    # Arrow drops the time of day in silence, so the cast is undone and compared.
    if not pc.all(pc.equal(days.cast(moments.type), moments)).as_py():
        raise pa.ArrowInvalid("a time of day")
    return days


COMBINING = 0xCC  # the first byte of U+0300 in UTF-8: of smaller bytes all characters are in normal form


def _bytes_of(text: pa.Array) -> NDArray[np.uint8]:
    _, ends, content = text.buffers()
    first, last = np.frombuffer(ends, dtype=np.int64)[[text.offset, text.offset + len(text)]]
    return np.frombuffer(content or b"", dtype=np.uint8)[first:last]


def _composed(text: pa.Array) -> pa.Array:
    """Return text in Unicode's NFC form, by Python: Arrow's own NFC takes characters apart (seen in version 25)."""
    if not len(text) or _bytes_of(text).max(initial=0) < COMBINING:
        return text
    odd = pc.invert(pc.string_is_ascii(text)).fill_null(False)
    others = text.filter(odd)
    if unicodedata.is_normalized("NFC", str(_bytes_of(others).data, "utf-8")):
        return text  # a part of a text in normal form is in normal form
    values = [unicodedata.normalize("NFC", value) for value in others.to_pylist()]
    return pc.replace_with_mask(text, odd, pa.array(values, text.type))


def whole(column: pa.ChunkedArray | pa.Array) -> pa.Array:
    """Return a column as one array."""
    chunks = column.chunks if isinstance(column, pa.ChunkedArray) else [column]
    return chunks[0] if len(chunks) == 1 else column.combine_chunks()  # which copies a single chunk as well


STRETCH = 1 << 20
MAPPED = WeakValueDictionary[int, mmap.mmap]()  # the files that columns lie in, by the address where they are mapped


def stretches(column: pa.ChunkedArray | pa.Array, rows: int = STRETCH) -> Iterator[pa.Array]:
    """Yield a column part by part; what was read of a mapped one is given back, and is there again when it is read."""
    array = whole(column)
    for start in range(0, len(array), rows):
        yield array.slice(start, rows)
        for buffer in filter(None, array.buffers()):
            if (file := MAPPED.get(buffer.address)) is not None:
                file.madvise(mmap.MADV_DONTNEED)


def to_numpy(column: pa.ChunkedArray | pa.Array) -> NDArray[Any]:
    """Return a canonical column as an array that a strategy reads; missing values stay visible as None or NaN."""
    return np.asarray(whole(column).to_numpy(zero_copy_only=False))


def coded(table: pa.Table) -> Coded:
    """Return canonical columns as codes by first appearance; a row without a value has one of its own, for None."""
    columns = []
    for codes, values in map(numbered, table.columns):
        columns.append((codes.astype(np.int64), values.to_pylist() if values.null_count else to_numpy(values).tolist()))
    if len(columns) == 1:
        return Coded(*columns[0])
    all_codes, levels = zip(*columns, strict=True)
    return Coded(np.column_stack(all_codes), [*levels], tuple(table.column_names))


def encoded(column: pa.ChunkedArray | pa.Array) -> tuple[NDArray[np.int64], pa.Array]:
    """Return a code per row by first appearance, -1 where its value is missing, and the values."""
    codes = whole(column).dictionary_encode()
    return codes.indices.fill_null(-1).to_numpy(zero_copy_only=False).astype(np.int64), codes.dictionary


def numbered(column: pa.ChunkedArray | pa.Array) -> tuple[NDArray[Any], pa.Array]:
    """Return a code per row by first appearance, and the values; each missing one is another, for nothing is known."""
    array = whole(column)
    from pandas import factorize

    if array.null_count:
        codes, values = encoded(array)
        codes[codes < 0] = len(values) + np.arange(array.null_count)
        codes, first = factorize(codes)
        return codes.astype(np.int32), pa.concat_arrays([values, pa.nulls(array.null_count, values.type)]).take(first)
    if pa.types.is_integer(array.type):  # 250 bytes less a value than Arrow's tables
        numbers, values = [np.empty(0, dtype=np.int32)], np.empty(0, dtype=np.int64)
        for part in stretches(array, max(4 * STRETCH, len(array) // 4)):  # after the values that have numbers already
            codes, values = factorize(np.concatenate([values, part]) if values.size else part.to_numpy())
            numbers.append(codes[-len(part) :].astype(np.int32))
        return np.concatenate(numbers), pa.array(values, array.type)
    codes = array.dictionary_encode()
    return codes.indices.to_numpy(zero_copy_only=False), codes.dictionary


def filled(array: pa.Array) -> pa.Array:
    """Return a canonical column with "", False or 0 where it misses a value."""
    zero: Any = "" if pa.types.is_large_string(array.type) else False if pa.types.is_boolean(array.type) else 0
    return array.fill_null(pa.scalar(zero, array.type))


def digest_column(column: pa.ChunkedArray | pa.Array) -> bytes:
    """Return the SHA-256 of a canonical column's bytes: little-endian numbers, text as lengths and UTF-8 bytes."""
    array = whole(column)
    digest = hashlib.sha256(f"{TYPE_NAMES[array.type]}|{len(array)}|".encode())
    if array.null_count:
        # Where values are missing comes before the values, for 0 and "" stand in their places.
        digest.update(np.packbits(array.is_null().to_numpy(zero_copy_only=False)).data)
        array = filled(array)
    if pa.types.is_large_string(array.type):
        for part in stretches(array):
            digest.update(pc.binary_length(part).to_numpy().data)
        for part in stretches(array):
            digest.update(_bytes_of(part).data)
    else:
        array = array.cast(pa.uint8()) if pa.types.is_boolean(array.type) else array
        for part in stretches(array.view(f"int{array.type.bit_width}")):
            digest.update(part.to_numpy().data)
    return digest.digest()


Digests = dict[str, Any]  # the number of "rows" of a table, and of its "columns" each one's type and digest


def digests_of(table: pa.Table) -> Digests:
    """Return how many rows a canonical table has, and the type and digest of each column: what names its content."""
    columns = {
        name: [TYPE_NAMES[table.column(name).type], digest_column(table.column(name)).hex()]
        for name in sorted(table.column_names)
    }
    return {"rows": table.num_rows, "columns": columns}


def digest_keys(keys: pa.Table | None, n: int) -> str:
    """Return the SHA-256 of the keys in key order; without keys the position is the key and the count is enough."""
    if keys is None:
        return digest_json({"positions": n})
    return digest_json([digest_column(keys.column(name)).hex() for name in keys.column_names])


def fingerprint(digests: Digests, waiting: pa.Table | None = None) -> str:
    """Return what names the content of a canonical table in key order, and the keys of rows that wait beside it.

    Another container, width of types, or order of columns or rows changes nothing; one other value or type does.
    """
    content = digest_json(digests)
    return content if waiting is None else digest_json([content, digest_keys(waiting, waiting.num_rows)])


def require_years(column: pa.ChunkedArray, name: str) -> None:
    """Raise SplitError for times that Python's own cannot say."""
    if pa.types.is_temporal(column.type):
        latest = pa.scalar(date.max if pa.types.is_date(column.type) else datetime.max, column.type)
        require_none(pc.greater(column, latest), name, "holds times beyond the year 9999", "correct those rows")


def require_none(odd: pa.ChunkedArray, name: str, what: str, mend: str) -> None:
    """Raise SplitError, which says ``what`` is wrong and how to ``mend`` it, where any row of a column is odd."""
    rows = np.flatnonzero(odd.fill_null(False).to_numpy())
    if rows.size:
        where = f"in {rows.size:,} of {len(odd):,} rows (first at {first_rows(rows)})"
        raise SplitError(f"column {name!r} {what} {where}; {mend} first.")


def require_keys(table: pa.Table, key: list[str]) -> None:
    """Raise SplitError where a key column of a canonical table has missing values, counting them."""
    for name in key:
        column = table.column(name)
        if column.null_count:
            require_present(to_numpy(column), f"key column {name!r}", "every row needs a key.")
        require_years(column, name)


def key_order(table: pa.Table, key: list[str]) -> NDArray[np.int64] | None:
    """Return the positions of the rows in ascending key order, or None where they are in order already.

    Numbers and times by value, text by UTF-8 bytes, columns in turn. SplitError where a key is missing or stands twice.
    """
    require_keys(table, key)
    keys = table.select(key)
    if _ascending(keys):
        return None
    if len(key) == 1 and not pa.types.is_large_string(keys.column(0).type):
        order = stable_order(to_numpy(keys.column(0)))  # several times faster than Arrow's
    else:
        order = np.asarray(pc.sort_indices(keys, [(name, "ascending") for name in key]).to_numpy(), dtype=np.int64)
    ordered = keys.take(order)
    if _ascending(ordered):
        return order
    same = [pc.equal(column[1:], column[:-1]) for column in map(whole, ordered.columns)]
    repeats = np.flatnonzero(np.logical_and.reduce(same))
    at = int(repeats[0])
    first = ", ".join(str(value) for value in ordered.slice(at, 1).to_pylist()[0].values())
    raise SplitError(
        f"key {'+'.join(key)} is not unique: {repeats.size:,} of {order.size:,} rows "
        f"{verb(repeats.size, 'repeats', 'repeat')} an earlier key "
        f"(first {shown(first)!r}, rows {min(order[at], order[at + 1])} and {max(order[at], order[at + 1])}); "
        "name a unique key, or several columns that are unique together."
    )


def _ascending(keys: pa.Table) -> bool:
    """Return whether keys are strictly ascending, looked at a stretch at a time: then nothing need be sorted."""
    for start in range(0, max(keys.num_rows - 1, 0), STRETCH):
        above, same = np.False_, np.True_
        for column in keys.columns:
            part = whole(column.slice(start, STRETCH + 1))
            part = part.cast(pa.int8()) if pa.types.is_boolean(part.type) else part
            above = above | same & pc.less(part[:-1], part[1:]).to_numpy(zero_copy_only=False)
            same = same & pc.equal(part[:-1], part[1:]).to_numpy(zero_copy_only=False)
        if not np.all(above):
            return False
    return True
