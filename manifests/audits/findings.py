"""Findings of an audit, each a sentence with its numbers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from numbers import Real
from typing import TYPE_CHECKING, Any, Literal

from evenfold.manifests.strict import Strict
from evenfold.splitters.display import Displayed
from evenfold.splitters.errors import SplitError, meant

from .rules import CODES, RULES

if TYPE_CHECKING:  # who looks at an audit waits for no library of numbers
    import numpy as np
    from numpy.typing import NDArray


@dataclass(frozen=True)
class DropFeatures:
    """The remedy of leaving features out."""

    features: tuple[str, ...]
    words = "without"


@dataclass(frozen=True, eq=False)
class KeepTogether:
    """The remedy of keeping units whole: a code for each row of the data, -1 for a row of none."""

    units: NDArray[np.int64]
    words = "with such rows kept together"


@dataclass(frozen=True)
class SplitByTime:
    """The remedy of training on the past alone."""

    column: str
    words = "learnt from the past alone"


Remedy = DropFeatures | KeepTogether | SplitByTime


@dataclass(frozen=True)
class Found:
    """The answer of a check: its figure, which the gate limits, a sentence, more figures, and what would mend it.

    ``harmless``: a note, for nothing says that the target goes with it; a gate that was set fails all the same.
    """

    figure: float
    message: str
    figures: dict[str, Any] = field(default_factory=dict)
    remedy: Remedy | None = None
    harmless: bool = False


@dataclass(frozen=True)
class NotAsked:
    """Why a check has nothing to look at in this split: no group column is named, and the like."""

    reason: str


@dataclass(frozen=True)
class CouldNotRun:
    """Why a check could not look at what it was asked about."""

    reason: str


Outcome = Found | NotAsked | None


class Finding(Strict):
    """One thing that an audit found, or could not look at (``ran`` is false).

    ``figure`` is what the gate limits, None where the check could not run. A check that could not run has not passed:
    where going beyond its limit fails the audit, so does this. ``note``: worth knowing, and no limit is set.
    ``code`` is the check's number; ``reason`` is why it is ignored, empty where it is not.
    """

    check: str
    severity: Literal["error", "warning", "note"]
    gate: Literal["passed", "failed"]
    message: str
    figure: float | None = None
    limit: float | None = None
    ran: bool = True
    figures: dict[str, Any] = {}
    reason: str = ""
    code: str = ""


class Audit(Displayed, Strict):
    """The faults of a split of these data, in sentences with numbers; errors first.

    Every check is in exactly one place: in ``findings``; in ``passed``, with what it saw within its limit, if anything;
    in ``not_asked``, with the reason; ``ignored``, with the reason given; or ``off``. ``failed`` names the gates that
    failed: empty where none did. ``features`` are compared row by row; what learns from samples looks at text and times
    (``beside``) as well.
    """

    name: str
    version: str
    split_id: str
    n_rows: int
    features: list[str]
    beside: list[str] = []
    failed: list[str]
    findings: list[Finding]
    passed: dict[str, str]
    not_asked: dict[str, str]
    off: list[str]
    ignored: list[Finding] = []

    @property
    def summary(self) -> str:
        """Say in one line how many checks failed, warned and passed."""
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


GATES: dict[str, Gate] = {rule.check: Gate(rule.limit, rule.fails, rule.figure) for rule in RULES}


# What is asked when rows arrive: a table that is cut short, shuffled or in another unit is stopped before anything is
# learnt from it.
ARRIVAL_GATES: dict[str, Gate] = {
    "vanished_rows": Gate(0.1, True, "share of the known rows that the data lack"),
    "changed_targets": Gate(0.01, True, "share of the known rows whose target changed"),
    "new_rows": Gate(4, True, "how many times more or fewer rows a day than earlier months, or rows than generations"),
    "lost_columns": Gate(0, True, "columns that are gone, or hold another kind of value"),
    # Months of real flights are up to 0.14 apart beyond chance.
    "target_distribution": Gate(0.2, True, "distance of the new targets from the known ones, beyond chance"),
    "merged_groups": Gate(0.01, True, "share of the known rows whose groups turned out to be one"),
    "constant_columns": Gate(0.5, True, "rise of the share of a column's commonest value above any earlier one"),
    "repeated_targets": Gate(4, True, "how many times more or less often than before two rows have one target"),
    "restated_target": Gate(0.2, True, "rise of the rank correlation, up to 0.95 or more, of a column and the target"),
    "copied_rows": Gate(0.5, True, "share of the new rows that are other rows under new keys, beyond chance"),
    "jumps_in_time": Gate(10, True, "how many times further from the known times new rows are than usual"),
    "swallowing_groups": Gate(4, True, "how many times larger than any known group one is that most new rows are of"),
    "changed_types": Gate(None, False, "columns of another type of the same kind"),
    "unseen_categories": Gate(None, False, "columns of text that hold values which no known row has"),
}

# What is asked of a new model before it takes the champion's place.
MODEL_GATES: dict[str, Gate] = {
    "lower_score": Gate(1, True, "fall of a refit's score on the same rows, in half widths of the recorded interval"),
    "unusable_predictions": Gate(0, True, "share of the newest rows' predictions that are not finite numbers"),
    "wild_predictions": Gate(0.01, True, "share of them beyond the target's range by more than its width"),
    "level_gap": Gate(None, False, "largest difference of the score between two levels of a column of balance_on"),
    "constant_predictions": Gate(0, True, "1 where they are all the same and the champion's were not"),
}


def gates_with(limits: Mapping[str, Any], of: Mapping[str, Gate] = GATES) -> dict[str, Gate | None]:
    """Return every gate of a table with the given limits, which fail beyond; None for those that are off.

    ``limits`` may name gates of the other table too: a specification holds the limits of both. Raises SplitError for a
    name that is not a gate, with the nearest, and for a limit that is none.
    """
    checks = [*GATES, *ARRIVAL_GATES, *MODEL_GATES]
    for name, limit in limits.items():
        if name not in checks:
            hint = meant(name, checks) or f"choose of {', '.join(checks)}."
            raise SplitError(f"there is no gate {name!r}; {hint}")
        _require_limit(name, limit)
    changed = {
        name: None if limit == "off" else Gate(float(limit), True, of[name].figure)
        for name, limit in limits.items()
        if name in of
    }
    return {**of, **changed}


def reasons_of(ignore: Mapping[str, str]) -> dict[str, str]:
    """Return the reason for which each check is ignored, by the check's name.

    ``ignore`` maps numbers (``EF205``) or names to reasons. Raises SplitError for an unknown one, with the nearest, and
    for a reason of fewer than three words: what nobody can explain should not be silent.
    """
    checks = {code: check for check, code in CODES.items()}
    for name, reason in ignore.items():
        if name not in checks and name not in CODES:
            hint = meant(name, [*checks, *CODES]) or "did you mean EF101?"
            raise SplitError(f"there is no check {name!r}; {hint}")
        if not isinstance(reason, str) or len(reason.split()) < 3:
            raise SplitError(f"{name} is ignored with the reason {reason!r}; say why in three words or more.")
    return {checks.get(name, name): reason for name, reason in ignore.items()}


def _require_limit(name: str, limit: Any) -> None:
    if limit == "off":
        return
    try:
        fits = not isinstance(limit, bool) and isinstance(limit, Real) and float(limit) >= 0
    except OverflowError:
        raise SplitError(f"gate {name}: no float is so large; choose a limit of at least 0, or 'off'.") from None
    if not fits:
        raise SplitError(f"gate {name}={limit!r}; choose a limit of at least 0, or 'off'.")
