"""The base of a specification and of every record that others read; and what to say of one that does not fit."""

from __future__ import annotations

from types import NoneType, UnionType
from typing import Annotated, Any, NotRequired, Union, get_args, get_origin

from evenfold.splitters.errors import meant
from pydantic import BaseModel, ConfigDict, Field, ValidationError, with_config
from typing_extensions import TypedDict


class Strict(BaseModel):
    """Frozen, and without fields that it does not know."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    @classmethod
    def elsewhere(cls, name: str, value: Any) -> str | None:
        """Return where a field that this model does not know belongs; None where nobody knows."""
        return None


MOST_TOLD = 5  # of what does not fit


def explain(error: ValidationError, what: str, model: type[BaseModel]) -> str:
    """Return a validation error as one sentence: what each field is, or what it may have been meant to be."""
    from evenfold.splitters.numbers import is_whole  # with numpy, which whoever shows a header does without

    unknown = [problem for problem in error.errors() if problem["type"] == "extra_forbidden"]
    if unknown:
        *steps, name = map(str, unknown[0]["loc"])
        for step in steps:
            kind = model.model_fields[step].annotation
            model = next(arg for arg in (kind, *get_args(kind)) if isinstance(arg, type) and issubclass(arg, BaseModel))
        where = f"{what}'s {'.'.join(steps)}" if steps else what
        hint = model.elsewhere(name, unknown[0]["input"]) if issubclass(model, Strict) else None
        hint = hint or meant(name, model.model_fields, most=1, cutoff=0.6, show=repr)
        return f"there is no field {name!r} in {where}; {hint or 'it has ' + ', '.join(model.model_fields) + '.'}"
    best: dict[tuple[Any, ...], tuple[tuple[Any, ...], str]] = {}
    for each in error.errors():
        place = fields = each["loc"]
        # A request's parameter may be of several types, which pydantic names: of these the one that came furthest.
        kind = model.model_fields[fields[0]].annotation if fields and fields[0] in model.model_fields else None
        if get_origin(kind) in (Union, UnionType) and len({*get_args(kind)} - {NoneType}) > 1:
            place, fields = fields[:1], fields[:1] + fields[2:]
        if place not in best or len(fields) > len(best[place][0]):
            such = f", such as '{each['input']}'" if each["type"] == "string_type" and is_whole(each["input"]) else ""
            reason = each["msg"].removeprefix("Value error, ") + such
            best[place] = fields, reason[:1].lower() + reason[1:]
    sentences = [": ".join([*([".".join(map(str, fields))] if fields else []), why]) for fields, why in best.values()]
    more = f"; and {len(sentences) - MOST_TOLD:,} more" if len(sentences) > MOST_TOLD else ""
    return f"{what} does not fit: " + "; ".join(sentences[:MOST_TOLD]) + f"{more}."


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
