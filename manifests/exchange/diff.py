"""The difference of two manifests: rows that moved, joined or left, and the specification."""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from evenfold.manifests.balance import MISSING, apart
from evenfold.manifests.fields import Strict
from evenfold.manifests.joined import Joined
from evenfold.manifests.manifest import DELETED, QUARANTINED, Manifest
from evenfold.manifests.membership import LOCKED, MOST_MEASURED, UNKNOWN, Labels, Ranks, resample_counts
from evenfold.manifests.store.state import is_numeric_target
from evenfold.manifests.store.stored import manifest_of
from evenfold.manifests.tables.canonical import amount, listed
from evenfold.manifests.tables.keys import positions_in
from numpy.typing import NDArray

if TYPE_CHECKING:
    Classes = pd.Categorical[Any]  # of each row of a manifest


class RowsMoved(Strict):
    """Rows that went the same way: from one fold (None: not in a) to another (None: not in b), and their classes."""

    of: str | None = None
    to: str | None = None
    rows: int
    classes: dict[str, int] | None = None


class Change(Strict):
    """One field of the specification, or of what decided with it, that differs."""

    path: str
    a: Any
    b: Any


class Difference(Strict):
    """The difference from manifest a to manifest b.

    ``moved``, ``added`` and ``removed`` count rows by fold, and by class where data were given. Of draws and pairs
    ``moved`` counts, for each split that both have (of draws at most 200), the rows whose side differs, and ``n_moved``
    the rows that differ in any. ``tested_now_trained``: the share of the rows that a tests or locks which b trains on
    when it tests that fold. ``compared`` is false where rows or sides cannot be matched; ``sentences`` then say why.
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

    @property
    def summary(self) -> str:
        """Say whether they are the same split, and in a line each what differs."""
        head = f"{self.a} -> {self.b}: {'the same split' if self.same else 'another split'}"
        return "\n  ".join([head, *self.sentences])


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
    ours, theirs = (f"{side.name} {side.version} ({side.split_id[:12]})" for side in (a, b))
    difference = partial(Difference, a=ours, b=theirs, same=a.split_id == b.split_id)
    if why_not := _unmatched(a, b):
        return difference(compared=False, sentences=[why_not])
    place = np.arange(a.n) if a.keys is None or b.keys is None else positions_in(b.keys, a.keys)
    in_a, in_b = a.status != DELETED, b.status != DELETED
    # Where there is no place, -1 reads the last row's status; the first condition rules it out.
    shared = (place >= 0) & in_a & in_b[place]
    both, there = np.flatnonzero(shared), place[shared]
    removed, added = np.flatnonzero(in_a & ~shared), np.setdiff1d(np.flatnonzero(in_b), there)
    classes = [None if data is None else _classes(side, data) for side in (a, b)]
    n_moved, moved = _moved(a, b, both, there, classes[0])
    joined = _ways(a, b, UNKNOWN, b.membership.column()[added], classes[1], added)
    left = _ways(a, b, a.membership.column()[removed], UNKNOWN, classes[0], removed)
    lines = [_told("moved", n_moved, moved), _told("added", added.size, joined), _told("removed", removed.size, left)]
    now_trained = _now_trained(a, b, both, there) if n_moved else 0.0
    if now_trained:
        of, to = (f"{side.name} {side.version}" for side in (a, b))
        lines.insert(0, f"{now_trained:.0%} of the rows that {of} tests would be in training in {to}.")
    if n := int(np.count_nonzero((a.status[both] != QUARANTINED) & (b.status[there] == QUARANTINED))):
        lines.append(f"{amount(n, 'row')} quarantined; their folds are kept.")
    return difference(
        compared=True, tested_now_trained=now_trained, n_moved=n_moved, n_added=added.size, n_removed=removed.size,
        moved=moved, added=joined, removed=left, sentences=lines,
    )  # fmt: skip


def _moved(a: Manifest, b: Manifest, both: Ranks, there: Ranks, classes: Classes | None) -> tuple[int, list[RowsMoved]]:
    """Return how many rows are on another side, and how; they have ranks ``both`` in a and ``there`` in b."""
    if isinstance(a.membership, Labels):
        ours, theirs = a.membership.codes[both], b.membership.codes[there]
        repeats = min(ours.shape[1], theirs.shape[1])
        differs = ours[:, :repeats] != theirs[:, :repeats]
        moved = np.flatnonzero(differs.any(axis=1))
        first = differs[moved].argmax(axis=1)
        return moved.size, _ways(a, b, ours[moved, first], theirs[moved, first], classes, both[moved])
    anywhere, ways = np.zeros(both.size, dtype=np.bool_), []
    for i in range(min(a.n_splits, b.n_splits, MOST_MEASURED)):
        ours, theirs = (resample_counts(*side.in_use.pair(i), side.n) for side in (a, b))
        differs = ours[both] != theirs[there]
        anywhere |= differs
        if differs.any():
            of_rows = None if classes is None else _counted(classes[both[differs]])
            ways.append(RowsMoved(of=f"split {i}", to=f"split {i}", rows=int(differs.sum()), classes=of_rows))
    return int(anywhere.sum()), ways


def _ways(a: Manifest, b: Manifest, of: Any, to: Any, classes: Classes | None, ranks: Ranks) -> list[RowsMoved]:
    """Return rows by their codes in a and in b, of which one is UNKNOWN where they are not in it."""
    table = pd.DataFrame({"of": of, "to": to, "class": None if classes is None else classes[ranks]}, range(ranks.size))
    ways: Any = table.groupby(["of", "to"])
    return [
        RowsMoved(
            of=None if one == UNKNOWN else a.membership.code_name(one),
            to=None if two == UNKNOWN else b.membership.code_name(two),
            rows=len(rows),
            classes=None if classes is None else _counted(rows["class"]),
        )
        for (one, two), rows in ways
    ]


def _counted(classes: Any) -> dict[str, int]:
    return {str(name): int(n) for name, n in pd.Series(classes).value_counts(sort=False).items() if n}


def _classes(manifest: Manifest, data: Any) -> Classes | None:
    """Return the class of each row of a manifest, as far as the data hold it; none where the target is a number."""
    target, joined = manifest.spec.columns.target, Joined.of(manifest, data)
    if target is None or is_numeric_target(joined.column(target)):
        return None
    codes, levels = joined.encoded(target)
    codes = np.where(joined.lookup.row >= 0, codes[joined.lookup.row] + 2, 0)
    names = [*map(str, levels)]
    return pd.Categorical.from_codes(
        codes, pd.Index([*(apart(each, names) for each in ("not in the data", MISSING)), *names])
    )


def _now_trained(a: Manifest, b: Manifest, both: Ranks, there: Ranks) -> float:
    """Return the share of the rows that a tests (or locks) on which the split of b that tests the same is trained."""
    from scipy.optimize import linear_sum_assignment  # which nothing else here needs

    def sides(manifest: Manifest, role: int, rows: Ranks) -> NDArray[np.bool_]:
        pairs = (manifest.in_use.pair(i)[role] for i in range(min(manifest.n_splits, MOST_MEASURED)))
        return np.stack([np.bincount(side, minlength=manifest.n)[rows] > 0 for side in pairs])

    tests, trains = sides(a, 1, both), sides(b, 0, there)
    # Folds are matched by the rows that both test, so that another numbering is no change.
    common = np.stack([tests[:, test].sum(axis=1) for test in sides(b, 1, there)], axis=1)
    rows = [(tests[i], trains[j]) for i, j in zip(*linear_sum_assignment(common, maximize=True), strict=True)]
    if isinstance(a.membership, Labels):
        rows.append((a.membership.column()[both] == LOCKED, trains.any(axis=0)))
    tested = sum(int(test.sum()) for test, _ in rows)
    return sum(int((test & train).sum()) for test, train in rows) / tested if tested else 0.0


def _unmatched(a: Manifest, b: Manifest) -> str | None:
    held = ((side.types, [] if side.keys is None else side.keys.column_names) for side in (a, b))
    keys = [[f"{name} ({types.get(name, '')})" for name in names] for types, names in held]
    if keys[0] != keys[1]:
        by = " and ".join(listed(key) or "position" for key in keys)
        return f"rows cannot be matched: they are keyed by {by}."
    if a.keys is None and a.n != b.n:
        return f"rows cannot be matched: both go by position, and they hold {a.n:,} and {b.n:,} rows."
    if type(a.membership) is not type(b.membership):
        return f"sides cannot be compared: one manifest holds {a.kind}, the other {b.kind}."
    return None


def _told(what: str, n: int, rows: list[RowsMoved]) -> str:
    ways = []
    for each in sorted(rows, key=lambda each: -each.rows):
        way = [f"{word} {place}" for word, place in (("from", each.of), ("to", each.to)) if place is not None]
        classes = f" ({listed(f'{name} {count:,}' for name, count in each.classes.items())})" if each.classes else ""
        ways.append(f"{each.rows:,} {f'in {each.of}' if each.of == each.to else ' '.join(way)}{classes}")
    return f"{amount(n, 'row')} {what}{': ' if n else ''}{listed(ways, most=6)}."


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
