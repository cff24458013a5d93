"""Errors of models and of scores."""

from __future__ import annotations

from evenfold.splitters.errors import EvenfoldError


class ModelError(EvenfoldError, ValueError):
    """Bad input, found before any model is fitted: what is wrong, in numbers, then what would work."""


class EvaluationError(EvenfoldError, RuntimeError):
    """A model or a metric that failed on one split: which split, why, then what would work."""
