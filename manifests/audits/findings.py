"""Findings of an audit, each a sentence with its numbers, and the gates that judge them."""

from __future__ import annotations

import sys
import traceback
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from math import isnan
from numbers import Real
from pathlib import PurePath
from typing import TYPE_CHECKING, Any, Literal, TypeVar

from evenfold.manifests.fields import Strict
from evenfold.splitters.errors import Displayed, EvenfoldError, SplitError, amount, meant

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

    ``harmless``: a note, unless a gate was set. ``fails``: this finding fails the audit even where its gate only
    warns. A figure of NaN: the check could not look at what it was asked about.
    """

    figure: float
    message: str
    figures: dict[str, Any] = field(default_factory=dict)
    remedy: Remedy | None = None
    harmless: bool = False
    fails: bool = False


class NotAsked(EvenfoldError, RuntimeError):
    """Why a check has nothing to look at in this split: no group column is named, and the like."""


CheckOutcome = Found | None
T = TypeVar("T")


def needed(thing: T | Literal[False] | None, why_not: str) -> T:
    """Return what a check looks at; where there is none the check is not asked, and says ``why_not``."""
    if not thing:
        raise NotAsked(why_not)
    return thing


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

    Every check (those of a build, where one is given) is in exactly one place: in ``findings``; in ``passed``, with
    what it saw within its limit, if anything; in ``not_asked``, with the reason; ``ignored``, with the reason given; or
    ``off``. ``failed`` names the gates that failed: empty where none did. ``features`` are compared row by row; what
    learns from samples looks at text and times (``beside``) as well.
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
    def counts(self) -> dict[str, int]:
        """The number of findings of each severity: ``errors``, ``warnings`` and ``notes``."""
        of = Counter(finding.severity for finding in self.findings)
        return {"errors": of["error"], "warnings": of["warning"], "notes": of["note"]}

    @property
    def summary(self) -> str:
        """Say in one line how many checks failed, warned and passed."""
        counts = self.counts
        kinds = [amount(counts[f"{severity}s"], severity) for severity in ("warning", "note") if counts[f"{severity}s"]]
        failed = [f"{len(self.failed)} failed"] if self.failed else []
        return f"Audit of {self.name} {self.version}: {', '.join([*failed, *kinds, f'{len(self.passed)} passed'])}"

    @property
    def sentences(self) -> list[str]:
        """The counts of its checks, and the message of each error and warning."""
        bad = [finding.message for finding in self.findings if finding.severity != "note"]
        return [f"audit: {self.summary.partition(': ')[2]}", *bad]


@dataclass(frozen=True)
class Gate:
    """A check's figure may be at most ``limit`` (None: any). Beyond it the audit ``fails``, or warns.

    ``figure`` says what it is; ``code``, the number of a question of the audit, never changes its meaning.
    """

    limit: float | None
    fails: bool
    figure: str
    code: str = ""


GATES: dict[str, Gate] = {
    "rows_without_fold": Gate(0, True, "rows that the manifest does not know, or knows as deleted", "EF101"),
    "absent_rows": Gate(0, True, "rows of the manifest that the data lack", "EF102"),
    "repeated_keys": Gate(0, True, "rows of the data whose key stands in an earlier row", "EF103"),
    "empty_folds": Gate(0, True, "folds or splits without a row to test or to train on", "EF104"),
    "deleted_rows": Gate(None, False, "rows of the manifest that were deleted", "EF105"),
    "quarantined_rows": Gate(None, False, "rows of the manifest that are quarantined", "EF106"),
    "similar_keys": Gate(0, False, "rows whose key or group is another's but for its spelling", "EF107"),
    "waiting_rows": Gate(None, False, "rows that wait because their targets were not known", "EF108"),
    "crossing_rows": Gate(0.2, False, "share of the rows, or of earlier rows, left out for their groups", "EF109"),
    "fractional_keys": Gate(0, False, "rows whose key is a number with a fraction", "EF110"),
    "group_in_two_folds": Gate(0, True, "groups on both sides of a split", "EF201"),
    "constant_groups": Gate(0, False, "1 where groups say nothing: one for each row, or one for all", "EF202"),
    "duplicate_rows": Gate(0, False, "rows whose features stand on the other side of a split too", "EF203"),
    "near_duplicates": Gate(0, False, "rows that nearly repeat a row on the other side of a split", "EF204"),
    "unnamed_entities": Gate(0, False, "rows of a level on both sides of a split that shares the target", "EF205"),
    "relatives": Gate(0, False, "rows whose relatives are on the other side of a split", "EF206"),
    "places_left_out": Gate(0, False, "maps: two columns whose neighbours share the target, at a cost", "EF207"),
    "target_like_features": Gate(0, True, "features that all but give the target away", "EF301"),
    "giveaway_features": Gate(0, False, "features that alone tell the target as nothing else does", "EF302"),
    "id_like_features": Gate(None, False, "features that name rows: at least 99% distinct, and no float", "EF303"),
    "carried_targets": Gate(0, False, "features that were computed with targets of tested rows", "EF304"),
    "computed_target": Gate(0, False, "1 where features make up the target, alone or together", "EF305"),
    "pure_levels": Gate(0, False, "columns with a level or part that (nearly) one class alone has", "EF307"),
    "filled_cells": Gate(0, False, "numbers with computed cells that know the target better than others", "EF308"),
    "chosen_features": Gate(0, False, "features that look like the best of many, chosen on all rows", "EF309"),
    "ordered_keys": Gate(0, False, "1 where the order of the key, or of the file, foretells the target", "EF310"),
    "time_overlap": Gate(0, True, "training rows that are not before every tested time, with the gap between", "EF401"),
    "times_left_out": Gate(0, False, "times that the split ignores and the target follows", "EF402"),
    "other_populations": Gate(0, False, "folds whose rows a small model tells from the rest", "EF403"),
    "other_generation": Gate(0, False, "1 where a small model tells the newest generation from older rows", "EF404"),
    "missing_classes": Gate(0, False, "cells of class and split that are empty", "EF501"),
    "size_deviation": Gate(0.2, False, "largest deviation of a fold's rows from its share, relative", "EF502"),
    "class_deviation": Gate(0.2, False, "largest deviation of a class's rows in a fold, relative", "EF503"),
    "target_deviation": Gate(0.2, False, "largest KS distance of a fold's target from that of all rows", "EF504"),
    "attribute_deviation": Gate(None, False, "largest deviation of a level of balance_on from its share", "EF506"),
    "constant_target": Gate(0, False, "1 where the target has the same value in every row", "EF507"),
    "build_target_of_others": Gate(0, True, "built columns that know targets of rows of the other side", "EF601"),
    "build_features_of_others": Gate(0, False, "built columns that know features of rows of the other side", "EF602"),
    "build_other_test_rows": Gate(0, False, "built columns of tested rows that know other tested rows", "EF603"),
    "build_rows_made": Gate(0, False, "1 where one row reaches several that a build makes, or rows are gone", "EF604"),
    "build_own_target": Gate(0, True, "built columns that know their own row's target", "EF605"),
    "build_unstable": Gate(0, False, "built columns that differ in two builds of the same rows", "EF606"),
}
CHECKS_BY_CODE = {gate.code: check for check, gate in GATES.items()}

# What is asked when rows arrive: a table cut short, shuffled or in another unit is stopped before it is learnt from.
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

    ``limits`` may name gates of other tables too. Raises SplitError for a name of none, with the nearest, and for a
    limit that is none.
    """
    checks = [*GATES, *ARRIVAL_GATES, *MODEL_GATES]
    limits = {CHECKS_BY_CODE.get(name, name): limit for name, limit in limits.items()}
    for name, limit in limits.items():
        if name not in checks:
            hint = meant(name, checks) or f"choose of {', '.join(checks)}."
            raise SplitError(f"there is no gate {name!r}; {hint}")
        is_number = isinstance(limit, Real) and not isinstance(limit, bool)
        if limit != "off" and not (is_number and 0 <= limit <= sys.float_info.max):
            raise SplitError(f"gate {name}={limit!r}; choose a limit of at least 0, or 'off'.")
    changed = {
        name: None if limit == "off" else replace(of[name], limit=float(limit), fails=True)
        for name, limit in limits.items()
        if name in of
    }
    return {**of, **changed}


