"""What a conclusion is."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any

from .interval import Interval


@dataclass(frozen=True)
class Estimate:
    """The conclusion on one metric. Higher is always better, as in scikit-learn's scorers.

    ``method``: how ``value`` was got: ``cross-validation`` (mean over splits), ``out-of-bag``, ``.632``, ``.632+``.
    ``sd``: the *spread*, the sample standard deviation (ddof=1) of the scores of single splits; no interval.
    ``se``: sd/sqrt(splits), which takes the splits for independent, and they are not; None for repeats and draws,
    where it would shrink to nothing. ``pooled``: the score of all out-of-fold predictions together (with repeats,
    the mean of the repeats' pooled scores); None where there is none. ``apparent``: the mean score on training rows.
    ``gap``: apparent - value; above 0 the model does better on rows it has seen. ``notes``: sentences to be read.
    ``ingredients``: the numbers that ``value`` is made of, by name.
    """

    metric: str
    method: str
    value: float
    sd: float | None
    se: float | None
    n_splits: int
    pooled: float | None = None
    apparent: float | None = None
    gap: float | None = None
    interval: Interval | None = None
    notes: tuple[str, ...] = ()
    ingredients: dict[str, float] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        """Return the fields as a JSON object."""
        return asdict(self) | {"notes": list(self.notes)}

    @classmethod
    def from_json(cls, given: dict[str, Any]) -> Estimate:
        """Return what ``to_json`` wrote."""
        interval = given.get("interval")
        if interval is not None:
            interval = Interval(**{**interval, "notes": tuple(interval["notes"])})
        return cls(**{**given, "interval": interval, "notes": tuple(given["notes"])})
