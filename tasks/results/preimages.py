"""What the keys of results are digests of, kept beside them: a miss says what differs from an earlier one."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Literal

from evenfold.manifests import digest_json
from evenfold.manifests.tables.canonical import listed
from evenfold.tasks.outcomes import Outcome

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
    """What the keys of some results are digests of: those of one ``kind`` for the split that is called ``name``.

    ``parts``: as JSON, with what each column holds on its own. ``seconds``: what one such fit took, of splits whose
    first trains on ``n_train`` rows.
    """

    kind: Literal["split", "fits", "audit", "record"]
    name: str
    parts: dict[str, Any]
    seconds: float = 0.0
    n_train: int = 1

    @property
    def folder(self) -> str:
        """Where those of the same kind and name are kept; frames that nobody named are called by their content."""
        return f"asked/{self.kind}/{'frame' if re.fullmatch('[0-9a-f]{32}', self.name) else self.name}"

    @property
    def key(self) -> str:
        """Where it is kept itself."""
        return f"{self.folder}/{digest_json(self.parts)[:32]}"


def differences(
    before: Mapping[str, Any], now: Mapping[str, Any], in_rows: Callable[[list[str]], str] | None = None
) -> list[str]:
    """Return what differs between the parts of two preimages, in words; nothing only where nothing does.

    ``in_rows`` says of columns in how many rows they have changed.
    """
    old, new = dict(_leaves(before)), dict(_leaves(now))
    moves = [place for place in old | new if digest_json(old.get(place)) != digest_json(new.get(place))]
    words: dict[tuple[str, str], list[str]] = {}
    for place in moves:
        if place == ("algorithm", "version") and ("decision", "strategy") in moves:
            continue  # of another strategy
        if place[:2] == ("decision", "types") and {("columns", place[2])} <= old.keys() & new.keys():
            continue  # which says more
        if _came_or_went(place, old, new):
            continue  # the list of steps says more
        lead, name, tail = _words(place, old.get(place), new.get(place))
        words.setdefault((lead, tail), []).append(name)
    if ("rows",) in moves and ("rows",) in old:  # then every column holds other values
        words.pop(("column", "changed"), None)
    for less in ("fingerprint", "own_strategy") if len(words) > 1 else ():  # others say more than this
        words.pop((DIGESTS[less], "changed"), None)
    if in_rows and (columns := words.pop(("column", "changed"), None)):
        words["column", f"changed {in_rows(columns)}".strip()] = columns
    return [_sentence(lead, names, tail) for (lead, tail), names in words.items()]


def _came_or_went(place: Place, old: Mapping[Place, Any], new: Mapping[Place, Any]) -> bool:
    """Return whether a place lies in a step that only one side has, as the lists of their steps say."""
    for k in range(1, len(place)):
        steps = [names for side in (old, new) if isinstance(names := side.get(place[:k]), list)]
        if steps and sum(place[k] in names for names in steps) < 2:
            return True
    return False


def _leaves(value: Any, place: Place = ()) -> Iterator[tuple[Place, Any]]:
    """Yield the place and value of all that holds no other; of the steps of a pipeline, say, their order and theirs."""
    if isinstance(value, list) and any(isinstance(each, (list, Mapping)) for each in value):
        steps = dict(_step_of(each, str(number)) for number, each in enumerate(value))
        yield place, [*steps]
        value = steps
    if isinstance(value, Mapping):
        for name, each in value.items():
            yield from _leaves(each, (*place, name))
    elif value is not None:
        yield place, value


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
