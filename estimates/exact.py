"""The exact test of two classifiers that are right or wrong."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from evenfold.estimates.metrics.record import Answered
from evenfold.estimates.metrics.registry import metric_of
from evenfold.estimates.metrics.responses import replay
from evenfold.estimates.metrics.scoring import first_line, score
from evenfold.estimates.results import ModelError
from evenfold.splitters.deployed import cause_of
from numpy.typing import NDArray
from scipy import stats


def answered(part: pd.DataFrame, classes: tuple[Any, ...]) -> Answered:
    """Return some predictions as the metrics read them, a mean of classes as one of those that they hold."""
    weights = part["weight"].to_numpy() if "weight" in part else None
    return Answered(replay(part, classes), part["y"].to_numpy(), classes, weights, held=True)


def score_of(metric: str, part: pd.DataFrame, classes: tuple[Any, ...]) -> float:
    """Return the metric of some predictions, a mean of classes of those that they hold; ModelError where undefined."""
    rows, loss = answered(part, classes), metric_of(metric).loss
    try:
        return score(metric, rows.answers, rows.y, rows.weights, held=rows.held)
    except ValueError as error:  # scikit-learn has no log loss of rows that lack a class, and each row has its own
        mean = np.nan if loss is None or not classes else rows.mean(loss.of(rows))
        if loss is None or not np.isfinite(mean):
            said = f"{metric} is undefined on these {rows.n:,} rows: {first_line(error)} Choose another metric."
            raise ModelError(said) from cause_of(error)
        return loss.score(float(mean))


def mcnemar(right_a: NDArray[np.bool_], right_b: NDArray[np.bool_]) -> float:
    """Return the exact p of McNemar's test that two classifiers are right equally often, from one look at some rows.

    Only the rows on which one is right and the other wrong count. Source: McNemar (1947), Note on the sampling error
    of the difference between correlated proportions or percentages.
    """
    only_a, only_b = int(np.sum(right_a & ~right_b)), int(np.sum(right_b & ~right_a))
    return 1.0 if only_a + only_b == 0 else float(stats.binomtest(only_a, only_a + only_b, 0.5).pvalue)


@dataclass(frozen=True)
class Exact:
    """McNemar's test of two classifiers, and the rows that it rests on."""

    only_a: int
    only_b: int
    p: float

    def words(self, names: tuple[str, str]) -> str:
        """Return the test in a sentence."""
        a, b = names
        return (
            f"Of these fitted models: {a} alone is right on {self.only_a:,} rows and {b} alone on {self.only_b:,} "
            f"(McNemar's exact test, p = {self.p:.2g})."
        )


def exact_test(
    metric: str, a: pd.DataFrame, b: pd.DataFrame, labels: tuple[Any, ...], groups: str | None
) -> Exact | None:
    """Return McNemar's test where each row was tested once, stands for itself, and is right or wrong."""
    loss = metric_of(metric).loss
    if loss is None or not loss.share or groups is not None or a["repeat"].nunique() > 1 or "weight" in a:
        return None
    right = [loss.of(answered(frame, labels)) == 0 for frame in (a, b)]
    only_a, only_b = int(np.sum(right[0] & ~right[1])), int(np.sum(right[1] & ~right[0]))
    return Exact(only_a, only_b, mcnemar(right[0], right[1]))
