"""What an interval is."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Interval:
    """Where the value of a metric lies: ``method`` covers the truth about as often as ``level`` says."""

    low: float
    high: float
    level: float
    method: str
    notes: tuple[str, ...] = ()
