"""The difference of two manifests: rows that moved, joined or left, and the specification."""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import cached_property, partial
from typing import Any

import numpy as np
from evenfold.manifests.fields import Strict
from evenfold.manifests.joined import Joined
from evenfold.manifests.manifest import DELETED, QUARANTINED, Manifest
from evenfold.manifests.membership import LOCKED, MOST_MEASURED, Labels, Ranks, resample_counts
from evenfold.manifests.store.state import is_numeric_target
from evenfold.manifests.store.stored import manifest_of
from evenfold.manifests.tables.canonical import amount, listed
from evenfold.manifests.tables.keys import positions_in, types_of_secret
from numpy.typing import NDArray


class RowsMoved(Strict):
    """Rows that went the same way: from one fold (None: not in a) to another (None: not in b), and their classes."""

    of: str | None = None
    to: str | None = None
    rows: int
    classes: dict[str, int] | None = None


class Match:
    """Two manifests whose rows have been matched; ``place`` is the rank in b of each row of a, -1 where it has none."""

    def __init__(self, a: Manifest, b: Manifest, data: Any = None) -> None:
        self.a, self.b = a, b
        self.place = np.arange(a.n) if a.keys is None or b.keys is None else positions_in(b.keys, a.keys)
        self.in_a, self.in_b = a.status != DELETED, b.status != DELETED
        self.classes = [None if data is None else _classes(side, data) for side in (a, b)]

    @cached_property
    def both(self) -> Ranks:
        """The ranks in a of rows that are in both."""
        # Where there is no place, -1 reads the last row's status; the first condition rules it out.
        return np.flatnonzero((self.place >= 0) & self.in_a & self.in_b[self.place])

    def moved(self) -> tuple[list[RowsMoved], int]:
        """Return the rows on another side, and how many different rows they are."""
        if isinstance(self.a.membership, Labels):
            ours, theirs = self.a.membership.codes[self.both], self.b.membership.codes[self.place[self.both]]
            repeats = min(ours.shape[1], theirs.shape[1])
            differs = ours[:, :repeats] != theirs[:, :repeats]
            moved = np.flatnonzero(differs.any(axis=1))
            first = differs[moved].argmax(axis=1)
            return self._counted(self.both[moved], ours[moved, first], theirs[moved, first]), int(moved.size)
        anywhere, ways = np.zeros(self.both.size, dtype=np.bool_), []
        for i in range(min(self.a.n_splits, self.b.n_splits, MOST_MEASURED)):
            ours, theirs = (resample_counts(*side.in_use.pair(i), side.n) for side in (self.a, self.b))
            differs = ours[self.both] != theirs[self.place[self.both]]
            anywhere |= differs
            if differs.any():
                classes = self._class_counts(0, self.both[differs])
                ways.append(RowsMoved(of=f"split {i}", to=f"split {i}", rows=int(differs.sum()), classes=classes))
        return ways, int(anywhere.sum())

    def now_trained(self) -> float:
        """Return the share of the rows that a tests (or locks) on which the split of b that tests the same is trained.

        Folds are matched by the rows that both test, so that another numbering is no change. O(n) a split.
        """
        from scipy.optimize import linear_sum_assignment  # which nothing else here needs

        ours, theirs = (
            [side.in_use.pair(i) for i in range(min(side.n_splits, MOST_MEASURED))] for side in (self.a, self.b)
        )
        common = np.zeros((len(ours), len(theirs)))
        tests = np.stack([np.isin(self.both, test) for _, test in ours])
        trains = np.stack([np.isin(self.place[self.both], train) for train, _ in theirs])
        for j, (_, test) in enumerate(theirs):
            common[:, j] = tests[:, np.isin(self.place[self.both], test)].sum(axis=1)
        rows = [(tests[i], trains[j]) for i, j in zip(*linear_sum_assignment(common, maximize=True), strict=True)]
        if isinstance(self.a.membership, Labels):
            rows.append((self.a.membership.column()[self.both] == LOCKED, trains.any(axis=0)))
        tested = sum(int(test.sum()) for test, _ in rows)
        return sum(int((test & train).sum()) for test, train in rows) / tested if tested else 0.0

    def added(self) -> list[RowsMoved]:
        """Return the rows of b that a lacks, by fold."""
        present = np.zeros(self.b.n, dtype=np.bool_)
        present[self.place[(self.place >= 0) & self.in_a]] = True
        ranks = np.flatnonzero(self.in_b & ~present)
        return self._counted(ranks, None, self.b.membership.column()[ranks])

    def removed(self) -> list[RowsMoved]:
        """Return the rows of a that b lacks, or holds as deleted, by fold."""
        present = (self.place >= 0) & self.in_b[self.place]
        ranks = np.flatnonzero(self.in_a & ~present)
        return self._counted(ranks, self.a.membership.column()[ranks], None)

    def _counted(self, ranks: Ranks, of: NDArray[Any] | None, to: NDArray[Any] | None) -> list[RowsMoved]:
        """Return rows by their codes in a and in b; ``ranks`` are those of b where a lacks them (None)."""
        if not ranks.size:
            return []
        codes = np.column_stack([each for each in (of, to) if each is not None])
        distinct, which = np.unique(codes, axis=0, return_inverse=True)
        ways = []
        for number, way in enumerate(distinct.tolist()):
            rows = ranks[which.reshape(-1) == number]
            source = None if of is None else self.a.membership.code_name(way[0])
            target = None if to is None else self.b.membership.code_name(way[-1])
            classes = self._class_counts(int(of is None), rows)
            ways.append(RowsMoved(of=source, to=target, rows=rows.size, classes=classes))
        return ways

    def _class_counts(self, side: int, ranks: Ranks) -> dict[str, int] | None:
        if (classes := self.classes[side]) is None:
            return None
        codes, levels = classes
        counts = np.bincount(codes[ranks] + 1, minlength=len(levels) + 1)
        names = ["not in the data", *map(str, levels)]
        return {names[code]: int(counts[code]) for code in np.flatnonzero(counts)}


