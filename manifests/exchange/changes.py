"""Differences between two requests, part by part, in words."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from evenfold.manifests.tables.canonical import listed
from evenfold.splitters.numbers import digest_json

if TYPE_CHECKING:
    from evenfold.manifests.manifest import Manifest
    from evenfold.manifests.plan import Plan

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


def split_parts(decided: Plan | Manifest) -> dict[str, object]:
    """Return what a split is the answer to, but for what each column holds."""
    algorithm = {name: value for name, value in decided.algorithm.items() if name not in ("name", "portable")}
    algorithm["version"], _, own = str(algorithm["version"]).partition("+")
    decision, holdout = decided.spec.decision(decided.types), decided.spec.holdout
    decision |= {"holdout": decision["holdout"] | {"fraction": holdout.fraction}} if holdout else {}  # also by default
    parts = {"decision": decision, "algorithm": algorithm, "own_strategy": own or None}
    return parts | {"fingerprint": decided.fingerprint, "parent": getattr(decided, "parent_split_id", None)}


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
