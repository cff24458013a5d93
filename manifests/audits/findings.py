"""What an audit comes to: findings, each a sentence with its numbers."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from evenfold.splitters.display import Displayed
from evenfold.splitters.errors import SplitError
from pydantic import BaseModel, ConfigDict


@dataclass(frozen=True)
class Found:
    """What a check found: its figure, which the gate limits, a sentence, and more figures."""

    figure: float
    message: str
    figures: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class NotAsked:
    """Why a check has nothing to look at in this split: no group column is named, and the like."""

    reason: str


@dataclass(frozen=True)
class CouldNotRun:
    """Why a check could not look at what it was asked about."""

    reason: str


Outcome = Found | NotAsked | None
Check = Callable[[], Outcome]


class Finding(BaseModel):
    """One thing that an audit found, or could not look at (``ran`` is false).

    ``figure`` is what the gate limits, None where the check could not run. A check that could not run has not passed:
    where going beyond its limit fails the audit, so does this. ``note``: worth knowing, and no limit is set.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    check: str
    severity: Literal["error", "warning", "note"]
    gate: Literal["passed", "failed"]
    message: str
    figure: float | None = None
    limit: float | None = None
    ran: bool = True
    figures: dict[str, Any] = {}


class Audit(Displayed, BaseModel):
    """What is wrong with a split of these data, in sentences with numbers; errors first.

    Every check is in exactly one place: in ``findings``; in ``passed``, with what it saw within its limit, if anything;
    in ``not_asked``, with the reason; or ``off``. ``failed`` names the gates that failed: empty where none did.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str
    version: str
    split_id: str
    n_rows: int
    features: list[str]
    failed: list[str]
    findings: list[Finding]
    passed: dict[str, str]
    not_asked: dict[str, str]
    off: list[str]

    @property
    def summary(self) -> str:
        """How many checks failed, warned and passed, in one line."""
        kinds = [("failed", len(self.failed))]
        for severity, word in (("warning", "warnings"), ("note", "notes")):
            n = sum(finding.severity == severity for finding in self.findings)
            kinds.append((word if n != 1 else severity, n))
        counts = ", ".join(f"{n} {word}" for word, n in [*kinds, ("passed", len(self.passed))] if n or word == "passed")
        return f"Audit of {self.name} {self.version}: {counts}"


@dataclass(frozen=True)
class Gate:
    """A check's figure may be at most ``limit`` (None: any). Beyond it the audit ``fails``, or warns."""

    limit: float | None
    fails: bool
    figure: str


GATES: dict[str, Gate] = {
    "rows_without_fold": Gate(0, True, "rows of the data that the manifest does not know, or knows as deleted"),
    "absent_rows": Gate(0, True, "rows of the manifest that the data lack"),
    "repeated_keys": Gate(0, True, "rows of the data whose key stands in an earlier row"),
    "empty_folds": Gate(0, True, "folds or splits without a row to test or to train on"),
    "group_in_two_folds": Gate(0, True, "groups on both sides of a split"),
    "time_overlap": Gate(0, True, "training rows that are not before every tested time, with the gap between"),
    "target_like_features": Gate(0, True, "features that all but give the target"),
    "duplicate_rows": Gate(0, False, "rows whose features stand on the other side of a split too"),
    "similar_keys": Gate(0, False, "rows whose key differs from another's in spaces, case or Unicode form alone"),
    "id_like_features": Gate(0, False, "features that name rows: at least 99% distinct, and no float"),
    "near_duplicates": Gate(0, False, "rows that nearly repeat a row on the other side of a split"),
    "unnamed_entities": Gate(0, False, "columns, key parts or pairs whose levels cross folds and carry the target"),
    "giveaway_features": Gate(0, False, "features that alone tell the target as nothing else does"),
    "carried_targets": Gate(0, False, "features that are made of other rows' targets"),
    "times_left_out": Gate(0, False, "times that the split ignores and the target follows"),
    "other_populations": Gate(0, False, "folds whose rows a small model tells from the rest"),
    "other_generation": Gate(0, False, "1 where a small model tells the newest generation from the older rows"),
    "constant_groups": Gate(0, False, "1 where groups say nothing: one for each row, or one for all"),
    "missing_classes": Gate(0, False, "cells of class and split that are empty"),
    "size_deviation": Gate(0.2, False, "largest deviation of a fold's rows from its share, relative"),
    "class_deviation": Gate(0.2, False, "largest deviation of a fold's rows of a class from its share, relative"),
    "target_deviation": Gate(0.2, False, "largest KS distance of a fold's numeric target from that of all rows"),
    "balance_out_of_reach": Gate(None, False, "least deviation that one whole group forces on a fold, of all rows"),
    "deleted_rows": Gate(None, False, "rows of the manifest that were deleted"),
    "quarantined_rows": Gate(None, False, "rows of the manifest that are quarantined"),
}


# What is asked when rows arrive: a table that is cut short, shuffled or in another unit is stopped before anything is
# learnt from it.
ARRIVAL_GATES: dict[str, Gate] = {
    "vanished_rows": Gate(0.1, True, "share of the known rows that the data lack"),
    "changed_targets": Gate(0.01, True, "share of the known rows whose target changed"),
    "new_rows": Gate(4, True, "how many times more or fewer new rows than the median of earlier generations"),
    "lost_columns": Gate(0, True, "columns that are gone, or hold another kind of value"),
    # Months of real flights are up to 0.14 apart beyond chance.
    "target_distribution": Gate(0.2, True, "distance of the new targets from the known ones, beyond chance"),
    "merged_groups": Gate(0.01, True, "share of the known rows whose groups turned out to be one"),
    "unseen_categories": Gate(None, False, "columns of text that hold values which no known row has"),
}


def gates_with(given: Mapping[str, Any], of: Mapping[str, Gate] = GATES) -> dict[str, Gate | None]:
    """Return every gate of a table with the given limits, which fail beyond; None for those that are off.

    ``given`` may name gates of the other table too: a specification holds the limits of both. Raises SplitError for a
    name that is not a gate, with the nearest, and for a limit that is none.
    """
    for name, limit in given.items():
        _require_gate(name)
        _require_limit(name, limit)
    return {name: _changed(gate, given[name]) if name in given else gate for name, gate in of.items()}


def _changed(gate: Gate, limit: Any) -> Gate | None:
    return None if limit == "off" else Gate(float(limit), True, gate.figure)


def _require_gate(name: str) -> None:
    known = [*GATES, *ARRIVAL_GATES]
    if name not in known:
        nearest = difflib.get_close_matches(name, known, n=2, cutoff=0.4)
        hint = f"did you mean {' or '.join(nearest)}?" if nearest else f"choose of {', '.join(known)}."
        raise SplitError(f"there is no gate {name!r}; {hint}")


def _require_limit(name: str, limit: Any) -> None:
    number = isinstance(limit, (int, float)) and not isinstance(limit, bool)
    if limit != "off" and not (number and limit >= 0):
        raise SplitError(f"gate {name}={limit!r}; choose a limit of at least 0, or 'off'.")
