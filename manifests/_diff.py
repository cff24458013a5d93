"""What differs between two manifests: rows that moved, joined or left, and the specification."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from pydantic import BaseModel, ConfigDict

from ._diff_rows import Match, Rows
from ._manifest import Manifest
from ._words import amount, listed


class Change(BaseModel):
    """One field of the specification, or of what decided with it, that differs."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    path: str
    a: Any
    b: Any


class Difference(BaseModel):
    """What differs from manifest a to manifest b.

    ``moved``, ``added`` and ``removed`` count rows by fold, and by class where data were given; rows are matched by
    key. Of draws and pairs ``moved`` counts, for each split that both have (of draws at most 200), the rows whose side
    differs, and ``n_moved`` the rows that differ in any. ``compared`` is false where rows or sides cannot be matched;
    ``sentences`` then say why.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    a: str
    b: str
    same: bool
    compared: bool
    n_moved: int = 0
    n_added: int = 0
    n_removed: int = 0
    moved: list[Rows] = []
    added: list[Rows] = []
    removed: list[Rows] = []
    changes: list[Change] = []
    sentences: list[str] = []


def diff(a: Manifest, b: Manifest, data: Any = None) -> Difference:
    """Return what differs from ``a`` to ``b``; with ``data`` (a file or a frame) also by class of the target.

    Promises: rows are matched by key, whatever their order; a row that was deleted counts as removed; quarantine moves
    nothing, because the assigned fold stays. Raises SplitError where ``data`` lacks the key or the target.
    O(n log n), and O(n) for each pair or draw.
    """
    changes = _changes(a, b)
    rows = _compared(a, b, data)
    told = list(rows.pop("sentences"))
    told += [f"{change.path}: {_shown(change.a)} -> {_shown(change.b)}" for change in changes]
    titles = (f"{each.name} {each.version} ({each.split_id[:12]})" for each in (a, b))
    return Difference(
        a=next(titles), b=next(titles), same=a.split_id == b.split_id, changes=changes, sentences=told, **rows
    )


def _compared(a: Manifest, b: Manifest, data: Any) -> dict[str, Any]:
    why_not = _unmatched(a, b)
    if why_not:
        return {"compared": False, "sentences": [why_not]}
    match = Match(a, b, data)
    moved, n_moved = match.moved()
    added, removed = match.added(), match.removed()
    n_added, n_removed = (sum(each.rows for each in rows) for rows in (added, removed))
    said = (_told("moved", n_moved, moved), _told("added", n_added, added), _told("removed", n_removed, removed))
    return {
        "compared": True,
        "sentences": [*said, *match.quarantined()],
        **{"moved": moved, "added": added, "removed": removed},
        **{"n_moved": n_moved, "n_added": n_added, "n_removed": n_removed},
    }


def _unmatched(a: Manifest, b: Manifest) -> str | None:
    keys = [_key(each) for each in (a, b)]
    if keys[0] != keys[1]:
        by = " and ".join(listed(key) or "position" for key in keys)
        return f"rows cannot be matched: they are keyed by {by}."
    if a.keys is None and a.n != b.n:
        return f"rows cannot be matched: both go by position, and they hold {a.n:,} and {b.n:,} rows."
    if a.kind != b.kind:
        return f"sides cannot be compared: one manifest holds {a.kind}, the other {b.kind}."
    return None


def _key(manifest: Manifest) -> list[str]:
    names = [] if manifest.keys is None else manifest.keys.column_names
    return [f"{name} ({manifest.types.get(name, '')})" for name in names]


def _told(what: str, n: int, rows: list[Rows]) -> str:
    if not n:
        return f"0 rows {what}."
    largest = sorted(rows, key=lambda each: -each.rows)
    return f"{amount(n, 'row')} {what}: {listed((_way(each) for each in largest), most=6)}."


def _way(rows: Rows) -> str:
    ways = [f"{word} {place}" for word, place in (("from", rows.of), ("to", rows.to)) if place is not None]
    way = f"in {rows.of}" if rows.of == rows.to else " ".join(ways)
    classes = f" ({listed(f'{name} {count:,}' for name, count in rows.classes.items())})" if rows.classes else ""
    return f"{rows.rows:,} {way}{classes}"


def _changes(a: Manifest, b: Manifest) -> list[Change]:
    ours, theirs = (dict(_flat(_decided(each))) for each in (a, b))
    paths = dict.fromkeys([*ours, *theirs])
    return [
        Change(path=path, a=ours.get(path), b=theirs.get(path)) for path in paths if ours.get(path) != theirs.get(path)
    ]


def _decided(manifest: Manifest) -> dict[str, Any]:
    algorithm = {"version": manifest.algorithm["version"]}
    rest = {"types": manifest.types, "algorithm": algorithm, "fingerprint": manifest.fingerprint[:16]}
    return manifest.spec.model_dump(mode="json") | rest


def _flat(values: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    if isinstance(values, dict) and values:
        for name, value in values.items():
            yield from _flat(value, f"{path}.{name}" if path else str(name))
    elif values not in ({}, [], None):
        yield path, values


def _shown(value: Any) -> str:
    text = "none" if value is None else json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 60 else text[:57] + "..."
