"""What a flow is asked, as a form that reads well on the command line, in a file and in a user interface."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

from evenfold.estimates import Estimate, FoldScore, ModelSpec
from evenfold.manifests import BalanceReport, SplitSpec, explain, read_spec
from evenfold.splitters import SplitError
from pydantic import BaseModel, ConfigDict, Field, ValidationError


class _Request(BaseModel):
    """What is asked of a flow; a specification or a model may come as a mapping, a file, or itself.

    Raises SplitError or ModelError that names each field which does not fit.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", arbitrary_types_allowed=True)

    def __init__(self, **fields: Any) -> None:
        readers = {"spec": read_spec, "model": ModelSpec.of}
        read = {name: readers[name](value) if name in readers else value for name, value in fields.items()}
        try:
            super().__init__(**read)
        except ValidationError as error:
            raise SplitError(explain(error, "the request", type(self))) from None


class SplitRequest(_Request):
    """Split data and record the manifest."""

    data: str = Field(description="Path of a Parquet or CSV file, a folder or a glob of them.")
    spec: SplitSpec = Field(default=SplitSpec(), description="What decides the split.")
    refresh: bool = Field(default=False, description="Compute again what the cache holds.")
    allow_partial: bool = Field(default=False, description="Aggregate the folds that there are, tagged as partial.")


class EvaluateRequest(SplitRequest):
    """Split data, train one model per fold or draw, and record the estimate."""

    manifest: str | None = Field(default=None, description="A manifest to evaluate on, instead of splitting anew.")
    model: ModelSpec = Field(default=ModelSpec(), description="What is trained and how it is scored.")
    on: Literal["folds", "holdout"] = Field(default="folds", description="The locked part needs a reason.")
    reason: str = Field(default="", description="Why the holdout is looked at; recorded with the look.")
    apparent: Literal["full", "resample"] = Field(
        default="full", description="Bootstraps: one fit on all rows, or also each resample on itself."
    )
    run_label: str = Field(default="", description="Another label makes another MLflow run of the same evaluation.")
    time_limit: float | None = Field(
        default=None, gt=0, description="Seconds after which a fit is stopped; each runs in a process of its own then."
    )
    log_models: Literal["none", "final", "all"] = Field(
        default="none", description="Models in MLflow: one of all rows, or one per fold as well; each is one more fit."
    )


class TuneRequest(EvaluateRequest):
    """Try configurations of a model on every fold, and choose one."""

    grid: dict[str, list[Any]] = Field(description="Values to try of each parameter.")
    n_random: int | None = Field(default=None, ge=1, description="Try so many of the combinations, at random.")
    metric: str | None = Field(default=None, description="What is maximised; the model's first metric if left out.")
    one_standard_error: bool = Field(default=False, description="The first that is as good, in the grid's order.")


class Tuning(BaseModel):
    """What a tuning came to: every configuration's score, the choice, and what the winner is worth."""

    model_config = ConfigDict(frozen=True)

    split: dict[str, Any]
    metric: str
    configurations: list[dict[str, Any]]
    scores: list[float]
    spreads: list[float | None]
    best: int
    chosen: int
    naive: float
    value: float
    low: float
    high: float
    notes: list[str]
    model: ModelSpec
    n_fits: int
    n_cached: int
    run_id: str
    look: Evaluation | None = None


class ExtendRequest(_Request):
    """Extend a manifest by the new rows of the data, and record the new version."""

    manifest: str = Field(description="Folder of the manifest.")
    data: str = Field(description="The whole current table, or with batch the new rows only.")
    batch: bool = Field(default=False, description="The data are new rows only.")
    merged: Literal["quarantine", "accept"] = Field(default="quarantine", description="Groups that became one.")


class ExtendOutcome(BaseModel):
    """What an extension came to."""

    model_config = ConfigDict(frozen=True)

    split: dict[str, Any]
    parent_split_id: str | None
    added: int
    deleted: int
    returned: int
    quarantined: int
    moved: int
    notes: list[str]
    balance: BalanceReport
    run_id: str


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
    n_fits: int
    seconds: float
    look: int | None = None


Tuning.model_rebuild()


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


Say = Callable[[str, int, int], None]


def silent(what: str, done: int, of: int) -> None:
    """Say nothing."""
