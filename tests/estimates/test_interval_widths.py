"""Intervals where few rows decide: rare classes, uneven groups, heavy tails."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from evaluations import (
    CANCER_SCORES,
    DIABETES,
    DIABETES_FRAMES,
    DIABETES_SCORES,
)
from evenfold.estimates import (
    METRICS,
    Evidence,
    ModelSpec,
    Problem,
    interval_for,
)
from evenfold.estimates.intervals.rows import standard_error, within_range


def test_a_class_that_is_never_found_is_uncertain_by_its_few_rows() -> None:
    """600 rows, 30 positives, none found, 2 false alarms: a recall of 0 of 30 rows may well be .1."""
    y = np.repeat([1, 0], [30, 570])
    problem = Problem.of(pd.DataFrame({"x": np.arange(600.0), "y": y}), ModelSpec(metrics=("balanced_accuracy",)), "y")
    said = np.where(np.isin(np.arange(600), [100, 200]), 1, 0)
    frame = pd.DataFrame({"row": np.arange(600), "repeat": 0, "fold": np.arange(600) % 5, "y": y, "prediction": said})
    made = interval_for(Evidence(METRICS["balanced_accuracy"], problem, CANCER_SCORES, frame), "wald", 0.95)
    assert made.high > (1 + 0.11) / 2
    assert made.low > 0.48


def test_uneven_groups_have_few_degrees_of_freedom() -> None:
    """Equal groups are their number less 1; of groups like 1/rank the largest decide, and 3 are the least."""
    influence = np.random.default_rng(0).normal(size=600)
    even, uneven = np.arange(600) % 40, np.repeat(np.arange(40), np.maximum(140 // np.arange(1, 41), 1))[:600]
    uneven = np.append(uneven, np.full(600 - uneven.size, 39))
    assert standard_error(influence, even)[1] == 39
    assert 3 <= standard_error(influence, uneven)[1] < 12
    h = np.bincount(uneven) / 600
    D = np.diag(h) - np.outer(h, h)
    M = D @ (D / (1 - h)[:, None])
    assert standard_error(influence, uneven)[1] == pytest.approx(
        max(np.trace(M) ** 2 / np.square(M).sum(), 3), rel=1e-6
    )


def test_a_heavy_tail_reaches_further_up_than_t_says() -> None:
    """Bootstrap-t on the log scale: of lognormal squares the greater error is further away; the seed decides it."""
    rng = np.random.default_rng(1)
    frame = pd.concat(DIABETES_FRAMES)
    frame = frame.assign(prediction=frame["y"] + rng.lognormal(sigma=1.5, size=len(frame)))
    evidence = Evidence(METRICS["neg_mean_squared_error"], DIABETES, DIABETES_SCORES, frame)
    made, again = interval_for(evidence, "wald"), interval_for(evidence, "wald")
    assert made == again
    value, influence, _ = evidence.influence or (0.0, np.zeros(1), None)
    low, high = within_range(evidence.metric, value, *standard_error(influence, None, tails=True), 0.95)
    assert made.low < low, "as errors: further up"
    assert value < made.high < high