def _classes(manifest: Manifest, data: Any) -> tuple[Ranks, list[Any]] | None:
    """Return the class of each row of a manifest (-1 where the data lack it), none where the target is a number."""
    target = manifest.spec.columns.target
    joined = Joined.of(manifest, data)
    if target is None or is_numeric_target(joined.column(target)):
        return None
    codes, levels = joined.encoded(target)
    return np.where(joined.row_of >= 0, codes[joined.row_of], -1), levels


class Change(Strict):
    """One field of the specification, or of what decided with it, that differs."""

    path: str
    a: Any
    b: Any


class Difference(Strict):
    """The difference from manifest a to manifest b.

    ``moved``, ``added`` and ``removed`` count rows by fold, and by class where data were given; rows are matched by
    key. ``tested_now_trained``: the share of the rows that a tests or locks which b trains on when it tests that fold.
    Of draws and pairs ``moved`` counts, for each split that both have (of draws at most 200), the rows whose side
    differs, and ``n_moved`` the rows that differ in any. ``compared`` is false where rows or sides cannot be matched;
    ``sentences`` then say why.
    """

    a: str
    b: str
    same: bool
    compared: bool
    n_moved: int = 0
    n_added: int = 0
    n_removed: int = 0
    tested_now_trained: float = 0.0
    moved: list[RowsMoved] = []
    added: list[RowsMoved] = []
    removed: list[RowsMoved] = []
    changes: list[Change] = []
    sentences: list[str] = []


def diff(a: Any, b: Any, data: Any = None) -> Difference:
    """Return what differs from ``a`` to ``b``; with ``data`` (a file or a frame) also by class of the target.

    Promises: rows are matched by key, whatever their order; a row that was deleted counts as removed; quarantine moves
    nothing, because the assigned fold stays. Raises SplitError where ``data`` lacks the key or the target.
    O(n log n), and O(n) for each pair or draw.
    """
    a, b = manifest_of(a), manifest_of(b)
    ours, theirs = (dict(flat(_decided(side))) for side in (a, b))
    paths = [path for path in dict.fromkeys([*ours, *theirs]) if ours.get(path) != theirs.get(path)]
    changes = [Change(path=path, a=ours.get(path), b=theirs.get(path)) for path in paths]
    rows = _compared(a, b, data)
    words = [f"{change.path}: {_shown(change.a)} -> {_shown(change.b)}" for change in changes]
    return rows.model_copy(update={"changes": changes, "sentences": [*rows.sentences, *words]})


