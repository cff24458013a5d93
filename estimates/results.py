"""What a conclusion is."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field, replace
from math import inf
from typing import Any

from evenfold.splitters.display import Displayed

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


@dataclass(frozen=True, repr=False)
class Estimate(Displayed):
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

    @property
    def summary(self) -> str:
        """Metric, value, interval and how it was got, in one line."""
        interval = f" [{self.interval.low:.4g}, {self.interval.high:.4g}]" if self.interval else ""
        return f"Estimate {self.metric} {self.value:.4g}{interval}: {self.method}, {self.n_splits:,} splits"

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


class ModelError(ValueError):
    """Bad input, found before any model is fitted: what is wrong, in numbers, then what would work."""


class EvaluationError(RuntimeError):
    """A model or a metric that failed on one split: which split, why, then what would work."""
