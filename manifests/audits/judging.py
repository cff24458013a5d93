"""What checks came to beside their limits."""

from __future__ import annotations

import traceback
from collections.abc import Callable, Mapping
from pathlib import PurePath
from typing import Any, Protocol

import pyarrow as pa
from evenfold.splitters.errors import SplitError

from .findings import Audit, Check, CouldNotRun, Finding, Found, Gate, NotAsked, Outcome
from .rules import CODES

_SEVERITIES = ("error", "warning", "note")


class Judged(Protocol):
    """What an audit says it is of."""

    @property
    def name(self) -> str:
        """What the split is called."""

    @property
    def version(self) -> str:
        """Major version and generation."""

    @property
    def split_id(self) -> str:
        """The identity of the membership."""


def judged(
    limits: Mapping[str, Gate | None],
    checks: Mapping[str, Check],
    manifest: Judged,
    n_rows: int,
    features: list[str],
    reasons: Mapping[str, str] | None = None,
    priced: Callable[[Found], Found] | None = None,
) -> Audit:
    """Return what the checks came to beside their limits; every check is run once, those that are off are not.

    A check that raises could not run, whatever it raises, and the others are run; but OSError and MemoryError are
    raised, for they are of the machine and its networks and may be over at the next try.

    What a check with a reason to be ignored finds is told with that reason, and fails nothing. ``priced`` adds to what
    was found beyond its limit what it costs.
    """
    outcomes = [(name, gate, _outcome(checks[name])) for name, gate in limits.items() if gate]
    whole = [_finding(name, gate, outcome, priced) for name, gate, outcome in outcomes if _is_finding(gate, outcome)]
    findings = [finding for finding in whole if finding.check not in (reasons or {})]
    return Audit(
        name=manifest.name,
        version=manifest.version,
        split_id=manifest.split_id,
        n_rows=n_rows,
        features=features,
        failed=[finding.check for finding in findings if finding.gate == "failed"],
        findings=sorted(findings, key=lambda each: _SEVERITIES.index(each.severity)),
        passed={name: _within(outcome) for name, gate, outcome in outcomes if _is_passed(gate, outcome)},
        not_asked={name: outcome.reason for name, _, outcome in outcomes if isinstance(outcome, NotAsked)},
        off=[name for name, gate in limits.items() if gate is None],
        ignored=[
            finding.model_copy(update={"reason": reasons[finding.check], "gate": "passed"})
            for finding in whole
            if reasons and finding.check in reasons
        ],
    )


def _outcome(check: Check) -> Outcome | CouldNotRun:
    try:
        return check()
    except (SplitError, pa.ArrowException) as error:
        return CouldNotRun(str(error))
    except (OSError, MemoryError):
        raise
    except Exception as error:
        # Not foreseen. It costs no other check its answer, and its own words may quote a value.
        at = traceback.extract_tb(error.__traceback__)[-1]
        place = f"{type(error).__name__} in {PurePath(at.filename).name}, line {at.lineno}"
        return CouldNotRun(f"{place}, which is a defect of evenfold; please report it.")


def _is_finding(gate: Gate, outcome: Outcome | CouldNotRun) -> bool:
    if isinstance(outcome, Found):
        # A figure that is NaN is within no limit.
        return gate.limit is None or not outcome.figure <= gate.limit
    return isinstance(outcome, CouldNotRun)


def _is_passed(gate: Gate, outcome: Outcome | CouldNotRun) -> bool:
    return not isinstance(outcome, NotAsked) and not _is_finding(gate, outcome)


def _within(outcome: Outcome | CouldNotRun) -> str:
    return outcome.message if isinstance(outcome, Found) else ""


def _finding(name: str, gate: Gate, outcome: Outcome | CouldNotRun, priced: Callable[[Found], Found] | None) -> Finding:
    failed = gate.fails and not (isinstance(outcome, Found) and gate.limit is None)
    severity: Any = "error" if failed else "note" if gate.limit is None else "warning"
    common = {
        "check": name,
        "code": CODES.get(name, ""),
        "severity": severity,
        "gate": "failed" if failed else "passed",
        "limit": gate.limit,
    }
    if isinstance(outcome, Found):
        outcome = priced(outcome) if priced else outcome
        return Finding(message=outcome.message, figure=float(outcome.figure), figures=outcome.figures, **common)
    assert isinstance(outcome, CouldNotRun)
    return Finding(message=f"{name} could not run: {outcome.reason}", ran=False, **common)
