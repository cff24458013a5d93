"""Checks of groups and times across a split, of keys that are spelled alike and of features that name rows."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from evenfold.manifests.joined import Joined
from evenfold.manifests.tables.canonical import amount, listed, to_numpy, verb
from evenfold.manifests.tables.keys import label_ends, positions_in
from evenfold.splitters import ForwardChaining, Needs, Rows
from evenfold.splitters.errors import shown
from numpy.typing import NDArray

from .columns import several
from .duplicates import Features
from .findings import CheckOutcome, DropFeatures, Found, KeepTogether, SplitByTime, needed
from .sample import crossings, where

BUT_FOR = "but for case, blanks, padding, accents or punctuation"
ID_LIKE, LEAST_ROWS = 0.99, 50


def group_in_two_folds(joined: Joined) -> CheckOutcome:
    """Look for groups on both sides of a split; of several entities, for the levels of each."""
    names = needed(joined.columns.grouped, "no group column is named")
    ours = names == joined.manifest.spec.columns.grouped
    own_last = ours and "last_of_each_group" in joined.manifest.splitter.promises
    needed(not own_last, "groups are tested on their own last rows, beside other groups' rows of before and after")
    sentences, total, codes = [], 0, [joined.encoded(name)[0] for name in names]
    for name, units in zip(names, codes, strict=True):
        crossing, places = joined.crossing(units)
        split, groups = np.unique(units[crossing]), joined.levels(name)
        if split.size:
            total += int(split.size)
            listing = listed((shown(groups[code]) for code in split), most=3)
            sentences.append(
                f"{amount(split.size, 'group')} of {name!r} ({listing}) {verb(split.size, 'has', 'have')} rows "
                f"{joined.apart}: {amount(int(crossing.sum()), 'row')} in {where(places)}{joined.looked_at}"
            )
    if not sentences:
        return None
    rows, folds = joined.crossing(*codes) if len(codes) > 1 else (crossing, places)  # a row may cross by several
    remedy = "run `evenfold extend`, which quarantines them" if ours else f"split by group {listed(map(repr, names))}"
    figures, together = {"rows": int(rows.sum()), "folds": folds}, joined.together()
    mend = None if together is None else KeepTogether(together)
    return Found(total, f"{'; '.join(sentences)}; {remedy}.", figures, mend)


def constant_groups(joined: Joined) -> CheckOutcome:
    """Look for groups that say nothing: every row its own, or all rows one."""
    names = needed(joined.columns.grouped, "no group column is named")
    for name in names:
        groups, n_rows = len(joined.levels(name)), int(joined.level_rows(name).sum())
        if not 1 < groups < n_rows:
            some = n_rows < joined.n
            what = f"all {n_rows:,} rows{' that have one' * some} are one group" if n_rows else "no row has a group"
            what = f"every row{' that has one' * some} is its own group" if groups > 1 else what
            message = f"{what} in {name!r}, so groups keep nothing together; name another column."
            return Found(1, message, {"groups": groups})
    return None


def similar_keys(joined: Joined) -> CheckOutcome:
    """Look for keys and groups that are equal but for case, blanks, padding, accents and punctuation.

    ``1``, ``01`` and ``1.0`` are one; ``1-23`` and ``12-3`` are two. Names of groups may be a letter off as well.
    """
    keys = joined.keys
    texts = [] if keys is None else [field.name for field in keys.schema if pa.types.is_large_string(field.type)]
    levels = {name: pa.array(joined.levels(name)) for name in joined.columns.grouped}
    levels = {name: array for name, array in levels.items() if pa.types.is_string(array.type)}
    needed(texts or levels, "no column of key or group holds text")
    sentences, n, figures = [], 0, dict[str, Any]()
    if keys is not None and texts:
        columns = {name: keys.column(name).combine_chunks() for name in keys.column_names}
        spelled = pa.table(columns | {name: spelled_alike(columns[name]) for name in texts})
        # A row that repeats a key is another's finding.
        plain = joined.lookup.rank if joined.lookup.rank.min(initial=0) >= 0 else positions_in(keys, keys)
        own, first = np.unique(plain, return_index=True)[1], np.full(joined.n, -1, dtype=np.int64)
        first[own] = positions_in(spelled, spelled)[own]
        first = several(first)
        if n := (rows := np.flatnonzero(first >= 0)).size:
            (apart, places, _), twin = crossings(joined, first), int(np.flatnonzero(first == first[rows[0]])[1])
            figures = {"apart": apart, "folds": places}
            sentences.append(
                f"{amount(n, 'row')} have a key that is another's {BUT_FOR} (first: rows {rows[0]} and {twin}), and "
                f"{apart:,} of them are on the other side of a split"
            )
    for name, array in levels.items():
        for n_rows, sentence in _similar_levels(name, array, joined.level_rows(name)):
            n += n_rows
            sentences.append(sentence)
    message = f"{'; '.join(sentences)}; correct them where they mean the same."
    return Found(n, message, figures) if sentences else None


def _similar_levels(name: str, array: pa.Array, rows: NDArray[np.int64]) -> Iterator[tuple[int, str]]:
    """Yield how many rows have a level of ``name`` that is spelled like another, or nearly so, in a sentence each."""
    spelled = spelled_alike(array).dictionary_encode().indices.to_numpy(zero_copy_only=False)
    twice = np.flatnonzero(np.bincount(spelled)[spelled] > 1)
    if twice.size:
        same, n_rows = twice[spelled[twice] == spelled[twice[0]]], int(rows[twice].sum())
        examples, n_spelled = listed(repr(shown(array[int(i)].as_py())) for i in same), np.unique(spelled[twice]).size
        yield n_rows, f"{twice.size:,} values of {name!r} ({n_rows:,} rows) are {n_spelled:,} {BUT_FOR}: {examples}"
    if twins := _misspelled(array.to_pylist(), rows):
        n_rows, (rare, common) = int(rows[[*twins]].sum()), next(iter(twins.items()))
        sentence = f"{len(twins):,} rare values of {name!r} ({n_rows:,} rows) are a letter off a common one:"
        yield n_rows, f"{sentence} {shown(array[rare].as_py())!r} and {shown(array[common].as_py())!r}"


def _misspelled(names: list[str], rows: NDArray[np.int64]) -> dict[int, int]:
    """Return rare values that are one letter off a common one of four times the rows, and which; none if few.

    Of letters alone, six at least: other numbers are other things.
    """
    of, twins = dict[str, int](), dict[int, int]()
    for i in np.argsort(-rows, kind="stable").tolist():
        name = names[i].casefold().strip()
        if len(name) >= 6 and not any(letter.isdigit() for letter in name):
            for form in (name, *(name[:at] + name[at + 1 :] for at in range(len(name)))):
                other = of.setdefault(form, i)
                if other != i and 4 * rows[i] <= rows[other]:
                    twins[i] = other
    return twins if len(twins) > 1 and rows[[*twins]].sum() >= 0.005 * rows.sum() else {}


def spelled_alike(column: pa.Array) -> pa.Array:
    """Return texts in a form that is equal where they are but for case, blanks, padding, accents and punctuation."""
    alike = column
    if not pc.all(pc.string_is_ascii(column)).as_py():  # capitals and back, as of some letters there are two small ones
        alike = pc.replace_substring_regex(pc.utf8_normalize(pc.utf8_upper(column), "NFKD"), r"\pM+", "")
        alike = pc.replace_substring_regex(alike, "[ßẞ]", "ss")
    alike = pc.utf8_lower(pc.utf8_trim_whitespace(alike))
    if pc.any(pc.match_substring(alike, ",")).as_py():  # "Doe, Jo" is "Jo Doe"; a quarter of the time, so only then
        alike = pc.replace_substring_regex(alike, r"^([^,]+),\s*([^,]+)$", r"\2 \1")
    separated = not pc.all(pc.utf8_is_alnum(alike)).as_py()  # else zeros alone can differ
    for pattern, by in _SPELLINGS if separated else _SPELLINGS[1:2]:
        alike = pc.replace_substring_regex(alike, pattern, by)
    return pc.if_else(pc.equal(alike, ""), column, alike)


# In turn: 1.0 is 1; zeros before a number go; what parts letters goes, and what parts numbers is one hyphen.
_SPELLINGS = (
    (r"^(\d+)\.0+$", r"\1"), (r"(^|[^\d.])0+(\d)", r"\1\2"),
    (r"[^\pL\pN]+", "-"), (r"-*([^\d-]+)-*", r"\1"), (r"-+$|^-+", ""),
)  # fmt: skip


def time_overlap(joined: Joined) -> CheckOutcome:
    """Look for training rows that are not before every tested time, or were not known then, the gap in between.

    Strategies that train on both sides of a tested stretch, and leave out what overlaps it, are asked about that.
    """
    name, spec, splitter = joined.columns.time, joined.manifest.spec, joined.manifest.splitter
    name = needed(name, "no time column is named")
    ends = label_ends(spec, joined.column) if name == spec.columns.time else None
    rows = Rows.of(needs=Needs(time=True, label_end="optional"), time=to_numpy(joined.column(name)), label_end=ends)
    # Strategies that know no time are held to what forward chaining without a gap would do.
    strategy = splitter if splitter.needs.time else ForwardChaining()
    late = {
        place: count
        for place, (train, test) in joined.sides()
        if train.size and test.size and (count := train.size - strategy.trainable(rows, train, test).size)
    }
    total, gap = sum(late.values()), splitter.get_params(deep=False).get("gap", 0)
    purged = "purged" in strategy.promises
    splits = {place.removeprefix("split "): count for place, count in late.items()}
    what = f"overlap a tested one in {name!r}" if purged else f"are not before every tested {name!r}"
    condition = "" if rows.label_end is None or purged else " with a target that was known"
    how = "" if splitter.needs.time else f" (--strategy ForwardChaining --time {name})"
    beside = f" with the gap of {gap}" if gap else ""
    what = f"{amount(total, 'training row')} of {where(late)} {what}{condition}{beside}{joined.looked_at}"
    message = f"{what}; split again by time{how}."
    return Found(total, message, {"splits": splits}, SplitByTime(name)) if late else None


def id_like_features(features: Features) -> CheckOutcome:
    """Look for features, floats aside, of which nearly every row has its own value. All rows are counted.

    Whole numbers count where chance would repeat them: numbers in a narrow range, or of ten digits.
    """
    joined, sample = features.joined, features.sample
    needed(joined.n >= LEAST_ROWS, f"{joined.n} rows are too few to tell a name from a number")
    likely = [name for name in sample.column_names if _distinct(sample.column(name)) >= ID_LIKE]
    shares = {name: _distinct(joined.column(name)) for name in likely}
    alike = {name: share for name, share in shares.items() if share >= ID_LIKE and _numbers_rows(joined.column(name))}
    n, listing = len(alike), listed(f"{name} ({share:.1%} distinct)" for name, share in alike.items())
    what, them = f"{amount(n, 'feature')} {verb(n, 'names', 'name')} rows: {listing}", verb(n, "it", "them")
    message = f"{what}; leave {them} out, or use {them} as the key."
    return Found(n, message, {"features": alike}, DropFeatures(tuple(alike))) if alike else None


def _numbers_rows(column: pa.ChunkedArray) -> bool:
    """Return whether so few repeats are no accident: not of whole numbers in a wide range, as populations are."""
    if not pa.types.is_integer(column.type):
        return True
    least, most = pc.min_max(column).as_py().values()
    # n numbers drawn from a range of R repeat one another about n^2 / 2R times: ten are expected.
    return bool(least >= 10**9 or len(column) ** 2 >= 20 * (most - least + 1))


def _distinct(column: pa.ChunkedArray) -> float:
    if pa.types.is_floating(column.type):
        return 0.0
    return float(pc.count_distinct(column).as_py()) / len(column)
