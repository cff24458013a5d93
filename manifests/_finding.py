"""What an audit comes to: findings, each a sentence with its numbers."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

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


class Audit(BaseModel):
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
