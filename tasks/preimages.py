"""Preimages of the keys of results, kept beside them: a miss says what differs, and in how many rows."""

from __future__ import annotations

import re
from base64 import b64decode, b64encode
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Literal

import numpy as np
import pandas as pd
import pyarrow as pa
from evenfold.manifests import digest_json
from evenfold.manifests.tables.canonical import STRETCH, amount, filled, listed, to_numpy, whole
from evenfold.splitters.kernels import splitmix64
from evenfold.tasks.outcomes import Outcome
from numpy.typing import NDArray
from pydantic import Field

Place = tuple[str, ...]
# What a part is called before its own name: by the longest beginning of its place.
WORDS: dict[Place, str] = {
    ("decision", "params"): "strategy parameter", ("model", "params"): "model parameter", ("model",): "model",
    ("gates_now",): "gate", ("ignore_now",): "ignored check", ("algorithm",): "strategy", ("decision",): "",
    ("versions",): "", (): "",
}  # fmt: skip
DIGESTS = {
    "fingerprint": "what the split reads", "own_strategy": "the strategy's code", "parent": "what the split grew from",
    "manifest": "the manifest", "file": "the table's file",
}  # fmt: skip
MOST_SHOWN = 60  # letters of a value


class Preimage(Outcome):
    """The preimage of the keys of results of one ``kind`` for a split: ``parts``, with what each column holds, as JSON.

    ``seconds``: of such a fit of ``n_train`` rows and its scores. ``marks`` makes what counts changed rows later.
    """

    kind: Literal["split", "fits", "audit", "record"]
    name: str
    parts: dict[str, Any]
    seconds: float = 0.0
    n_train: int = 1
    marks: Callable[[], Marks] | None = Field(default=None, exclude=True, repr=False)

    @property
    def folder(self) -> str:
        """Return the folder of its kind and name; frames that nobody named are named by their content."""
        return f"asked/{self.kind}/{'frame' if re.fullmatch('table-[0-9a-f]{8}', self.name) else self.name}"

    @property
    def key(self) -> str:
        """Return its own path."""
        return f"{self.folder}/{digest_json(self.parts)[:32]}"

    @property
    def key_of_marks(self) -> str:
        """Return where the marks of its columns are kept."""
        return f"marks/{digest_json({name: self.parts[name] for name in ('rows', 'columns')})[:32]}"


def differences(
    before: Mapping[str, Any], now: Mapping[str, Any], in_rows: Callable[[list[str]], str] | None = None
) -> list[str]:
    """Return in words what differs between two preimages; ``in_rows``: in how many rows columns have changed."""
    moves = sorted(_moves(before, now), key=lambda move: move[1] is None)  # what was not there is said last
    earlier = {place: was for place, was, _ in moves}
    words: dict[tuple[str, str], list[str]] = {}
    for place, was, is_now in moves:
        of_another = place == ("algorithm", "version") and ("decision", "strategy") in earlier
        of_column = place[:2] == ("decision", "types") and all(
            place[2] in side.get("columns", {}) for side in (before, now)
        )
        if not (of_another or of_column):  # the strategy's name, or the column, says more
            lead, name, tail = _words(place, was, is_now)
            words.setdefault((lead, tail), []).append(name)
    if earlier.get(("rows",)) is not None:  # then every column holds other values
        words.pop(("column", "changed"), None)
    for less in ("fingerprint", "own_strategy") if len(words) > 1 else ():  # others say more than this
        words.pop((DIGESTS[less], "changed"), None)
    if in_rows and (columns := words.pop(("column", "changed"), None)):
        words["column", f"changed {in_rows(columns)}".strip()] = columns
    return [_sentence(lead, names, tail) for (lead, tail), names in words.items()]


def _moves(before: Any, now: Any, place: Place = ()) -> Iterator[tuple[Place, Any, Any]]:
    """Yield the place of what differs, what it was and what it is; of a step that one side lacks the name alone."""
    (was, old), (is_now, new) = _parts(before), _parts(now)
    if digest_json(was) != digest_json(is_now):
        yield place, was, is_now
    of_steps = isinstance(was, list) or isinstance(is_now, list)
    for name in [name for name in old if name in new] if of_steps else old | new:
        yield from _moves(old.get(name), new.get(name), (*place, name))


def _parts(value: Any) -> tuple[Any, dict[str, Any]]:
    """Return what holds no other value, and what does by its name: of the steps of a pipeline their order and them."""
    if isinstance(value, list) and any(isinstance(each, (list, Mapping)) for each in value):
        steps = dict(_step_of(each, str(number)) for number, each in enumerate(value))
        return [*steps], steps
    return (None, dict(value)) if isinstance(value, Mapping) else (value, {})


def _step_of(value: Any, number: str) -> tuple[str, Any]:
    """Return the name of a step, or its number, and what it is; of a transformer of columns, these are a part of it."""
    if not isinstance(value, list) or len(value) < 2 or not isinstance(value[0], str):
        return number, value
    name, step, *columns = value
    return name, {**(step if isinstance(step, Mapping) else {"is": step}), "columns": columns[0]} if columns else step


