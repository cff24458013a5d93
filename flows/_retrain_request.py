"""What a retraining is asked, and what it came to."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from ._requests import EvaluateRequest


class GateError(RuntimeError):
    """A gate of the audit failed: nothing was trained, compared or promoted."""


class RetrainRequest(EvaluateRequest):
    """Let new rows join the split, compare the candidate with the champion, and register the winner."""

    registered_name: str | None = Field(default=None, description="Name in MLflow's registry; the split's by default.")
    metric: str | None = Field(default=None, description="What decides; the first of the model's metrics by default.")
    gates: bool = Field(default=True, description="Stop where a gate of the audit fails.")
    merged: Literal["quarantine", "accept"] = Field(default="quarantine", description="Groups that became one.")


class Retraining(BaseModel):
    """What a retraining came to; ``reused`` where the same one was finished before."""

    model_config = ConfigDict(frozen=True)

    split: dict[str, Any]
    growth: dict[str, Any]
    audit: dict[str, Any]
    champion: dict[str, Any] | None
    evaluation_run_id: str
    decision: dict[str, Any]
    stored_champion: dict[str, Any]
    registered: dict[str, Any] | None
    run_id: str
    report: str
    reused: bool = False
