"""The flows, each declared once: Python, Prefect's forms, deployments and the command line are made of these.

What they do stands in what ``flow`` names; here nothing is imported for it: the help of a command is there at once.
"""

# mypy: disable-error-code="empty-body"
from __future__ import annotations

from typing import TYPE_CHECKING, Unpack

from evenfold.tasks import requests as of
from evenfold.tasks.parameters import Data, Folder, Grid, Metrics, Model, RunA, RunB, Spec

if TYPE_CHECKING:
    from evenfold.estimates import Comparison
    from evenfold.tasks.record.models.retraining import Retraining

    from .outcomes import Evaluation, ExtendOutcome, Planned, SplitOutcome, Tuning


def split(data: Data, spec: Spec = None, **fields: Unpack[of.SplitRunFields]) -> SplitOutcome:
    """Split FILE and record the manifest.

    The same rows and the same specification are split once: the second call says ``cached``. Raises SplitError where
    the data or the specification do not allow it. A table that takes more than ``memory`` is sorted out of core by
    DuckDB, or by ``data_engine``; the folds and their identities are the same.

    Example: evenfold split examples/flights.parquet --target arr_delay --group date --key flight_id
    """


def evaluate(data: Data, spec: Spec = None, model: Model = None, **fields: Unpack[of.SegmentFields]) -> Evaluation:
    """Split FILE, train a model per fold, and record the estimate.

    One model is trained per fold, or per draw in blocks. Finished fits come from the cache, so a run that died goes on
    where it stopped. Raises SplitError or ModelError for bad input and EvaluationError where a fold could not be
    evaluated; the split and the finished folds are then kept.

    With ``by`` each value of a column is a segment, with a split and a score by the same strategy, recipe
    and first metric; one run holds the table of them, and ``Segments`` come back. A segment that cannot be split or
    fitted is a row of the table with its sentence; EvaluationError where none can be.

    Example: evenfold evaluate examples/flights.parquet --target arr_delay --group date --exclude dep_delay
    """


def plan(data: Data, spec: Spec = None, model: Model = None, **fields: Unpack[of.PlanFields]) -> Planned:
    """Say what evaluate, or retrain, would compute, and why; nothing is run or recorded.

    Of each step: how many of its results lie in the store; why the others do not, by what differs from the nearest
    earlier result of the same kind and split; and the seconds that such fits took. A split that was not decided yet is
    decided for it, aside, and what a retraining would let join is joined there. Raises what these raise for bad input;
    the gates, what the champion says of the new rows and the decision are of the retraining itself.

    Example: evenfold plan examples/flights.parquet --target arr_delay --group date --exclude dep_delay
    """


def tune(data: Data, spec: Spec = None, model: Model = None, *, grid: Grid, **fields: Unpack[of.TuneFields]) -> Tuning:
    """Try every configuration of a grid on every fold, and say what the winner is worth.

    Each fit of each configuration is cached on its own. With ``nested`` the choice is made anew inside the training
    rows of every fold, by folds of the same strategy, and what was chosen is scored on the fold: the score of choosing
    so, which nothing flatters, at the price of as many fits again for every fold. With on="holdout" and a reason, the
    winner is fitted on all rows but the locked ones and scored on those, once. Raises as ``evaluate`` does.

    Example: evenfold tune examples/flights.parquet --grid grid.yaml --target arr_delay --group date
    """


def extend(manifest: Folder, data: Data, **fields: Unpack[of.ExtendFields]) -> ExtendOutcome:
    """Add the new rows of FILE to MANIFEST; no assigned row changes its fold.

    The next version of the manifest is written beside it, and recorded. FILE is the whole table, or with --batch new
    rows alone; where more of the known rows are missing than --max-missing allows, nothing is written: SplitError.
    Rows that take more than ``memory`` are refused.

    Example: evenfold extend .evenfold/splits/flights/1.0 examples/flights.parquet
    """


def retrain(data: Data, spec: Spec = None, model: Model = None, **fields: Unpack[of.RetrainFields]) -> Retraining:
    """Let new rows of FILE join the split, compare the model with the champion, and register the winner.

    The rule of promotion is in the outcome. The same data, recipe, metric, interval and label are retrained once.
    Before anything is learnt, FILE is compared with the last table: rows that vanished, targets that changed or
    shifted, lost columns and odd numbers of new rows stop it, as a failed gate of the audit does: GateError. Raises
    what ``evaluate`` raises too.

    Example: evenfold retrain examples/flights.parquet --target arr_delay --group date --key flight_id
    """


def compare(run_a: RunA, run_b: RunB, metrics: Metrics = None, **fields: Unpack[of.CompareFields]) -> list[Comparison]:
    """Compare two evaluations row by row, over repeats of the folds where their fits are short.

    A run is its id, or what ``evaluate`` returned, which names it.
    Both must rest on the same split. Versions of one split that grew are compared on the rows that both tested, and
    the comparison says so. Raises SplitError for runs of different splits, or without predictions, and where a number
    of ``repeats`` is asked for that cannot be had.

    Example: evenfold compare RUN_A RUN_B --metric r2
    """
