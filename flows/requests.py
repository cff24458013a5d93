"""What a flow is asked: one frozen object, read and checked at the door, and passed on."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Any

from evenfold.estimates import ModelSpec
from evenfold.manifests import SplitSpec, explain, specification
from evenfold.splitters import EvenfoldError, SplitError
from evenfold.tasks.requests import RecipeFields, SpecFields
from pydantic import BaseModel, ConfigDict, ValidationError, create_model


class Request(BaseModel):
    """The request of a flow: each of its parameters, and the specification and the recipe that they come to."""

    model_config = ConfigDict(frozen=True, extra="forbid", arbitrary_types_allowed=True)

    if TYPE_CHECKING:  # the parameters of the flow

        def __getattr__(self, name: str) -> Any: ...

    @classmethod
    def to(cls, name: str, signature: inspect.Signature) -> type[Request]:
        """Return the class of the requests of a flow of this signature."""
        fields: Any = {
            p.name: (p.annotation, ... if p.default is p.empty else p.default) for p in signature.parameters.values()
        }
        return create_model(name, __base__=cls, **fields)

    @classmethod
    def read(cls, fields: Mapping[str, object]) -> Request:
        """Return a request with every parameter as the flow takes it; raises SplitError or ModelError for bad ones."""
        try:
            return cls(**fields)
        except ValidationError as error:
            for problem in error.errors():
                cause = problem.get("ctx", {}).get("error")
                if isinstance(cause, EvenfoldError):
                    raise cause from None
            raise SplitError(explain(error, "the request", cls)) from None

    @property
    def parameters(self) -> dict[str, Any]:
        """Each parameter by its name."""
        return {name: getattr(self, name) for name in type(self).model_fields}

    def of(self, group: type) -> dict[str, Any]:
        """Return the parameters that are fields of a group."""
        return {name: value for name, value in self.parameters.items() if name in group.__annotations__}

    def given(self, group: type) -> list[str]:
        """Return which fields of a group are asked for: neither empty nor as they are by default."""
        defaults = type(self).model_fields
        return [
            name for name, value in self.of(group).items() if value != defaults[name].default and (value or value == 0)
        ]

    @cached_property
    def specification(self) -> SplitSpec:
        """The specification, with the fields put over it."""
        return specification(self.data, self.spec, **self.of(SpecFields))

    @cached_property
    def recipe(self) -> ModelSpec:
        """The recipe, with the fields put over it."""
        fields, importance = self.of(RecipeFields), self.parameters.get("importance", "auto")
        params = fields.pop("model_params")
        return recipe_of(self.model, params=params, importance=None if importance == "auto" else importance, **fields)


def recipe_of(model: Any, **fields: Any) -> ModelSpec:
    """Return the model with the fields put over it that are given: all but None, also what is empty."""
    base = ModelSpec.of(model)
    values = {name: value for name, value in fields.items() if value is not None}
    if "params" in values:
        values["params"] = {**base.params, **values["params"]}
    return ModelSpec.of(base.model_dump(exclude_unset=True) | values) if values else base
