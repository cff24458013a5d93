"""A kept study is found again by the same problem alone."""

from typing import Any

import numpy as np
import pandas as pd
from evenfold.estimates import ModelSpec, Problem
from evenfold.tasks.studies import study_key

DRAW = np.random.default_rng(0)
TABLE = pd.DataFrame(DRAW.normal(size=(40, 3)), columns=["x", "y", "w"]).assign(w=lambda t: t["w"] ** 2)


def key(table: pd.DataFrame, **model: Any) -> str:
    return study_key(Problem.of(table, ModelSpec(estimator="sklearn.linear_model:Ridge", **model), "y"))


def test_other_weights_are_another_study() -> None:
    """Weights change every score; the order of rows none."""
    shifted = TABLE.assign(w=np.roll(TABLE["w"], 1))
    assert key(TABLE, weights="w") == key(TABLE.iloc[::-1], weights="w")
    assert key(TABLE, weights="w") != key(shifted, weights="w")
    assert key(TABLE, exclude=("w",)) == key(shifted, exclude=("w",)), "of a column that no fit reads"
