"""The contract that says what is trained."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from contextlib import suppress
from datetime import date
from math import isfinite, isnan
from pathlib import Path
from types import NoneType
from typing import Annotated, Any, Literal

import yaml
from evenfold.estimates.metrics.record import Task as Task
from evenfold.estimates.metrics.registry import ALIASES
from evenfold.estimates.metrics.scoring import imported, name_of, path_in
from evenfold.estimates.models.estimators import default_for, named_estimator, nearest, parts_in, seeded
from evenfold.splitters import SplitError, untrusted
from evenfold.splitters.errors import ModelError, reason_of, require_readable
from evenfold.splitters.naming import code_of, named, plain, recipe_of
from evenfold.splitters.numbers import plain_numbers, require_bounded
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError, field_validator, model_validator
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import StandardScaler

MOST_TOLD = 5  # of the fields that do not fit
# Fields that recipes had in that version, whose records hold them as None, and what does the same.
OF_0_1 = {"impute": "fill in a pipeline, make_pipeline(SimpleImputer(), ...)",
          "eval_set": "let boosting stop itself (early_stopping: true)"}  # fmt: skip

POWER = "sklearn.preprocessing:PowerTransformer"
Params = dict[str, Any]  # of an estimator or a transformer, as JSON


def _with_text_keys(value: Any) -> Any:
    """Return parameters for JSON: what is keyed by numbers as ``{"mapping": pairs}``, objects as their recipes."""
    if isinstance(value, (list, tuple)):
        return type(value)(map(_with_text_keys, value)) if type(value) in (list, tuple) else value
    if not isinstance(value, Mapping):
        return value if isinstance(value, (str, int, float, date, NoneType)) else plain(value, "a parameter")
    pairs = {plain_numbers(key): _with_text_keys(each) for key, each in value.items()}
    return pairs if all(isinstance(key, str) for key in pairs) else {"mapping": [[*pair] for pair in pairs.items()]}


class Balance(BaseModel):
    """The way in which classes of training rows are evened out; ``ratio``: of each rarer class to the largest one."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    method: Literal["undersample", "oversample", "class_weight"]
    ratio: float = Field(default=1.0, gt=0, le=1)