def _words(place: Place, before: Any, now: Any) -> tuple[str, str, str]:
    """Return what is said before the name of a part, its name, and what is said after it; alike, they are said once."""
    section, name = place[0], place[-1]
    if place[:2] == ("decision", "types"):  # of the columns that the split reads
        section, before, now = "columns", before and [before], now and [now]
    if section in ("columns", "code"):
        what = "column" if section == "columns" else ""
        if before is None or now is None:
            return (f"new {what}".strip(), name, "is read") if before is None else (what, name, "is read no more")
        if what and before[0] != now[0]:
            return what, name, f"is {now[0]}, was {before[0]}"
        if what or "==" not in f"{before}{now}":
            return what, name, "changed"
        before, now = before.partition("==")[2], now.partition("==")[2]
    if section in DIGESTS:
        return DIGESTS[section], "", "changed"
    if place[:2] == ("decision", "columns"):
        return f"{name} column {_shown(before)} -> {_shown(now)}", "", ""
    start = max((start for start in WORDS if place[: len(start)] == start), key=len)
    rest = place[len(start) :]  # a step's own parameters are called by the step's name and theirs
    what = " ".join(filter(None, [WORDS[start], ".".join(part for part in rest if part != "params" or len(rest) == 1)]))
    return f"{what} {_shown(before)} -> {_shown(now)}", "", ""


def _shown(value: Any) -> str:
    text = "none" if value in (None, "") else ", ".join(map(str, value)) if isinstance(value, list) else str(value)
    return text if len(text) <= MOST_SHOWN else f"{text[: MOST_SHOWN - 3]}..."


def _sentence(lead: str, names: list[str], tail: str) -> str:
    unique = list(dict.fromkeys(names))
    if len(unique) > 1:
        lead, tail = lead.replace("column", "columns"), tail.replace("is ", "are ", 1)
    return " ".join(filter(None, [lead, listed(unique), tail]))


SIZES = (509, 521, 523, 541)  # of four tables, in which each row has a place
FEW = 20  # rows: that two of them share a place in each table happens in one case of a hundred
FULL = 0.98  # of the places: beyond it nothing is told but that it is more


class Marks(Outcome):
    """The sketch of each column that tells how many rows differ later, in key order; ``keys`` names the keys.

    In each of four tables every row has a place at random; kept are 16 bits of the sum of the hashes at each place.
    """

    keys: str
    rows: int
    columns: dict[str, str]

    @classmethod
    def of(cls, table: pa.Table, keys: str) -> Marks:
        """Return the marks of a canonical table in key order: 6 kB a column. O(n)."""
        sums = {name: np.zeros(sum(SIZES), dtype=np.int64) for name in table.column_names}
        for start in range(0, table.num_rows, STRETCH):
            part = table.slice(start, STRETCH)
            # Neighbours are no nearer than others.
            words = splitmix64(np.arange(start, start + part.num_rows, dtype=np.uint64), 0)
            places = [(words % np.uint64(size)).astype(np.int64) for size in SIZES]
            for name in table.column_names:
                hashes = _hashes(whole(part.column(name)))
                sums[name] += np.concatenate(
                    [np.bincount(of, hashes, size) for of, size in zip(places, SIZES, strict=True)]
                ).astype(np.int64)
        columns = {name: b64encode(each.astype("<u2").tobytes()).decode() for name, each in sums.items()}
        return cls(keys=keys, rows=table.num_rows, columns=columns)

    def changed(self, now: Marks, names: Iterable[str]) -> str:
        """Return in how many rows a column has another value ``now``, exact up to 20; "" where keys are others."""
        if (self.keys, self.rows) != (now.keys, now.rows) or not {*names} <= self.columns.keys() & now.columns.keys():
            return ""
        differs = np.any([_read(self.columns[name]) != _read(now.columns[name]) for name in names], axis=0)
        counts = [int(part.sum()) for part in np.split(differs, np.cumsum(SIZES)[:-1])]
        if max(counts) <= FEW:
            return f"in {amount(max(counts), 'row')}"
        shares = [min(count / size, FULL) for count, size in zip(counts, SIZES, strict=True)]
        about = np.mean([-size * np.log1p(-share) for share, size in zip(shares, SIZES, strict=True)])
        how = "about" if min(shares) < FULL else "more than"
        return f"in {how} {float(f'{about:.2g}'):,.0f} rows" if about < self.rows / 2 else "in most rows"


def _hashes(array: pa.Array) -> NDArray[np.uint64]:
    """Return 16 bits of a hash of each value, 0 for none; of them half differ, so that alike changes do not cancel."""
    if pa.types.is_large_string(array.type):
        encoded = array.dictionary_encode()
        words = pd.util.hash_array(encoded.dictionary.to_numpy(zero_copy_only=False).astype(object), categorize=False)
        values = words[encoded.indices.fill_null(0).to_numpy()] if words.size else np.zeros(len(array), np.uint64)
    else:
        numbers = to_numpy(filled(array))
        values = numbers.view(np.uint64) if numbers.itemsize == 8 else numbers.astype(np.uint64)
    hashes = splitmix64(values, 0) >> np.uint64(48)
    hashes[array.is_null().to_numpy(zero_copy_only=False)] = 0
    return hashes


def _read(marks: str) -> NDArray[np.uint16]:
    return np.frombuffer(b64decode(marks), dtype="<u2")
