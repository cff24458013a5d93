"""The one place where keys are made (as they are, or a pseudonym of them), and looked up; and rows that wait."""

from __future__ import annotations

import hashlib
import hmac
import os
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cached_property, lru_cache
from typing import Any, Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from evenfold.manifests.spec import ROW_KEY, SplitSpec
from evenfold.splitters import SplitError
from evenfold.splitters.errors import amount, shown, verb
from evenfold.splitters.kernels import places_in
from evenfold.splitters.numbers import canonical_json as canonical_json, digest_json as digest_json
from evenfold.splitters.times import ends_of, gap_of, times_of
from numpy.typing import NDArray

from .canonical import (
    PSEUDONYM,
    STRETCH,
    canonical_table,
    column_types,
    is_pseudonym,
    key_order,
    require_keys,
    to_numpy,
    whole,
)

WhichRows = Literal["all", "known"]


def _secret(spec: SplitSpec) -> bytes:
    """Return the secret that keys are encoded with; SplitError where its variable is not set."""
    assert spec.key_encoding is not None
    value = os.environ.get(spec.key_encoding.secret)
    if not value:
        raise SplitError(
            f"keys are encoded with the secret in {spec.key_encoding.secret}, and it is not set; set it and try again."
        )
    return value.encode()


def _digests(spec: SplitSpec, rows: Iterable[list[Any]]) -> Iterator[bytes]:
    secret = _secret(spec)
    return (hmac.digest(secret, canonical_json(values).encode(), "sha256") for values in rows)


@lru_cache(maxsize=16)
def _slow(secret: bytes, salt: bytes) -> str:
    return hashlib.scrypt(secret, salt=salt, n=1 << 15, r=8, p=1, maxmem=1 << 26, dklen=16).hex()


def pseudonyms(column: pa.ChunkedArray, spec: SplitSpec) -> pa.Array:
    """Return the pseudonym of each value of a canonical column, as text; a value that is missing stays so.

    5, 5.0 and "5" have one, for a column may be read as numbers today and as text tomorrow.
    """
    encoded = whole(column).dictionary_encode()
    values, digits = encoded.dictionary.to_pylist(), (spec.key_encoding.bits if spec.key_encoding else 64) // 4
    texts = ([str(int(each)) if isinstance(each, float) and each.is_integer() else str(each)] for each in values)
    names = [digest.hex()[:digits] for digest in _digests(spec, texts)]
    return pa.array(names, pa.large_string()).take(encoded.indices)


def with_keys(table: pa.Table, spec: SplitSpec, types: Mapping[str, str]) -> tuple[SplitSpec, dict[str, str], pa.Table]:
    """Return specification, types and table, with pseudonyms in place of encoded columns.

    Keys become ``row_key``: 64 bits of HMAC-SHA256(secret, key) as a signed integer, or 128 as text. ``types``: of the
    manifest, which remember what is encoded, and by a check value with which secret, another of which is a SplitError;
    empty where it is decided now: then the specification gets the types of the keys, which must always be read alike.
    """
    if not spec.key_encoding:
        return spec, dict(types), table
    key, kinds = spec.columns.key, column_types(table)
    # It tells one secret from another, is slow to guess by, and of no other name.
    check = _slow(_secret(spec), f"evenfold key check 2/{spec.name}".encode())
    pseudonym = f"{PSEUDONYM}{spec.key_encoding.bits}:2-{check}"
    if {kind for kind in types.values() if is_pseudonym(kind)} - {pseudonym}:
        what = f"the secret in {spec.key_encoding.secret} is not the one that the manifest's keys were made with"
        raise SplitError(f"{what}; set the right one.")
    # A manifest's types know best what is encoded.
    wanted = [name for name, kind in types.items() if is_pseudonym(kind)] if types else spec.pseudonyms()
    encoded = {name: pseudonyms(table.column(name), spec) for name in wanted if name in table.column_names}
    if key:
        require_keys(table, key)
        rows = zip(*(table.column(name).to_pylist() for name in key), strict=True)
        texts = ([value if isinstance(value, (str, int, float)) else str(value) for value in row] for row in rows)
        if spec.key_encoding.bits == 64:
            numbers = (int.from_bytes(digest[:8], "big", signed=True) for digest in _digests(spec, texts))
            encoded[ROW_KEY] = pa.array(numbers, pa.int64())
        else:
            encoded[ROW_KEY] = pa.array((digest[:16].hex() for digest in _digests(spec, texts)), pa.large_string())
    table = table.drop_columns([name for name in table.column_names if name in (*key, *encoded)])
    for name, column in encoded.items():
        table = table.append_column(name, column)
    if not types:
        spec = spec.model_copy(update={"types": spec.types | {name: kinds[name] for name in key}})
        types = column_types(table) | dict.fromkeys(encoded, pseudonym)
    return spec, dict(types), table