class Transform(BaseModel):
    """A scikit-learn transformer by import path, applied to the target and inverted in predictions.

    ``box-cox`` and ``yeo-johnson`` stand for PowerTransformer's methods. Predictions are then medians.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    transformer: str = POWER
    params: Params = Field(default_factory=dict)

    @model_validator(mode="before")
    @classmethod
    def _by_name(cls, value: Any) -> Any:
        fields = dict(value) if isinstance(value, Mapping) else {"transformer": value}
        methods = {name.replace("-", ""): name for name in ("box-cox", "yeo-johnson")}
        if method := methods.get(str(fields.get("transformer")).replace("-", "").lower()):
            return fields | {"transformer": POWER, "params": {"method": method}}
        return {"transformer": value} if isinstance(value, str) else value


def _or_a_name(schema: dict[str, Any]) -> None:
    schema["anyOf"].append({"type": "string"})


class ModelSpec(BaseModel):
    """The model that is trained and its metrics, as plain data: the same in YAML, JSON, flags and Python.

    ``estimator``: ``package.module:Name`` of a class or of a function that returns an estimator; None for the default.
    ``params``: its JSON parameters, as ``named_estimator`` takes them. ``task``: inferred where None. ``features``:
    None for every numeric, boolean and categorical column and text that repeats, without another role; ``exclude``
    leaves some of them out. ``text``: how text and categories become numbers, where the model cannot split by them.
    ``metrics``: scikit-learn scorer names, or short ones (acc, auc, mae, rmse, …) that become those; empty for the
    default ones; of one's own ``package.module:name`` of a scorer, or of a function of (y_true, y_pred), with what it
    is given, as ``shop.metrics:cost(greater_is_better=False)``. Greater is better, unless its name ends in _error,
    _loss or _deviance, and what it gets is predicted, unless ``response_method`` says otherwise. ``balance``: see
    Balance, or its method alone. ``threshold``: from which probability of the second class (in sorted order, or
    ``positive``) on a row is of it: a number, ``prevalence`` (its share of the training rows, by weight) or ``tuned``
    (the best balanced accuracy, Youden's J, in a cross-validation inside the training rows). ``target_transform``: see
    Transform. ``positive``: the class of two that recall, precision, F1, sensitivity, specificity and thresholds are
    about; by default 1, else the second in sorted order. ``weights``: the column of row weights, for fits and scores.
    ``importance``: what the model uses is measured on the test rows of each fold (``auto``), or not (``none``).
    """

    model_config = ConfigDict(frozen=True, extra="forbid", ser_json_inf_nan="constants")

    estimator: str | None = None
    params: Annotated[Params, BeforeValidator(_with_text_keys)] = Field(default_factory=dict)
    task: Task | None = None
    features: tuple[str, ...] | None = None
    exclude: tuple[str, ...] = ()
    text: Literal["onehot", "ordinal"] = "onehot"
    metrics: tuple[str, ...] = ()
    balance: Balance | None = Field(default=None, json_schema_extra=_or_a_name)
    threshold: Literal["tuned", "prevalence"] | float | None = None
    target_transform: Transform | None = Field(default=None, json_schema_extra=_or_a_name)
    positive: bool | int | str | None = None
    weights: str | None = None
    importance: Literal["auto", "none"] = "auto"

    def __hash__(self) -> int:  # of parameters that cannot be hashed
        return hash(self.model_dump_json())

    def __eq__(self, other: object) -> bool:  # of parameters that do not equal themselves, as nan
        return isinstance(other, ModelSpec) and self.canonical() == other.canonical()

    @model_validator(mode="before")
    @classmethod
    def _can_be_walked_through(cls, value: Any) -> Any:
        require_bounded(value)
        if not isinstance(value, Mapping):
            return value
        for name, instead in OF_0_1.items():
            if value.get(name) is not None:
                raise ValueError(f"{name} is no field any more: {instead}")
        return {name: field for name, field in value.items() if name not in OF_0_1}

    @field_validator("threshold", mode="before")
    @classmethod
    def _of_probability(cls, value: Any) -> Any:
        with suppress(ValueError):  # as it is typed at a terminal
            value = float(value) if isinstance(value, str) else value
        number = isinstance(value, float) and 0 < value < 1
        if value is None or value in ("tuned", "prevalence") or number:
            return value
        raise ValueError("choose 'tuned', 'prevalence' or a number between 0 and 1")

    @field_validator("metrics", mode="before")
    @classmethod
    def _by_name(cls, value: Any) -> Any:
        if not isinstance(value, (list, tuple)):
            return value
        return [ALIASES.get(m.lower(), m) if isinstance(m, str) else name_of(m) for m in value]

    @field_validator("balance", mode="before")
    @classmethod
    def _by_method(cls, value: Any) -> Any:
        return {"method": value} if isinstance(value, str) else value

    @classmethod
    def of(cls, value: Any) -> ModelSpec:
        """Return the specification in a mapping, in an estimator's import path alone, or the default one for None.

        An estimator, fitted or not, becomes its class and the parameters that it changes; a class or function its
        import path, or in this process alone a digest of its code. A path, or text that ends in .yaml, .yml or .json,
        is a file's (see ``read``). Raises ModelError that names each wrong field, or what no recipe can hold.
        """
        if isinstance(value, ModelSpec):
            return value
        if isinstance(value, Path) or (isinstance(value, str) and value.endswith((".yaml", ".yml", ".json"))):
            return cls.read(value)
        if not isinstance(value, (str, Mapping, type(None))):
            value = _named(value)
        try:
            return cls.model_validate({"estimator": value} if isinstance(value, str) else dict(value or {}))
        except ValidationError as error:
            raise ModelError(_sentence(error)) from None

    @classmethod
    def of_others(cls, value: Mapping[str, Any], own: ModelSpec) -> ModelSpec:
        """Return a specification that somebody else wrote, such as a tag of the model registry.

        It may name what a deployed run may, and what one's ``own`` specification names; else UntrustedNameError.
        """
        if not isinstance(value, Mapping):  # a path would have their say in which file is read
            raise TypeError(f"a {type(value).__name__} is no specification")
        theirs = cls.of(value)
        mine = own._names()
        for role, name in theirs._names():
            if (role, name) not in mine:
                untrusted.require_trusted(name, role)
        if theirs.params != own.params:
            untrusted.check_params(str(theirs.estimator), theirs.params, closed=True)
        return theirs

    @classmethod
    def read(cls, path: str | Path) -> ModelSpec:
        """Return the specification in a YAML or JSON file; raises ModelError where it cannot be read."""
        fields = read_values(path, "the model file")
        if not isinstance(fields, Mapping):
            raise ModelError(f"the model file {str(path)!r} holds no fields; write estimator: package.module:Name.")
        return cls.of(fields)

    @property
    def title(self) -> str:
        """The title for people: the name of its class."""
        return str(self.estimator).rpartition(":")[2]

    @property
    def code(self) -> dict[str, str]:
        """The user's own code behind what is named, as it is now; see ``code_of``. Empty for libraries' models."""
        return code_of(*(name for _, name in self._names()))

    @property
    def import_paths(self) -> list[str]:
        """The import paths of the estimator, its parts and one's own metrics."""
        return [name for role, name in self._names() if role is not untrusted.TRANSFORMER]

    def _names(self) -> list[tuple[untrusted.Role, str]]:
        """Return what it names, after the role of each."""
        transformer = None if self.target_transform is None else self.target_transform.transformer
        names = [(untrusted.ESTIMATOR, self.estimator), (untrusted.TRANSFORMER, transformer)]
        names += [(untrusted.PART, path) for path in parts_in(self.params)]
        names += [(untrusted.METRIC, path_in(metric)) for metric in self.metrics]
        return [(role, name) for role, name in names if name is not None]

    def canonical(self) -> dict[str, object]:
        """Return the fields that differ from their defaults, as JSON: what a key is made of."""
        fields: dict[str, object] = _finite(self.model_dump(mode="json", exclude_defaults=True))
        return fields

    def trains_like(self, other: ModelSpec | None) -> bool:
        """Return whether both train the same model; scored by another metric as well, it is no other one."""
        return other is not None and self.canonical() | {"metrics": None} == other.canonical() | {"metrics": None}

    def to_yaml(self) -> str:
        """Return the recipe as the text of a file that ``of`` reads as the same."""
        fields = self.model_dump(mode="json", exclude_defaults=True)
        return yaml.safe_dump(fields, sort_keys=False, allow_unicode=True)

    def completed(self, task: Task, n_classes: int = 0) -> ModelSpec:
        """Return the specification with task, estimator and metrics filled in from the table of defaults."""
        estimator, metrics = default_for(task, n_classes)
        filled = {"task": task, "estimator": self.estimator or estimator, "metrics": self.metrics or metrics}
        return self.model_copy(update=filled)

    def with_metric(self, metric: str) -> ModelSpec:
        """Return the specification, scored by ``metric`` as well."""
        return self if metric in self.metrics else self.model_copy(update={"metrics": (*self.metrics, metric)})

    def with_fields(self, **fields: Any) -> ModelSpec:
        """Return the specification with fields put over it, all but None; ``params`` are put over its own."""
        changes = {name: value for name, value in fields.items() if value is not None}
        changes |= {"params": self.params | changes["params"]} if "params" in changes else {}
        return ModelSpec.of(self.model_dump(exclude_unset=True) | changes) if changes else self

    def with_params(self, params: Params) -> ModelSpec:
        """Return the specification with parameters put over its own, as a configuration has them."""
        return self.model_copy(update={"params": self.params | params})

    def simplest(self) -> ModelSpec:
        """Return the specification that its estimator, as an object, would have: one key, and no default parameter."""
        if not isinstance(imported(str(self.estimator), untrusted.ESTIMATOR), type):
            return self
        try:
            recipe = recipe_of(self.unfitted)
        except SplitError:  # it keeps other things than it was given
            return self
        return self.model_copy(update={"params": {}} | recipe)

    @property
    def unfitted(self) -> Any:
        """The unfitted estimator that it names; None where it names none yet. Raises ModelError for what is none."""
        return None if self.estimator is None else named_estimator(self.estimator, self.params)

    def build(self, seed: int) -> Any:
        """Return the unfitted estimator, ``seeded``; raises ModelError where none is named, or it cannot be made."""
        if self.estimator is None:
            raise ModelError("the model names no estimator yet; complete it for a task first.")
        return seeded(self.unfitted, seed)


def read_values(source: str | Path, what: str, inline: bool = False) -> Any:
    """Return the values in a YAML or JSON file, or ``inline`` in such text; ModelError where ``what`` is unreadable."""
    require_readable([] if inline else [source])
    try:
        return untrusted.read_document(str(source) if inline else Path(source).read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise ModelError(f"{what} {str(source)!r} cannot be read: {reason_of(error)}") from None


def _finite(value: Any) -> Any:
    """Return JSON with what is no finite number as text, for which JSON has none."""
    if isinstance(value, float) and not isfinite(value):
        return ".nan" if isnan(value) else ".inf" if value > 0 else "-.inf"
    if isinstance(value, dict):
        return {name: _finite(entry) for name, entry in value.items()}
    return [_finite(item) for item in value] if isinstance(value, list) else value


def _named(value: Any) -> Mapping[str, object]:
    """Return the recipe of an estimator, its class or a function that makes it."""
    makes = isinstance(value, type) or inspect.isroutine(value)
    if not (inspect.isroutine(value) or hasattr(value, "fit")):
        kind = value.__name__ if makes else type(value).__name__
        remedy = "pass an estimator, or name one: sklearn.linear_model:Ridge"
        raise ModelError(f"a value of type {kind} is no model; {remedy}.")
    try:
        return {"estimator": named(value)} if makes else recipe_of(value)
    except SplitError as error:
        raise ModelError(str(error)) from None


def _sentence(error: ValidationError) -> str:
    def of(problem: Any) -> str:
        name = ".".join(str(part) for part in problem["loc"])[:60]
        reason, content = problem["msg"].removeprefix("Value error, "), str(problem["input"])[:60]
        if not name:
            return f"the model does not fit: {reason}."
        if problem["type"] == "extra_forbidden":
            return f"the model has no field {name!r}{nearest(name, ModelSpec.model_fields)}"
        return f"model field {name!r} is {content!r}; {reason[:1].lower()}{reason[1:]}."

    problems = error.errors()
    further = f"; and {len(problems) - MOST_TOLD:,} more." if len(problems) > MOST_TOLD else ""
    return "; ".join(map(of, problems[:MOST_TOLD])) + further


def scaled_logistic_regression(**params: Any) -> Pipeline:
    """Return a logistic regression on standardised features; ``params`` are LogisticRegression's.

    Named in a specification as ``evenfold.estimates:scaled_logistic_regression``.
    """
    return make_pipeline(StandardScaler(), LogisticRegression(**params))
