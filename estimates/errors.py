"""Errors of models and of scores, as estimates offer them: with all others they have one home."""

from evenfold.splitters.errors import EvaluationError as EvaluationError, ModelError as ModelError
