"""The base of a specification, and of every record that others read."""

from __future__ import annotations

from typing import Annotated, NotRequired

from pydantic import BaseModel, ConfigDict, Field, with_config
from typing_extensions import TypedDict


class Strict(BaseModel):
    """Frozen, and without fields that it does not know."""

    model_config = ConfigDict(extra="forbid", frozen=True)


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
