"""Checks of what may leak from train to test: groups, repeated rows, keys that are nearly equal, times."""

from __future__ import annotations

import unicodedata
from dataclasses import dataclass
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

from .features import Features
from .findings import Found, NotAsked, Outcome


@dataclass(frozen=True, eq=False)
class Crossings:
    """The rows with another row of their unit on the other side of a split, and how many of them each fold has."""

    rows: NDArray[np.bool_]
    places: dict[str, int]
    looked_at: str

    @property
    def count(self) -> int:
        """The number of such rows."""
        return int(np.count_nonzero(self.rows))

    def where(self) -> str:
        """Return in words where they are: ``folds 0, 2 and 4``."""
        nouns = dict.fromkeys(place.partition(" ")[0] for place in self.places if place[-1].isdigit())
        told = [_all_of(noun, [place for place in self.places if place.startswith(noun + " ")]) for noun in nouns]
        return listed([*told, *(place for place in self.places if not place[-1].isdigit())]) + self.looked_at


def _all_of(noun: str, places: list[str]) -> str:
    numbers = [place.removeprefix(noun + " ") for place in places]
    return f"{noun}{'s' if len(numbers) > 1 else ''} {listed(numbers, most=8)}"


def crossings(joined: Joined, units: NDArray[np.int64]) -> Crossings:
    """Return which rows of the data cross, for ``units`` that number what belongs together (-1: nothing does).

    Of labels two rows cross where their codes differ and both are trained on, tested or locked; of draws and pairs
    where one is in train and the other in test of the same split, or one is locked and the other is not.
    O(n x repeats), or O(n x splits).
    """
    shared = np.where(np.bincount(units[units >= 0], minlength=1)[units] > 1, units, -1) if units.size else units
    shared[units < 0] = -1
    rows, places = joined.crossing(shared)
    return Crossings(rows, places, joined.looked_at)


def group_in_two_folds(joined: Joined) -> Outcome:
    """Look for groups on both sides of a split."""
    name = joined.columns.group
    if name is None:
        return NotAsked("no group column is named")
    codes, groups = joined.encoded(name)
    found = crossings(joined, codes)
    if not found.count:
        return None
    split = np.unique(codes[found.rows])
    named = listed((shown(groups[code]) for code in split), most=3)
    ours = name == joined.manifest.spec.columns.group
    remedy = "run extend, which quarantines them" if ours else f"split by group {name!r}"
    message = (
        f"{amount(split.size, 'group')} of {name!r} ({named}) {verb(split.size, 'has', 'have')} rows {joined.apart}: "
        f"{amount(found.count, 'row')} in {found.where()}; {remedy}."
    )
    return Found(split.size, message, {"rows": found.count, "folds": found.places})


def constant_groups(joined: Joined) -> Outcome:
    """Look for groups that say nothing: every row its own, or all rows one."""
    name = joined.columns.group
    if name is None:
        return NotAsked("no group column is named")
    groups = len(joined.encoded(name)[1])
    if 1 < groups < joined.n:
        return None
    what = "every row is its own group" if groups > 1 else f"all {joined.n:,} rows are one group"
    return Found(1, f"{what} in {name!r}, so groups keep nothing together; name another column.", {"groups": groups})


def duplicate_rows(joined: Joined, features: Features) -> Outcome:
    """Look for rows whose features stand on the other side of a split too, target and key aside."""
    ranked = np.sort(features.hashes)
    repeated = np.unique(ranked[1:][ranked[1:] == ranked[:-1]])
    if not repeated.size:
        return None
    place = np.minimum(np.searchsorted(repeated, features.hashes), repeated.size - 1)
    found = crossings(joined, np.where(repeated[place] == features.hashes, place, -1))
    if not found.count:
        return None
    message = (
        f"{amount(found.count, 'row')} ({found.count / joined.n:.1%}) {verb(found.count, 'has', 'have')} exactly "
        f"the features of a row on the other side of a split ({listed(features.sample.column_names, most=4)}), in "
        f"{found.where()}; drop the repeats, or keep them together as a group."
    )
    return Found(found.count, message, {"share": found.count / joined.n, "folds": found.places})


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
