"""The fields of a specification: which column plays which part, the locked part, and pseudonyms for keys."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping
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


class Columns(Strict):
    """Which column plays which part."""

    key: list[str] = Field(
        default=[], description="Names each row once and for all; several columns together if need be."
    )
    target: str | None = Field(default=None, description="What a model learns to predict.")
    group: str | None = Field(
        default=None,
        description="Rows of one group stay together; a list of several columns is kept as entities.",
        json_schema_extra=also({"items": {"type": "string"}, "type": "array"}),
    )
    entities: list[str] = Field(
        default=[],
        description="Several columns of groups, a patient and a device, say; group_mode says how they are kept.",
    )
    stratify: list[str] = Field(default=[], description="What is shared out evenly, where it is not the target.")
    time: str | None = Field(default=None, description="When each row happened.")
    label_end: str | None = Field(default=None, description="When the target of each row is known.")
    coordinates: list[str] = Field(
        default=[],
        description="Where each row lies: two columns of a plane, x and y in one unit; no features unless listed.",
    )
    fold: str | None = Field(default=None, description="Folds that were decided elsewhere, for Predefined.")
    balance_on: list[str] = Field(
        default=[], description="Whose shares and scores are reported; decides nothing, and is no feature."
    )

    @model_validator(mode="before")
    @classmethod
    def _several_groups(cls, fields: Any) -> Any:
        group = fields.get("group") if isinstance(fields, Mapping) else None
        if not isinstance(group, (list, tuple)):
            return fields
        names, rest = list(dict.fromkeys(group)), {name: value for name, value in fields.items() if name != "group"}
        if len(names) < 2:
            return rest | {"group": names[0] if names else None}
        if rest.get("entities") not in (None, [], names):
            raise ValueError("group and entities both name what stays together; give one")
        return rest | {"entities": names}

    @model_validator(mode="after")
    def _one_kind_of_group(self) -> Columns:
        if len(self.entities) == 1 or (self.entities and self.group):
            raise ValueError("entities are two columns or more, and no group beside them; name one column as group")
        return self

    @field_validator("key", "stratify", "balance_on", mode="before", json_schema_input_type=list[str] | str | None)
    @classmethod
    def _one_or_several(cls, value: Any) -> Any:
        if not isinstance(value, (list, tuple)):
            return [value] if isinstance(value, str) else [] if value is None else value
        return [name for i, name in enumerate(value) if name not in value[:i]]

    @field_validator("coordinates")
    @classmethod
    def _of_a_plane(cls, value: list[str]) -> list[str]:
        if len(value) not in (0, 2) or len(set(value)) < len(value):
            raise ValueError(f"{value!r} is not a place in a plane; name two columns, such as [x, y]")
        return value

    @field_validator("key")
    @classmethod
    def _not_reserved(cls, value: list[str]) -> list[str]:
        for name in value:
            if re.fullmatch(r"fold(_r\d+)?|stratum(_\d+)?|group_code|status", name):
                raise ValueError(f"key column {name!r} is called as a column of the manifest; rename it")
        return value

    @property
    def grouped(self) -> list[str]:
        """The columns whose rows stay together: the group, or several entities; none where nothing is named."""
        return [self.group] if self.group else self.entities

    @property
    def shared_out(self) -> list[str]:
        """The columns of which every fold is to have its share: those to stratify by, else the target, if any."""
        return [name for name in (*self.stratify, None if self.stratify else self.target) if name]

    def roles(self) -> list[str]:
        """Return every named column, each once."""
        times = [self.time, self.label_end]
        names = [*self.key, self.target, *self.grouped, *self.stratify, *times, self.fold, *self.balance_on]
        names += self.coordinates
        return list(dict.fromkeys(name for name in names if name))

    def kept_from_models(self, listed: Collection[str] | None) -> list[str]:
        """Return the named columns that are no features: all, but for coordinates that a model lists."""
        return [name for name in self.roles() if name not in self.coordinates or name not in (listed or ())]


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
