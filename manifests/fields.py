"""The base of a specification and of records, what to say of one that does not fit, and values that are no names."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from contextlib import suppress
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, NotRequired, Union, get_args, get_origin

from evenfold.splitters.errors import meant
from pydantic import BaseModel, ConfigDict, Field, ValidationError, WithJsonSchema, with_config
from pydantic.functional_validators import BeforeValidator, PlainValidator, field_validator, model_validator
from typing_extensions import TypedDict


class Strict(BaseModel):
    """Frozen, and without fields that it does not know; a model's ``elsewhere`` may say where such a one belongs."""

    model_config = ConfigDict(extra="forbid", frozen=True)


def explain(error: ValidationError, what: str, model: type[BaseModel]) -> str:
    """Return a validation error as one sentence: what each field is, or what it may have been meant to be."""
    unknown = [problem for problem in error.errors() if problem["type"] == "extra_forbidden"]
    if unknown:
        *steps, name = map(str, unknown[0]["loc"])
        for step in steps:
            kind = model.model_fields[step].annotation
            model = next(arg for arg in (kind, *get_args(kind)) if isinstance(arg, type) and issubclass(arg, BaseModel))
        where = f"{what}'s {'.'.join(steps)}" if steps else what
        elsewhere = getattr(model, "elsewhere", lambda name, value: None)
        hint = elsewhere(name, unknown[0]["input"]) or meant(name, model.model_fields, most=1, cutoff=0.6, show=repr)
        return f"there is no field {name!r} in {where}; {hint or 'it has ' + ', '.join(model.model_fields) + '.'}"
    best: dict[tuple[Any, ...], tuple[tuple[Any, ...], str]] = {}
    for each in error.errors():
        place = fields = each["loc"]
        # A request's parameter may be of several types, which pydantic names: of these the one that came furthest.
        kind = model.model_fields[fields[0]].annotation if fields and fields[0] in model.model_fields else None
        if get_origin(kind) in (Union, UnionType) and len({*get_args(kind)} - {NoneType}) > 1:
            place, fields = fields[:1], fields[:1] + fields[2:]
        if place not in best or len(fields) > len(best[place][0]):
            reason = each["msg"].removeprefix("Value error, ")
            best[place] = fields, reason[:1].lower() + reason[1:]
    sentences = [": ".join([*([".".join(map(str, fields))] if fields else []), why]) for fields, why in best.values()]
    return f"{what} does not fit: {'; '.join(sentences)}."


# Of a typed dictionary in JSON: what is written has no field beyond; a reader passes over those that joined later.
WRITTEN = ConfigDict(strict=True, json_schema_extra={"additionalProperties": False})


@with_config(ConfigDict(json_schema_extra={"additionalProperties": False, "required": ["name", "version", "portable"]}))
class Algorithm(TypedDict):
    """The strategy that decided: the same name and version decide the same folds."""

    name: str
    version: int | str
    locking: NotRequired[Annotated[int, Field(description="Version of what locked whole groups before the strategy.")]]
    classes: NotRequired[Annotated[int, Field(description="Version of what took whole floats for classes.")]]
    growing: NotRequired[Annotated[int, Field(description="Version of what placed the rows that joined later.")]]
    portable: NotRequired[
        Annotated[bool, Field(description="Whether every machine and every library version decides the same.")]
    ]  # in a header


# The forms that folds leave in, by the words of --to.
Format = Literal[
    "sklearn", "h2o", "spark", "nnunet", "csv", "groups", "autogluon", "torch", "vertex", "databricks", "bigquery",
    "croissant", "sql",
]  # fmt: skip
EngineName = Literal["auto", "memory", "duckdb", "dask", "spark"]
Dialect = Literal["duckdb", "spark", "bigquery", "snowflake", "postgres"]


def _number(value: Any) -> Any:
    if isinstance(value, (bool, str)):
        raise ValueError(f"{value!r} is not a whole number; write one, such as 5")
    return value


def _limit(value: Any) -> Any:
    if value is False or value == "off":
        return "off"  # as YAML reads off
    try:
        return float("" if isinstance(value, bool) else value)
    except (TypeError, ValueError, OverflowError):
        raise ValueError(f"{value!r:.100} is no limit; write a number, such as 0.1, or off") from None


def _length(value: Any) -> Any:
    if not isinstance(value, bool) and isinstance(value, (int, float, str)):
        with suppress(OverflowError):
            return value if isinstance(value, str) else float(value)
    raise ValueError(f"{value!r:.100} is no length of time; write text, such as '30 days', or a number")


# PlainValidator: what a value is its function alone says; errors of a union would name pydantic's types.
Limit = Annotated[
    float | Literal["off"],
    PlainValidator(_limit),
    WithJsonSchema({"anyOf": [{"type": "number"}, {"enum": ["off", False]}]}),
]
Length = Annotated[
    float | str, PlainValidator(_length), WithJsonSchema({"anyOf": [{"type": "number"}, {"type": "string"}]})
]
GateLimits = Mapping[str, Limit]  # by the name of a gate: the figure beyond which it fails, or "off"
# What a model's own validator makes a list of, from one name or none.
Names = Annotated[
    list[str],
    WithJsonSchema({"anyOf": [{"items": {"type": "string"}, "type": "array"}, {"type": "string"}, {"type": "null"}]}),
]
Whole = Annotated[int, BeforeValidator(_number)]  # neither true for 1 nor "5" for 5: a seed decides folds


def also(shorthand: dict[str, Any]) -> Callable[[dict[str, Any]], None]:
    """Return what adds a shorthand, which a validator reads, to the schema of a field that may be None."""
    # pydantic's own json_schema_input_type of a model ends in a KeyError in pydantic 2.10.
    return lambda schema: schema["anyOf"].append(shorthand)


class LockedPart(Strict):
    """A test part that is drawn first and kept from every split: groups whole, the target in its share."""

    fraction: float = Field(default=0.2, gt=0, lt=1, description="Share of the rows.")
    seed: Whole = Field(default=0, ge=0, description="Decides which rows.")
    locked: Literal[True] = Field(default=True, description="Each look at it is recorded.")
    budget: Whole | None = Field(default=None, ge=1, description="How many looks there may be.")

    @model_validator(mode="before")
    @classmethod
    def _fraction_alone(cls, value: object) -> object:
        if isinstance(value, (int, float)) and not isinstance(value, bool):
            return {"fraction": value}
        return value


SECRET = "EVENFOLD_KEY_SECRET"


class KeyEncoding(Strict):
    """Names of rows that may leave the building: HMAC-SHA256 under a secret that an environment variable holds.

    No other variable is read: who may write a specification could try others' passwords against what is published.
    """

    method: Literal["hmac"] = "hmac"
    secret: str = Field(default=SECRET, description=f"The environment variable: {SECRET}, or {SECRET}_<NAME>.")
    bits: Literal[64, 128] = Field(default=64, description="128 above about 500 million rows.")
    encode: tuple[Literal["key", "group", "stratify"], ...] = Field(
        default=("key", "group"), description="Columns of which roles; stratify too, where its values name somebody."
    )

    @model_validator(mode="before")
    @classmethod
    def _method_alone(cls, value: object) -> object:
        return {"method": value} if isinstance(value, str) else value

    @field_validator("secret")
    @classmethod
    def _is_for_keys(cls, value: str) -> str:
        if not re.fullmatch(rf"{SECRET}(_[A-Z0-9_]+)?", value):
            raise ValueError(f"{value!r} may hold a secret of something else; write {SECRET} or {SECRET}_<NAME>")
        return value