def key_table(table: pa.Table, spec: SplitSpec, types: Mapping[str, str]) -> pa.Table:
    """Return the keys of ``table`` as the manifest holds them; SplitError where a key column is absent."""
    plain = canonical_table(table, spec.columns.key, {**types, **spec.types})
    return with_keys(plain, spec, types)[2].select(spec.key_names)


def beside_keys(keys: pa.Table, table: pa.Table) -> pa.Table:
    """Return a table with the key of each row in front; a key called as a column, ``y`` say, becomes ``key_y``."""
    names = list(keys.column_names)
    for place, key in enumerate(keys.column_names):
        while names[place] in table.column_names or (names[place] != key and names[place] in keys.column_names):
            names[place] = f"key_{names[place]}"
    columns = [*keys.columns, *table.columns]
    return pa.table(columns, names=[*names, *table.column_names], metadata=table.schema.metadata)


def key_values(keys: pa.Table) -> NDArray[Any]:
    """Return one value per row that a strategy reads as the key; several columns are joined by '|'."""
    if keys.num_columns == 1:
        return np.asarray(keys.column(0).to_numpy())
    parts = [column.to_numpy().astype(str) for column in keys.columns]
    return np.array(["|".join(values) for values in zip(*parts, strict=True)], dtype=object)


def positions_in(keys: pa.Table, wanted: pa.Table) -> NDArray[np.int64]:
    """Return where each row of ``wanted`` stands in ``keys`` (same key columns, unique in ``keys``); -1 if nowhere.

    Ascending whole numbers by ``places_in``; others by a hash table of some 100 bytes a key. O(keys + wanted).
    """
    if keys.num_columns == 1:
        ours, theirs = whole(keys.column(0)), whole(wanted.column(0))
    else:
        codes: NDArray[Any] = np.zeros(keys.num_rows + wanted.num_rows, dtype=np.int64)
        for column, looked_up in zip(keys.columns, wanted.columns, strict=True):
            both = pa.concat_arrays([whole(column), whole(looked_up)]).dictionary_encode(null_encoding="encode")
            codes = codes * len(both.dictionary) + both.indices.to_numpy(zero_copy_only=False)
            # Numbering anew keeps the product of many columns from overflowing.
            codes = np.unique(codes, return_inverse=True)[1].reshape(-1)
        ours, theirs = pa.array(codes[: keys.num_rows]), pa.array(codes[keys.num_rows :])
    if ours.type == theirs.type == pa.int64() and len(ours) and not ours.null_count + theirs.null_count:
        ordered = ours.to_numpy()
        if (ordered[1:] > ordered[:-1]).all():
            return places_in(ordered, theirs.to_numpy())
    positions = pc.index_in(theirs, value_set=ours)
    return np.asarray(positions.fill_null(-1).to_numpy(zero_copy_only=False), dtype=np.int64)


