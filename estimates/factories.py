"""Models of more than one step that a specification can name."""

from __future__ import annotations

from typing import Any

from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import StandardScaler


def scaled_logistic_regression(**params: Any) -> Pipeline:
    """Return a logistic regression on standardised features; ``params`` are LogisticRegression's.

    Named in a specification as ``evenfold.estimates:scaled_logistic_regression``.
    """
    return make_pipeline(StandardScaler(), LogisticRegression(**params))
