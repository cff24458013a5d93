"""The two errors of this room: what was asked cannot be done, and what was asked has no answer."""


class ModelError(ValueError):
    """Bad input, found before any model is fitted: what is wrong, in numbers, then what would work."""


class EvaluationError(RuntimeError):
    """A model or a metric that failed on one split: which split, why, then what would work."""
