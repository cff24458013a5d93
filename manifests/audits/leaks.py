"""Checks of what may leak from train to test: groups, repeated rows, keys that are nearly equal, times."""

from __future__ import annotations

import unicodedata
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from evenfold.manifests.joined import Joined
from evenfold.manifests.tables.canonical import amount, canonical_table, listed, to_numpy, verb
from evenfold.manifests.tables.keys import positions_in
from evenfold.splitters.deployed import shown
from evenfold.splitters.times import gap_of, times_of
from numpy.typing import NDArray

from .crossings import crossings, where
from .features import Features
from .findings import Found, NotAsked, Outcome
from .unnamed.near_duplicates import happen_by_chance
from .unnamed.sample import column_of


def group_in_two_folds(joined: Joined) -> Outcome:
    """Look for groups on both sides of a split."""
    name = joined.columns.group
    if name is None:
        return NotAsked("no group column is named")
    split, rows, places = joined.crossing_groups(name)
    if not rows:
        return None
    groups = joined.levels(name)
    named = listed((shown(groups[code]) for code in split), most=3)
    ours = name == joined.manifest.spec.columns.group
    remedy = "run extend, which quarantines them" if ours else f"split by group {name!r}"
    message = (
        f"{amount(split.size, 'group')} of {name!r} ({named}) {verb(split.size, 'has', 'have')} rows {joined.apart}: "
        f"{amount(rows, 'row')} in {where(places)}{joined.looked_at}; {remedy}."
    )
    return Found(split.size, message, {"rows": rows, "folds": places})


def constant_groups(joined: Joined) -> Outcome:
    """Look for groups that say nothing: every row its own, or all rows one."""
    name = joined.columns.group
    if name is None:
        return NotAsked("no group column is named")
    groups = len(joined.levels(name))
    if 1 < groups < joined.n:
        return None
    what = "every row is its own group" if groups > 1 else f"all {joined.n:,} rows are one group"
    return Found(1, f"{what} in {name!r}, so groups keep nothing together; name another column.", {"groups": groups})


def duplicate_rows(joined: Joined, features: Features) -> Outcome:
    """Look for rows whose features stand on the other side of a split too, target and key aside.

    The figure is 0 where features of few values repeat by chance: then at least as many pairs of rows differ in one
    feature as in none. At most 200,000 rows are compared for that.
    """
    ranked = np.sort(features.hashes)
    repeated = np.unique(ranked[1:][ranked[1:] == ranked[:-1]])
    if not repeated.size:
        return None
    place = np.minimum(np.searchsorted(repeated, features.hashes), repeated.size - 1)
    found = crossings(joined, np.where(repeated[place] == features.hashes, place, -1))
    if not found.count:
        return None
    share, places = found.count / joined.n, found.places
    if happen_by_chance([column_of(name, features.sample.column(name)) for name in features.sample.column_names]):
        said = f"{amount(found.count, 'row')} ({share:.1%}) {verb(found.count, 'has', 'have')} the features of another"
        why = "as many pairs of rows differ in a single feature, so features of so few values repeat by chance"
        return Found(0, f"{said}; {why}.", {"share": share, "folds": places})
    message = (
        f"{amount(found.count, 'row')} ({share:.1%}) {verb(found.count, 'has', 'have')} exactly "
        f"the features of a row on the other side of a split ({listed(features.sample.column_names, most=4)}), in "
        f"{found.where()}; drop the repeats, or keep them together as a group."
    )
    return Found(found.count, message, {"share": share, "folds": places})


def similar_keys(joined: Joined) -> Outcome:
    """Look for keys that are equal after trimming, case-folding and NFKC. Rows are named by position, not by key."""
    spec = joined.manifest.spec
    keys = None if joined.keys is None else canonical_table(joined.keys, spec.columns.key, joined.manifest.types)
    if keys is None or not any(pa.types.is_large_string(column.type) for column in keys.columns):
        return NotAsked("no key column holds text")
    plain, similar = (_numbered(table) for table in (keys, _normalized(keys)))
    # Rows of one key are a repeated key, which is another check's finding: of each key the first row is enough.
    first = np.full(joined.n, -1, dtype=np.int64)
    own = np.unique(plain, return_index=True)[1]
    first[own] = similar[own]
    rows = np.flatnonzero(np.bincount(first[own])[first] * (first >= 0) > 1)
    if not rows.size:
        return None
    crossing = crossings(joined, first)
    twin = int(np.flatnonzero(first == first[rows[0]])[1])
    message = (
        f"{amount(rows.size, 'row')} have a key that is equal to another's after trimming, case-folding and NFKC (first"
        f": rows {rows[0]} and {twin}), and {crossing.count:,} of them lie apart from it; correct the keys if they mean"
        " the same."
    )
    return Found(rows.size, message, {"apart": crossing.count, "folds": crossing.places})


def _numbered(keys: pa.Table) -> NDArray[np.int64]:
    """Return a number for each row, the same for equal keys: the place of the first of them."""
    if keys.num_columns == 1:
        codes = keys.column(0).combine_chunks().dictionary_encode(null_encoding="encode").indices
        return np.asarray(codes.to_numpy(zero_copy_only=False), dtype=np.int64)
    return positions_in(keys, keys)


def _normalized(keys: pa.Table) -> pa.Table:
    made = {name: column.combine_chunks() for name, column in zip(keys.column_names, keys.columns, strict=True)}
    text = {name: _normal_text(column) for name, column in made.items() if pa.types.is_large_string(column.type)}
    return pa.table(made | text)


def _normal_text(column: pa.Array) -> pa.Array:
    ascii_ = pc.fill_null(pc.string_is_ascii(column), True)
    simple = pc.utf8_lower(pc.utf8_trim_whitespace(column))
    if pc.all(ascii_).as_py():
        return simple
    # Beyond ASCII case-folding is more than lower case, and Arrow has none.
    other = column.filter(pc.invert(ascii_))
    return pc.replace_with_mask(simple, pc.invert(ascii_), pa.array(map(_folded, other.to_pylist()), column.type))


def _folded(text: str) -> str:
    return unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", text).casefold()).strip()


def time_overlap(joined: Joined, asked: bool) -> Outcome:
    """Look for training rows that are not before every tested time, the gap in between."""
    name, made = joined.columns.time, joined.manifest.splitter
    if name is None:
        return NotAsked("no time column is named")
    if not asked and "past_before_future" not in made.promises:
        return NotAsked(f"{joined.manifest.spec.strategy} does not promise to train on the past alone")
    times = times_of(to_numpy(joined.column(name)), name)
    gap = gap_of(made.get_params(deep=False).get("gap", 0), times)
    late = [_late(times, gap, train, test) for train, test in joined.splits()]
    if not any(late):
        return None
    splits = [i for i, count in enumerate(late) if count]
    message = (
        f"{amount(sum(late), 'training row')} of {amount(len(splits), 'split')} ({listed(splits)}) are not before "
        f"every tested {name!r}{f' with the gap of {made.gap}' if gap else ''}{joined.looked_at}; split again by time."
    )
    return Found(sum(late), message, {"splits": {str(i): late[i] for i in splits}})


def _late(times: NDArray[Any], gap: Any, train: NDArray[np.int64], test: NDArray[np.int64]) -> int:
    return int(np.count_nonzero(times[train] + gap >= times[test].min())) if train.size and test.size else 0
