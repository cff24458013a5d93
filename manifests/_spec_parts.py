"""The parts of a specification: which column plays which part, what is locked away, how keys are disguised."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, field_validator


class Strict(BaseModel):
    """Frozen, and without fields that it does not know."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class Columns(Strict):
    """Which column plays which part."""

    key: list[str] = Field(
        default=[], description="Names each row once and for all; several columns together if need be."
    )
    target: str | None = Field(default=None, description="What a model learns to predict.")
    group: str | None = Field(default=None, description="Rows of one group stay together.")
    stratify: list[str] = Field(default=[], description="What is shared out evenly, where it is not the target.")
    time: str | None = Field(default=None, description="When each row happened.")
    fold: str | None = Field(default=None, description="Folds that were decided elsewhere, for Predefined.")

    @field_validator("key", "stratify", mode="before")
    @classmethod
    def _one_or_several(cls, value: Any) -> Any:
        if not isinstance(value, (list, tuple)):
            return [value] if isinstance(value, str) else value or []
        return [each for i, each in enumerate(value) if each not in value[:i]]

    @field_validator("key")
    @classmethod
    def _not_reserved(cls, value: list[str]) -> list[str]:
        for name in value:
            if name.startswith(("fold", "stratum")) or name in ("group_code", "status"):
                raise ValueError(f"key column {name!r} is called as a column of the manifest; rename it")
        return value

    def roles(self) -> list[str]:
        """Return every named column, each once: columns that no model may use as a feature."""
        named = [*self.key, self.target, self.group, *self.stratify, self.time, self.fold]
        return list(dict.fromkeys(name for name in named if name))


class LockedPart(Strict):
    """A test part that is drawn first and kept from every split: groups whole, the target in its share."""

    fraction: float = Field(default=0.2, description="Share of the rows, between 0 and 1.")
    seed: int = Field(default=0, ge=0, description="Decides which rows.")
    locked: Literal[True] = Field(default=True, description="Each look at it is recorded.")

    @field_validator("fraction")
    @classmethod
    def _is_a_share(cls, value: float) -> float:
        if not 0 < value < 1:
            raise ValueError(f"{value:g} is no share of the rows; 15 % is 0.15")
        return value


class KeyEncoding(Strict):
    """Keys that may leave the building: HMAC-SHA256 under a secret that an environment variable holds."""

    method: Literal["hmac"] = "hmac"
    secret: str = Field(default="EVENFOLD_KEY_SECRET", description="Name of the environment variable.")
    bits: Literal[64, 128] = Field(default=64, description="128 above about 500 million rows.")
