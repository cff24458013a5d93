"""What a specification, and every record that others read, has in common."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict


class Strict(BaseModel):
    """Frozen, and without fields that it does not know."""

    model_config = ConfigDict(extra="forbid", frozen=True)