def _compared(a: Manifest, b: Manifest, data: Any) -> Difference:
    """Return what differs in the rows."""
    ours, theirs = (f"{side.name} {side.version} ({side.split_id[:12]})" for side in (a, b))
    difference = partial(Difference, a=ours, b=theirs, same=a.split_id == b.split_id)
    if why_not := _unmatched(a, b):
        return difference(compared=False, sentences=[why_not])
    match = Match(a, b, data)
    moved, n_moved = match.moved()
    added, removed = match.added(), match.removed()
    n_added, n_removed = (sum(row.rows for row in rows) for rows in (added, removed))
    lines = [_told("moved", n_moved, moved), _told("added", n_added, added), _told("removed", n_removed, removed)]
    share = match.now_trained() if n_moved else 0.0
    if share:
        of, to = (f"{side.name} {side.version}" for side in (a, b))
        lines.insert(0, f"{share:.0%} of the rows that {of} tests would be in training in {to}.")
    before, after = a.status[match.both], b.status[match.place[match.both]]
    if n := int(np.count_nonzero((before != QUARANTINED) & (after == QUARANTINED))):
        lines.append(f"{amount(n, 'row')} quarantined; their folds are kept.")
    return difference(
        compared=True, sentences=lines, moved=moved, added=added, removed=removed, tested_now_trained=share,
        n_moved=n_moved, n_added=n_added, n_removed=n_removed,
    )  # fmt: skip


def _unmatched(a: Manifest, b: Manifest) -> str | None:
    keys = [_key(side) for side in (a, b)]
    if keys[0] != keys[1]:
        by = " and ".join(listed(key) or "position" for key in keys)
        return f"rows cannot be matched: they are keyed by {by}."
    if a.keys is None and a.n != b.n:
        return f"rows cannot be matched: both go by position, and they hold {a.n:,} and {b.n:,} rows."
    if type(a.membership) is not type(b.membership):
        return f"sides cannot be compared: one manifest holds {a.kind}, the other {b.kind}."
    return None


def _key(manifest: Manifest) -> list[str]:
    names = [] if manifest.keys is None else manifest.keys.column_names
    types = types_of_secret(manifest.spec, manifest.types)
    return [f"{name} ({types.get(name, '')})" for name in names]


def _told(what: str, n: int, rows: list[RowsMoved]) -> str:
    if not n:
        return f"0 rows {what}."
    ways = []
    for each in sorted(rows, key=lambda each: -each.rows):
        way = [f"{word} {place}" for word, place in (("from", each.of), ("to", each.to)) if place is not None]
        classes = f" ({listed(f'{name} {count:,}' for name, count in each.classes.items())})" if each.classes else ""
        ways.append(f"{each.rows:,} {f'in {each.of}' if each.of == each.to else ' '.join(way)}{classes}")
    return f"{amount(n, 'row')} {what}: {listed(ways, most=6)}."


def _decided(manifest: Manifest) -> dict[str, Any]:
    rest = {"types": manifest.types, "algorithm": {"version": manifest.algorithm["version"]}}
    return manifest.spec.model_dump(mode="json") | rest | {"fingerprint": manifest.fingerprint[:16]}


def flat(values: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """Yield each value that says something, and the names that lead to it, joined by dots."""
    if isinstance(values, dict) and values:
        for name, value in values.items():
            yield from flat(value, f"{path}.{name}" if path else str(name))
    elif values not in ({}, [], None):
        yield path, values


def _shown(value: Any) -> str:
    text = "none" if value is None else json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 60 else text[:57] + "..."
