"""Figures of checks beside their limits."""

from __future__ import annotations

import traceback
from collections.abc import Callable, Mapping
from pathlib import PurePath
from typing import Any

import pyarrow as pa
from evenfold.splitters.errors import SplitError

from .findings import Audit, CouldNotRun, Finding, Found, Gate, NotAsked, Outcome

SEVERITIES = ("error", "warning", "note")


def judged(
    limits: Mapping[str, Gate | None],
    checks: Mapping[str, Callable[[], Outcome]],
    manifest: Any,
    n_rows: int,
    features: list[str],
    reasons: Mapping[str, str] | None = None,
    priced: Callable[[Found], Found] | None = None,
) -> Audit:
    """Return what the checks came to beside their limits; every check is run once, in turn, those that are off are not.

    A check that raises could not run, whatever it raises, and the others are run; but OSError and MemoryError are
    raised, for they are of the machine and its networks and may be over at the next try.

    A finding with a reason to be ignored is told with that reason, and fails nothing. ``priced`` adds to what
    was found beyond its limit what it costs.
    """
    findings: dict[bool, list[Finding]] = {True: [], False: []}  # by whether they are ignored
    passed, not_asked = {}, {}
    outcomes = {name: _outcome(check) for name, check in checks.items() if limits.get(name)}
    for name, gate in limits.items():
        if gate is None:
            continue
        outcome = outcomes[name]
        if isinstance(outcome, NotAsked):
            not_asked[name] = outcome.reason
        elif outcome is None:
            passed[name] = ""
        # A figure that is NaN is within no limit.
        elif isinstance(outcome, Found) and gate.limit is not None and outcome.figure <= gate.limit:
            passed[name] = outcome.message
        else:
            outcome = priced(outcome) if priced and isinstance(outcome, Found) else outcome
            findings[name in (reasons or {})].append(_finding(name, gate, outcome))
    return Audit(
        name=manifest.name,
        version=manifest.version,
        split_id=manifest.split_id,
        n_rows=n_rows,
        features=features,
        failed=[finding.check for finding in findings[False] if finding.gate == "failed"],
        findings=sorted(findings[False], key=lambda each: SEVERITIES.index(each.severity)),
        passed=passed,
        not_asked=not_asked,
        off=[name for name, gate in limits.items() if gate is None],
        ignored=[
            finding.model_copy(update={"reason": (reasons or {})[finding.check], "gate": "passed"})
            for finding in findings[True]
        ],
    )


def _outcome(check: Callable[[], Outcome]) -> Outcome:
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


def _finding(name: str, gate: Gate, outcome: Found | CouldNotRun) -> Finding:
    ran = isinstance(outcome, Found)
    fact = outcome if isinstance(outcome, Found) else Found(0.0, f"{name} could not run: {outcome.reason}")
    failed = (gate.fails or fact.fails) and not (ran and gate.limit is None)
    severity: Any = "error" if failed else "note" if gate.limit is None or fact.harmless else "warning"
    return Finding(
        check=name, code=gate.code, severity=severity, gate="failed" if failed else "passed", ran=ran,
        limit=gate.limit, message=fact.message, figure=float(fact.figure) if ran else None, figures=fact.figures,
    )  # fmt: skip
