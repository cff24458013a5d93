"""The contract that says what is trained."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator, model_validator

from ._build import named_estimator, seeded
from ._errors import ModelError
from ._nearest import nearest
from .defaults import Task, default_for

POWER = "sklearn.preprocessing:PowerTransformer"


class Balance(BaseModel):
    """How the classes of the training rows are evened out; test rows are never touched.

    ``ratio``: rows of each rarer class per row of the largest class, afterwards; 1 makes all classes equal.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    method: Literal["undersample", "oversample", "class_weight"]
    ratio: float = Field(default=1.0, gt=0, le=1)


class Transform(BaseModel):
    """A scikit-learn transformer by import path, applied to the target and inverted in predictions.

    ``box-cox`` and ``yeo-johnson`` alone stand for PowerTransformer's methods.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    transformer: str = POWER
    params: dict[str, Any] = Field(default_factory=dict)

    @model_validator(mode="before")
    @classmethod
    def _by_name(cls, given: Any) -> Any:
        if given in ("box-cox", "yeo-johnson"):
            return {"params": {"method": given}}
        return {"transformer": given} if isinstance(given, str) else given


class ModelSpec(BaseModel):
    """What is trained and how it is scored, as plain data: the same in YAML, JSON, flags and Python.

    ``estimator``: ``package.module:Name`` of a class or of a function that returns an estimator; None for the default.
    ``params``: its JSON parameters. ``task``: inferred where None. ``features``: None for every numeric, boolean and
    categorical column that has no other role; ``exclude`` leaves some of them out. ``text``: how listed text columns
    and categories become numbers. ``metrics``: scikit-learn scorer names, empty for the default ones.
    ``balance``: see Balance, or its method alone. ``threshold``: from which probability of the second class (in sorted
    order) on a row is of it: a number, ``prevalence`` (its share among training rows) or ``tuned`` (the best balanced
    accuracy, Youden's J, in a cross-validation inside the training rows). ``target_transform``: see Transform.
    ``weights``: the column of row weights, for fits and scores.
    ``fit_params``: what ``fit`` gets besides X and y; ``{"column": name}`` stands for that column's training rows.
    ``eval_set: validation``: ``fit`` gets the validation rows as ``eval_set``, or ``X_val`` and ``y_val``, to stop at.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    estimator: str | None = None
    params: dict[str, Any] = Field(default_factory=dict)
    task: Task | None = None
    features: tuple[str, ...] | None = None
    exclude: tuple[str, ...] = ()
    text: Literal["onehot", "ordinal"] = "onehot"
    metrics: tuple[str, ...] = ()
    balance: Balance | None = None
    threshold: Literal["tuned", "prevalence"] | float | None = None
    target_transform: Transform | None = None
    weights: str | None = None
    fit_params: dict[str, Any] = Field(default_factory=dict)
    eval_set: Literal["validation"] | None = None

    @field_validator("threshold", mode="before")
    @classmethod
    def _of_probability(cls, given: Any) -> Any:
        number = isinstance(given, float) and 0 < given < 1
        if given is None or given in ("tuned", "prevalence") or number:
            return given
        raise ValueError("choose 'tuned', 'prevalence' or a number between 0 and 1")

    @field_validator("balance", mode="before")
    @classmethod
    def _by_method(cls, given: Any) -> Any:
        return {"method": given} if isinstance(given, str) else given

    @classmethod
    def of(cls, given: ModelSpec | Mapping[str, Any] | str | None) -> ModelSpec:
        """Return the specification in a mapping, in an estimator's import path alone, or the default one for None.

        Raises ModelError that names each field that is wrong.
        """
        if isinstance(given, ModelSpec):
            return given
        fields = {"estimator": given} if isinstance(given, str) else dict(given or {})
        try:
            return cls.model_validate(fields)
        except ValidationError as error:
            raise ModelError(_sentence(error)) from None

    @classmethod
    def read(cls, path: str | Path) -> ModelSpec:
        """Return the specification in a YAML or JSON file; raises ModelError where it cannot be read."""
        try:
            given = yaml.safe_load(Path(path).read_text(encoding="utf-8"))
        except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
            raise ModelError(f"the model file {str(path)!r} cannot be read: {error}") from None
        if not isinstance(given, Mapping):
            raise ModelError(f"the model file {str(path)!r} holds no fields; write estimator: package.module:Name.")
        return cls.of(given)

    def canonical(self) -> dict[str, Any]:
        """Return the fields that differ from their defaults, as JSON: what a key is made of."""
        return self.model_dump(mode="json", exclude_defaults=True)

    def completed(self, task: Task, n_classes: int = 0) -> ModelSpec:
        """Return the specification with task, estimator and metrics filled in from the table of defaults."""
        default = default_for(task, n_classes)
        filled = {
            "task": task,
            "estimator": self.estimator or default.estimator,
            "metrics": self.metrics or default.metrics,
        }
        return self.model_copy(update=filled)

    def build(self, seed: int) -> Any:
        """Return the unfitted estimator; every ``random_state`` that is None, in its parts too, becomes ``seed``.

        The specification must name an estimator, as a completed one does. Raises ModelError where it cannot be made.
        """
        if self.estimator is None:
            raise ModelError("the model names no estimator yet; complete it for a task first.")
        return seeded(named_estimator(self.estimator, self.params), seed)


def _sentence(error: ValidationError) -> str:
    return "; ".join(_of_field(each["type"], each["loc"], each["msg"], each["input"]) for each in error.errors())


def _of_field(kind: str, place: tuple[int | str, ...], message: str, given: Any) -> str:
    name = ".".join(str(part) for part in place)
    if kind == "extra_forbidden":
        return f"the model has no field {name!r}{nearest(name, ModelSpec.model_fields)}"
    said = message.removeprefix("Value error, ")
    return f"model field {name!r} is {str(given)[:60]!r}; {said[:1].lower()}{said[1:]}."