class Lookup:
    """The places among the known ``keys`` of rows that are looked up by theirs, or by position where there is no key.

    ``rank`` is the place among the known rows of each row of ``wanted``, -1 where it has none: such a row ``waits``, or
    is ``unknown``. ``optional`` known rows may be absent. SplitError where positions are not as many.
    """

    def __init__(
        self, keys: pa.Table | None, wanted: pa.Table, optional: NDArray[np.int64], n_known: int,
        waiting: pa.Table | None,
    ) -> None:  # fmt: skip
        self.keys, self.wanted, self.optional, self.n_known = keys, wanted, optional, n_known
        if keys is None and wanted.num_rows != n_known:
            raise SplitError(
                f"the manifest holds {n_known:,} rows by position (it has no key column) and the data have "
                f"{wanted.num_rows:,}; pass the same rows in the same order, or split with a key."
            )
        same = keys is None or wanted.equals(keys)
        self.rank = np.arange(n_known) if same else positions_in(keys, wanted)
        self.waits = np.zeros(self.rank.size, dtype=np.bool_)
        if keys is not None and waiting is not None:
            self.waits = (positions_in(waiting, wanted) >= 0) & (self.rank < 0)
        self.unknown = (self.rank < 0) & ~self.waits

    @cached_property
    def row(self) -> NDArray[np.int64]:
        """The looked-up row that each known row is, -1 where there is none."""
        rows = np.full(self.n_known, -1, dtype=np.int64)
        for start in range(0, self.rank.size, STRETCH):
            part = self.rank[start : start + STRETCH]
            present = np.flatnonzero(part >= 0)
            rows[part[present]] = present + start
        return rows

    def exact_rows(self, rows: WhichRows = "all") -> NDArray[np.int64]:
        """Return ``row``; SplitError where a row is unknown, repeated, without a key, or one that is needed absent.

        ``rows="known"`` leaves out what is unknown or absent, and warns how many rows that are.
        """
        absent = self.row < 0
        absent[self.optional] = False
        # Two rows of one key have one rank, and `row` keeps one of them: then more rows are known than ranks are taken.
        repeated = self.rank.size - np.count_nonzero(self.rank < 0) > np.count_nonzero(self.row >= 0)
        if self.keys is not None and (absent.any() or repeated or self.unknown.any()):
            key_order(self.wanted, self.wanted.column_names)  # says what is wrong with the keys themselves
            sides = [(self.wanted.filter(self.unknown), "", "has no fold", "have no fold")]
            sides += [(self.keys.filter(absent), " of the manifest", "is not in the data", "are not in the data")]
            odd = []
            for side, of, one, several in sides:
                for first in side.sort_by([(name, "ascending") for name in side.column_names]).slice(0, 1).to_pylist():
                    n, key = side.num_rows, ", ".join(map(shown, first.values()))
                    odd.append(f"{amount(n, 'row')}{of} {verb(n, one, several)} (first key {key})")
            if rows == "known":
                warnings.warn(f"{' and '.join(odd)}; left out.", stacklevel=4)
                return self.row
            raise SplitError(
                f"{' and '.join(odd)}; use the data that were split, several files together, or extend the manifest; "
                "evaluate, load_split, as_cv and fold_of take what both hold by rows='known' (--rows known)."
            )
        return self.row


def label_ends(spec: SplitSpec, column: Callable[[str], pa.ChunkedArray]) -> NDArray[Any] | None:
    """Return when the target of each row is known; None where the specification does not say it.

    ``column`` returns a canonical column by name. SplitError where one has holes, and for an end before its time.
    """
    columns = spec.columns
    if not spec.says_when_known or columns.time is None:
        return None
    names = [name for name in (columns.time, columns.label_end) if name]  # they may be one
    plain = pa.table([column(name) for name in names], names=names)
    spec.require_complete(plain)
    times, *ends = map(to_numpy, plain.columns)
    times = times_of(times, columns.time)
    return ends_of(ends[0], times) if ends else np.asarray(times + gap_of(spec.label_horizon, times, "label_horizon"))


def waiting_rows(table: pa.Table, spec: SplitSpec, types: Mapping[str, str]) -> NDArray[np.bool_]:
    """Return which rows wait, as specified: those without a target, or with one known after the latest time only."""
    columns, waits = spec.columns, np.zeros(table.num_rows, dtype=np.bool_)
    if spec.missing_target == "wait" and columns.target is not None:
        waits |= table.column(columns.target).is_null(nan_is_null=True).to_numpy()
    if spec.on_immature == "use" or columns.time is None:
        return waits
    names = [name for name in (columns.time, columns.label_end) if name and spec.says_when_known]
    plain = canonical_table(table, names, types)
    ends = label_ends(spec, plain.column)
    return waits if ends is None else waits | (ends > times_of(to_numpy(plain.column(0)), columns.time).max())


def matured(
    table: pa.Table, spec: SplitSpec, types: Mapping[str, str], keys: pa.Table | None
) -> tuple[pa.Table, pa.Table | None]:
    """Return the rows of a table that can be split, and those that wait; None where none does.

    Rows of ``keys`` wait no more. SplitError where rows wait that no key names, and where no row is left.
    """
    waits = waiting_rows(table, spec, types)
    if keys is not None and waits.any():
        # A row that has a fold keeps it, though its target is lost again.
        waits[positions_in(keys, key_table(table, spec, types)) >= 0] = False
    if not waits.any():
        return table, None
    n = int(np.count_nonzero(waits))
    reason = f"{n:,} of {table.num_rows:,} rows wait for their target"
    keep = "" if spec.missing_target == "wait" else ", or say on_immature: use"
    if not spec.columns.key:
        why = "rows can wait only where a key names them"
        raise SplitError(f"{reason}, and {why}: name a key (--key), or drop those rows{keep}.")
    if n > table.num_rows - 2:
        mend = "fill the target, or correct the label_end or label_horizon"
        raise SplitError(f"{reason}, and at least 2 must be left; {mend}{keep}.")
    return table.filter(pa.array(~waits)), table.filter(pa.array(waits))