def reasons_of(ignore: Mapping[str, str]) -> dict[str, str]:
    """Return the reason for which each check is ignored, by its name; ``ignore`` may have its number (``EF205``).

    Raises SplitError for an unknown one, with the nearest, and for a reason of fewer than three words.
    """
    for name, reason in ignore.items():
        if name not in CHECKS_BY_CODE and name not in GATES:
            hint = meant(name, [*CHECKS_BY_CODE, *GATES]) or f"choose one of {', '.join(CHECKS_BY_CODE)}."
            raise SplitError(f"there is no check {name!r}; {hint}")
        if not isinstance(reason, str) or len(reason.split()) < 3:
            raise SplitError(f"{name} is ignored with the reason {reason!r}; say why in three words or more.")
    return {CHECKS_BY_CODE.get(name, name): reason for name, reason in ignore.items()}


def judged(
    limits: Mapping[str, Gate | None], checks: Mapping[str, Callable[[], CheckOutcome]], manifest: Any, n_rows: int,
    features: list[str], reasons: Mapping[str, str] | None = None, priced: Callable[[Found], Found] | None = None,
) -> Audit:  # fmt: skip
    """Return what the checks came to beside their limits; every check that is not off is run once, in turn.

    A check that raises could not run, and the others are run; but OSError and MemoryError are raised, for they may be
    over at the next try. A finding with a reason to be ignored fails nothing. ``priced`` adds what a finding costs.
    """
    passed, not_asked, findings, ignored = {}, {}, list[Finding](), list[Finding]()
    gates = {name: gate for name, gate in limits.items() if gate is not None}
    outcomes = {name: _outcome(name, check) for name, check in checks.items() if name in gates}
    for name, gate in gates.items():
        outcome = outcomes[name]
        if isinstance(outcome, NotAsked):
            not_asked[name] = str(outcome)
        # A figure that is NaN is within no limit.
        elif outcome is None or (gate.limit is not None and outcome.figure <= gate.limit):
            passed[name] = outcome.message if outcome else ""
        else:
            fact = priced(outcome) if priced else outcome
            ran = not isnan(fact.figure)
            failed = (gate.fails or fact.fails) and not (ran and gate.limit is None)
            severity: Any = "error" if failed else "note" if gate.limit is None or fact.harmless else "warning"
            reason = (reasons or {}).get(name, "")
            finding = Finding(
                check=name, code=gate.code, severity=severity, gate="failed" if failed and not reason else "passed",
                message=fact.message, figure=float(fact.figure) if ran else None, limit=gate.limit, ran=ran,
                figures=fact.figures, reason=reason,
            )  # fmt: skip
            (ignored if reason else findings).append(finding)
    return Audit(
        name=manifest.name, version=manifest.version, split_id=manifest.split_id, n_rows=n_rows, features=features,
        failed=[finding.check for finding in findings if finding.gate == "failed"],
        findings=sorted(findings, key=lambda each: ("error", "warning", "note").index(each.severity)),
        passed=passed, not_asked=not_asked, off=[name for name in limits if name not in gates], ignored=ignored,
    )  # fmt: skip


def _outcome(name: str, check: Callable[[], CheckOutcome]) -> CheckOutcome | NotAsked:
    import pyarrow as pa

    try:
        return check()
    except NotAsked as why_not:
        return why_not
    except (SplitError, pa.ArrowException) as error:
        reason = str(error)
    except (OSError, MemoryError):
        raise
    except Exception as error:
        # Not foreseen. It costs no other check its answer, and its own words may quote a value.
        at = traceback.extract_tb(error.__traceback__)[-1]
        place = f"{type(error).__name__} in {PurePath(at.filename).name}, line {at.lineno}"
        reason = f"{place}, which is a defect of evenfold; please report it."
    return Found(float("nan"), f"{name} could not run: {reason}")
