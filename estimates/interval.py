"""What an interval is."""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import inf

SHARES = frozenset({"accuracy", "balanced_accuracy", "roc_auc"})


@dataclass(frozen=True)
class Interval:
    """Where the value of a metric lies: ``method`` covers the truth about as often as ``level`` says."""

    low: float
    high: float
    level: float
    method: str
    notes: tuple[str, ...] = ()

    def cut(self, metric: str) -> Interval:
        """Return the interval without the values that ``metric`` cannot have, of which a standard error knows nothing.

        Losses (``neg_...``) end at 0 and scores at 1; accuracies and areas under curves begin at 0.
        """
        least = 0.0 if metric in SHARES else -inf
        most = 0.0 if metric.startswith("neg_") else 1.0
        return replace(self, low=min(max(self.low, least), most), high=max(min(self.high, most), least))
