"""Intervals from the scores of splits that share training rows."""

from __future__ import annotations

from dataclasses import dataclass
from math import sqrt

import numpy as np
from evenfold.estimates.errors import ModelError
from evenfold.estimates.results import Interval
from numpy.typing import ArrayLike
from scipy import stats

from .evidence import Declined, Evidence, Made

STRATIFIED = (
    "The splits are stratified on the target and so alike by design: their spread understates the uncertainty, and an "
    "interval made of it covered the truth in as little as .67 of the cases where it said .90."
)
ALIKE = "every split has the same score, so their spread says nothing of how far the value is from the truth."

Spread = tuple[float, float]  # a standard error and its degrees of freedom


def around(value: float, spread: Spread | None, level: float, method: str, of: str = "") -> Interval | None:
    """Return Student's t interval around a value; None where nothing says how far it is off."""
    if spread is None:
        return None
    half = float(stats.t.ppf(0.5 + level / 2, spread[1])) * spread[0]
    return Interval(value - half, value + half, level, method, of=of)


@dataclass(frozen=True)
class CorrectedT:
    """The mean of some differences, its corrected standard error, t with ``df`` degrees of freedom, p and interval."""

    mean: float
    se: float
    t: float
    df: int
    p: float
    interval: Interval

    @property
    def notes(self) -> tuple[str, ...]:
        """What a reader must know of it."""
        return self.interval.notes


def corrected_resampled_t(
    differences: ArrayLike,
    n_train: ArrayLike,
    n_test: ArrayLike,
    *,
    level: float = 0.95,
    stratified: bool = False,
) -> CorrectedT:
    """Return the test that the mean of J scores, or of J differences of scores, is 0.

    se^2 = s^2 (1/J + n_test/n_train), s^2 the sample variance, as splits share training rows. ``n_train``,
    ``n_test``: rows of each side, one number or one per split. ``stratified``: whether the splitter stratifies on
    the target, which is warned about. Source: Nadeau and Bengio (2003), Inference for the generalization error. No
    unbiased estimate of the variance of k-fold cross-validation exists (Bengio and Grandvalet 2004).
    """
    values = np.asarray(differences, dtype=np.float64)
    if values.size < 2:
        raise ModelError(f"a t test needs 2 differences, and there is {values.size}; use more splits.")
    ratio = float(np.mean(np.asarray(n_test, dtype=np.float64) / np.asarray(n_train, dtype=np.float64)))
    mean, df = float(np.mean(values)), values.size - 1
    se = sqrt(float(np.var(values, ddof=1)) * (1 / values.size + ratio))
    t = mean / se if se > 0 else (0.0 if mean == 0 else float(np.copysign(np.inf, mean)))
    half = float(stats.t.ppf(0.5 + level / 2, df)) * se
    notes = (STRATIFIED,) if stratified else ()
    interval = Interval(mean - half, mean + half, level, "corrected resampled t", notes)
    return CorrectedT(mean, se, t, df, float(2 * stats.t.sf(abs(t), df)), interval)


def of_splits(evidence: Evidence, level: float) -> Made:
    """Return the corrected t interval of the mean over splits."""
    if evidence.stratified:
        return Declined(f"{STRATIFIED} Choose auto, or random folds.")
    values = [score.test[evidence.metric.name] for score in evidence.scores if evidence.metric.name in score.test]
    if len(values) < 2:
        return Declined("the corrected t needs the scores of 2 splits, and there is 1; use more splits.")
    if min(values) == max(values):
        return Declined(f"{ALIKE} Choose auto.")
    sizes = ([score.n_train for score in evidence.scores], [score.n_test for score in evidence.scores])
    interval = corrected_resampled_t(values, *sizes, level=level).interval
    return interval.within(evidence.metric.low, evidence.metric.high)
