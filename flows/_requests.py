"""What a flow is asked, as a form that reads well on the command line, in a file and in a user interface."""

from __future__ import annotations

from typing import Any

from evenfold.estimates import Estimate, FoldScore, ModelSpec
from evenfold.manifests import BalanceReport, SplitSpec
from pydantic import BaseModel, ConfigDict, Field


class SplitRequest(BaseModel):
    """Split data and record the manifest."""

    model_config = ConfigDict(frozen=True, extra="forbid", arbitrary_types_allowed=True)

    data: str = Field(description="Path of a Parquet or CSV file, a folder or a glob of them.")
    spec: SplitSpec = Field(default=SplitSpec(), description="What decides the split.")
    refresh: bool = Field(default=False, description="Compute again what the cache holds.")
    allow_partial: bool = Field(default=False, description="Aggregate the folds that there are, tagged as partial.")


class EvaluateRequest(SplitRequest):
    """Split data, train one model per fold or draw, and record the estimate."""

    model: ModelSpec = Field(default=ModelSpec(), description="What is trained and how it is scored.")
    run_label: str = Field(default="", description="Another label makes another MLflow run of the same evaluation.")


class SplitOutcome(BaseModel):
    """What a split came to."""

    model_config = ConfigDict(frozen=True)

    split: dict[str, Any]
    cached: bool
    balance: BalanceReport
    run_id: str


class Evaluation(BaseModel):
    """What an evaluation came to: the split it rests on, every score, the estimates, and where they are recorded."""

    model_config = ConfigDict(frozen=True, arbitrary_types_allowed=True)

    split: dict[str, Any]
    cached: bool
    balance: BalanceReport
    split_run_id: str
    run_id: str
    model: ModelSpec
    task: str
    features: list[str]
    left_out: dict[str, str]
    scores: list[FoldScore]
    apparent: FoldScore | None
    estimates: list[Estimate]
    n_cached: int
    seconds: float
