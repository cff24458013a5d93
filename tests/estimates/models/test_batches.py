"""A batch is some rows of the training rows: it need not hold every value of the target."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pandas as pd
import pytest
from evenfold.estimates import ModelError, ModelSpec, Problem, fit_in_batches

X = np.random.default_rng(0).normal(size=101)
NUMBERS = pd.DataFrame({"x": X, "y": 2 * X + 1})
CLASSES = pd.DataFrame({"x": X, "y": np.where(X - np.median(X) > 0, "up", "down")}).sort_values("y", ignore_index=True)
LEARNERS = {"r2": "sklearn.linear_model:SGDRegressor", "accuracy": "sklearn.linear_model:SGDClassifier"}


def scored(table: pd.DataFrame, metric: str, *cuts: int) -> float:
    """Return the score of a model that learns the table cut into batches."""
    problem = Problem.of(table, ModelSpec(estimator=LEARNERS[metric], features=("x",), metrics=(metric,)), "y")
    ends = [0, *cuts, len(table)]
    batches = [table.iloc[first:last] for first, last in pairwise(ends)] * 20
    return fit_in_batches(problem.model, problem, batches, seed=0, name="all")[0].test[metric]


def test_a_batch_of_one_row_or_of_one_class_is_learned() -> None:
    assert scored(NUMBERS, "r2", 50, 100) > 0.99
    assert scored(CLASSES, "accuracy", 51) > 0.9


def test_a_class_that_the_problem_does_not_know_is_refused() -> None:
    problem = Problem.of(CLASSES, ModelSpec(estimator=LEARNERS["accuracy"], features=("x",)), "y")
    batch = CLASSES.assign(y="sideways")
    with pytest.raises(ModelError, match="holds 'sideways', which is none of the problem's 2 classes"):
        fit_in_batches(problem.model, problem, [CLASSES, batch], seed=0, name="all")
