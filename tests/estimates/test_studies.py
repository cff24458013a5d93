"""Studies of the split itself say what they are about to do, and find what stratifying is known to do."""

from __future__ import annotations

import numpy as np
import pandas as pd
from evenfold.estimates import ModelSpec, Problem, stratification_study


def test_sorted_folds_make_a_hold_out_steadier_and_progress_is_counted() -> None:
    """A constant model's error on one fold varies with the fold's target alone, which sorting evens out."""
    draw = np.random.default_rng(0)
    table = pd.DataFrame({"x": draw.normal(size=200), "y": draw.lognormal(size=200)})
    model = ModelSpec(estimator="sklearn.dummy:DummyRegressor", metrics=("neg_mean_absolute_error",))
    told: list[tuple[int, int]] = []
    ratios = stratification_study(
        model, Problem.of(table, model, "y"), n_splits=4, n_seeds=10, say=lambda *each: told.append(each)
    ).set_index("way")
    assert told == [(done, 160) for done in range(0, 161, 4)]
    assert (ratios.loc["random", ["hold_out", "fold_mean", "pooled"]] == 1).all()
    assert ratios.loc["sorted", "hold_out"] < 0.3
