"""Values of a specification that are no names: limits, lengths of time, the locked part, pseudonyms for keys."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Annotated, Any, Literal

import numpy as np
from evenfold.manifests.strict import Strict
from pydantic import (
    BeforeValidator,
    Field,
    PlainValidator,
    ValidationInfo,
    WithJsonSchema,
    field_validator,
    model_validator,
)


def _number(value: Any) -> Any:
    if isinstance(value, (bool, np.bool_, str)):
        raise ValueError(f"{value!r} is not a whole number; write one, such as 5")
    return value


def _limit(value: Any) -> Any:
    if value is False or value == "off":
        return "off"  # as YAML reads off
    try:
        return float("" if isinstance(value, (bool, np.bool_)) else value)
    except (TypeError, ValueError, OverflowError):
        raise ValueError(f"{value!r:.100} is no limit; write a number, such as 0.1, or off") from None


def _length(value: Any) -> Any:
    if not isinstance(value, bool) and isinstance(value, (int, float, str)):
        with suppress(OverflowError):
            return value if isinstance(value, str) else float(value)
    raise ValueError(f"{value!r:.100} is no length of time; write text, such as '30 days', or a number")


_LIMITS = {"anyOf": [{"type": "number"}, {"enum": ["off", False]}]}
_LENGTHS = {"anyOf": [{"type": "number"}, {"type": "string"}]}
# PlainValidator: what a value is its function alone says; errors of a union would name pydantic's types.
Limit = Annotated[float | Literal["off"], PlainValidator(_limit), WithJsonSchema(_LIMITS)]
Length = Annotated[float | str, PlainValidator(_length), WithJsonSchema(_LENGTHS)]
GateLimits = Mapping[str, Limit]  # by the name of a gate: the figure beyond which it fails, or "off"
Whole = Annotated[int, BeforeValidator(_number)]  # neither true for 1 nor "5" for 5: a seed decides folds


def also(shorthand: dict[str, Any]) -> Callable[[dict[str, Any]], None]:
    """Return what adds a shorthand, which a validator reads, to the schema of a field that may be None."""
    # pydantic's own json_schema_input_type of a model ends in a KeyError in pydantic 2.10.
    return lambda schema: schema["anyOf"].append(shorthand)


class LockedPart(Strict):
    """A test part that is drawn first and kept from every split: groups whole, the target in its share."""

    fraction: float = Field(default=0.2, description="Share of the rows, between 0 and 1.")
    seed: Whole = Field(default=0, ge=0, description="Decides which rows.")
    locked: Literal[True] = Field(default=True, description="Each look at it is recorded.")
    budget: Whole | None = Field(default=None, ge=1, description="How many looks there may be.")

    @model_validator(mode="before")
    @classmethod
    def _fraction_alone(cls, value: object) -> object:
        if isinstance(value, (int, float)) and not isinstance(value, bool):
            return {"fraction": value}
        # What manifests of before 0.1 hold where nothing but the score was to be told.
        if isinstance(value, dict) and value.get("policy") == "refuse":
            return {name: each for name, each in value.items() if name not in ("policy", "step")}
        return value

    @field_validator("fraction")
    @classmethod
    def _is_a_share(cls, value: float) -> float:
        if not 0 < value < 1:
            raise ValueError(f"{value:g} is not a share of the rows; 15 % is 0.15")
        return value


Encoded = Literal["key", "group", "stratify"]
SECRET = "EVENFOLD_KEY_SECRET"
FOR_KEYS = re.compile(rf"{SECRET}(_[A-Z0-9_]+)?")


class KeyEncoding(Strict):
    """Names of rows that may leave the building: HMAC-SHA256 under a secret that an environment variable holds.

    No other variable is read: who may write a specification could try others' passwords against what is published.
    """

    method: Literal["hmac"] = "hmac"
    secret: str = Field(default=SECRET, description=f"The environment variable: {SECRET}, or {SECRET}_<NAME>.")
    bits: Literal[64, 128] = Field(default=64, description="128 above about 500 million rows.")
    encode: tuple[Encoded, ...] = Field(
        default=("key", "group"), description="Columns of which roles; stratify too, where its values name somebody."
    )

    @model_validator(mode="before")
    @classmethod
    def _method_alone(cls, value: object) -> object:
        return {"method": value} if isinstance(value, str) else value

    @property
    def variable(self) -> str:
        """The variable that is read; the default one for a manifest of before that names another kind."""
        return self.secret if FOR_KEYS.fullmatch(self.secret) else SECRET

    @field_validator("secret")
    @classmethod
    def _is_for_keys(cls, value: str, info: ValidationInfo) -> str:
        if not FOR_KEYS.fullmatch(value) and not info.context:
            raise ValueError(f"{value!r} may hold a secret of something else; write {SECRET} or {SECRET}_<NAME>")
        return value


Holdout = Annotated[
    LockedPart | None,
    Field(
        description="A test part that is locked away first.",
        json_schema_extra=also({"exclusiveMaximum": 1, "exclusiveMinimum": 0, "type": "number"}),
    ),
]
Pseudonyms = Annotated[
    KeyEncoding | None,
    Field(description="Pseudonyms instead of keys.", json_schema_extra=also({"const": "hmac", "type": "string"})),
]
