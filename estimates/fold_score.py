"""What one model scored on one split."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any


@dataclass(frozen=True)
class FoldScore:
    """One model on one split. Scores are scikit-learn's: higher is always better.

    ``test``: scores on the rows that the model did not see. ``apparent``: scores on its own training rows.
    ``fold`` and ``repeat`` count from 0; for draws ``fold`` is the draw's number. Times are in seconds.
    """

    name: str
    repeat: int
    fold: int
    test: dict[str, float]
    apparent: dict[str, float]
    n_train: int
    n_test: int
    seconds_fit: float
    seconds_score: float

    def to_json(self) -> dict[str, Any]:
        """Return the fields as a JSON object."""
        return asdict(self)

    @classmethod
    def from_json(cls, given: dict[str, Any]) -> FoldScore:
        """Return what ``to_json`` wrote."""
        return cls(**given)
