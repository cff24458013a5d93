"""Repeated random splits: the mean over draws, and an interval that knows their training rows overlap."""

from __future__ import annotations

import numpy as np

from ._aggregate import sample_sd, spread_note
from .draws import DrawScores
from .estimate import Estimate
from .fold_score import FoldScore
from .intervals import corrected_resampled_t


def resampled_aggregate(draws: DrawScores, apparent: FoldScore, *, stratified: bool = False) -> list[Estimate]:
    """Return one Estimate per metric from random (train, test) draws that are no bootstrap.

    ``apparent``: the score of one extra fit on all rows. The interval is the corrected resampled t of Nadeau and
    Bengio (2003), Inference for the generalization error, which warns where the draws are ``stratified`` on y.
    """
    n_train, n_test = (float(draws.table[name].mean()) for name in ("n_train", "n_test"))
    estimates = []
    for metric, on_all in apparent.apparent.items():
        scores = draws.table[metric].to_numpy(dtype=np.float64)
        defined = scores[~np.isnan(scores)]
        mean, notes = float(defined.mean()), [spread_note(defined.size, "draws")]
        if defined.size < scores.size:
            notes.append(f"{metric} is undefined in {scores.size - defined.size:,} of {scores.size:,} draws.")
        test = corrected_resampled_t(defined, n_train, n_test, stratified=stratified) if defined.size > 1 else None
        estimates.append(
            Estimate(
                metric, "random splits", mean, sd=sample_sd(defined.tolist()), se=None, n_splits=defined.size,
                apparent=on_all, gap=on_all - mean, interval=test.interval if test else None, notes=tuple(notes),
            )
        )  # fmt: skip
    return estimates
