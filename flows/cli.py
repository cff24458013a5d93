"""The command line. Thin: it reads flags, calls a flow, prints what came out."""

from __future__ import annotations

import os
import sys
from enum import StrEnum
from typing import Annotated, Any

import typer
from evenfold.flows.commands.flags import (
    EPILOG,
    Commands,
    Data,
    Engine,
    EngineChoice,
    Exclude,
    Features,
    Group,
    Json,
    Key,
    Limit,
    Locked,
    LogModels,
    Metrics,
    Model,
    ModelsChoice,
    Name,
    Param,
    Refresh,
    Seed,
    Spec,
    Splits,
    Strategy,
    Stratify,
    Target,
    Task,
    Time,
    model_of,
    spec_of,
)
from evenfold.flows.commands.manifests import commands, looking
from evenfold.flows.commands.operations import add_commands
from evenfold.flows.commands.studies import register_studies

app = typer.Typer(
    cls=Commands,
    help="Split data once, evenly and provably; train a model per fold; record an honest estimate.",
    epilog=EPILOG,
    no_args_is_help=True,
    add_completion=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)

app.add_typer(commands)
app.add_typer(looking)

OK, GATE_FAILED, BAD_INPUT, EVALUATION_FAILED = 0, 1, 2, 3


class OnChoice(StrEnum):
    """What an evaluation scores."""

    folds = "folds"
    holdout = "holdout"


class MergedChoice(StrEnum):
    """What happens to groups whose rows lie in several folds."""

    quarantine = "quarantine"
    accept = "accept"


@app.command()
def split(
    data: Data,
    target: Target = None,
    group: Group = None,
    key: Key = None,
    stratify: Stratify = None,
    time: Time = None,
    strategy: Strategy = None,
    n_splits: Splits = None,
    param: Param = None,
    seed: Seed = None,
    name: Name = None,
    spec: Spec = None,
    holdout: Locked = None,
    engine: Engine = EngineChoice.prefect,
    refresh: Refresh = False,
    as_json: Json = False,
) -> None:
    """Split FILE and record the manifest.

    Example: evenfold split examples/flights.parquet --target arr_delay --group date --key flight_id
    """
    columns = {"target": target, "group": group, "key": key, "stratify": stratify, "time": time}
    request = {"spec": spec_of(data, spec, columns, strategy, n_splits, param, seed, name, holdout), "refresh": refresh}
    _run("split", data, engine, as_json, request)


# As long as its list of flags, which Typer reads from the signature.
@app.command()
def evaluate(
    data: Data,
    target: Target = None,
    group: Group = None,
    key: Key = None,
    stratify: Stratify = None,
    time: Time = None,
    strategy: Strategy = None,
    n_splits: Splits = None,
    param: Param = None,
    seed: Seed = None,
    name: Name = None,
    spec: Spec = None,
    holdout: Locked = None,
    model: Model = None,
    metric: Metrics = None,
    features: Features = None,
    exclude: Exclude = None,
    task: Task = None,
    manifest: Annotated[str | None, typer.Option(help="Evaluate on the manifest in this folder.")] = None,
    on: Annotated[OnChoice, typer.Option(help="The folds, or the locked part, which needs a reason.")] = OnChoice.folds,
    reason: Annotated[str, typer.Option(help="Why the locked part is looked at; recorded.")] = "",
    run_label: Annotated[str, typer.Option(help="Another label makes another MLflow run.")] = "",
    time_limit: Limit = None,
    log_models: LogModels = ModelsChoice.none,
    engine: Engine = EngineChoice.prefect,
    refresh: Refresh = False,
    allow_partial: Annotated[bool, typer.Option(help="Aggregate even if folds failed, tagged as partial.")] = False,
    as_json: Json = False,
) -> None:
    """Split FILE, train a model per fold, and record the estimate.

    Example: evenfold evaluate examples/flights.parquet --target arr_delay --group date --exclude dep_delay
    """
    columns = {"target": target, "group": group, "key": key, "stratify": stratify, "time": time}
    request = {
        "spec": spec_of(data, spec, columns, strategy, n_splits, param, seed, name, holdout),
        "model": model_of(model, {"metrics": metric, "features": features, "exclude": exclude, "task": task}),
        "manifest": manifest,
        "on": on.value,
        "reason": reason,
        "run_label": run_label,
        "refresh": refresh,
        "allow_partial": allow_partial,
        "time_limit": time_limit,
        "log_models": log_models.value,
    }
    _run("evaluate", data, engine, as_json, request)


@app.command()
def extend(
    manifest: Annotated[str, typer.Argument(metavar="MANIFEST", help="Folder of a manifest.")],
    data: Data,
    batch: Annotated[bool, typer.Option(help="FILE holds new rows only, not the whole table.")] = False,
    merged: Annotated[
        MergedChoice, typer.Option(help="What happens to groups that became one.")
    ] = MergedChoice.quarantine,
    engine: Engine = EngineChoice.prefect,
    as_json: Json = False,
) -> None:
    """Add the new rows of FILE to MANIFEST; no assigned row changes its fold.

    Example: evenfold extend .evenfold/splits/flights/1.0 examples/flights.parquet
    """
    from evenfold.flows.commands.show import consoles, progress, show_extension

    from evenfold import flows

    out, err = consoles()
    with progress(err) as say:
        outcome = flows.extend(manifest, data, engine=engine.value, say=say, batch=batch, merged=merged.value)
    if as_json:
        out.print_json(outcome.model_dump_json())
    else:
        show_extension(out, outcome)


@app.command()
def demo(engine: Engine = EngineChoice.prefect, as_json: Json = False) -> None:
    """Show the product on real data: a leak found on flights, and .632 on breast cancer.

    Example: evenfold demo --engine plain
    """
    from evenfold.flows.commands.demo import run_demo

    run_demo(engine.value, as_json)


def _run(flow: str, data: str, engine: EngineChoice, as_json: bool, request: dict[str, Any]) -> None:
    from evenfold.flows.commands.show import consoles, progress, show_evaluation, show_split

    from evenfold import flows

    out, err = consoles()
    with progress(err) as say:
        outcome = getattr(flows, flow)(data, engine=engine.value, say=say, **request)
    if as_json:
        out.print_json(outcome.model_dump_json())
    else:
        (show_split if flow == "split" else show_evaluation)(out, outcome)


register_studies(app)
add_commands(app)


def main() -> None:
    """Run the command line; bad input ends with one sentence and exit code 2, a failed evaluation with 3."""
    # A model or strategy of one's own is named by its import path; at the end, so that it hides nothing.
    sys.path.append(os.getcwd())
    try:
        app()
    except Exception as error:
        code = _code_of(error)
        if code is None:
            raise
        _stop(str(error), code)


def _code_of(error: Exception) -> int | None:
    # Imported here: help and completion, which raise none of them, are there at once.
    from evenfold.estimates import EvaluationError, ModelError
    from evenfold.splitters import SplitError

    from .requests import GateError

    if isinstance(error, GateError):
        return GATE_FAILED
    if isinstance(error, (SplitError, ModelError)):
        return BAD_INPUT
    return EVALUATION_FAILED if isinstance(error, EvaluationError) else None


def _stop(message: str, code: int) -> None:
    from evenfold.tasks.runtime.redaction import redacted

    sys.stderr.write(f"evenfold: {redacted(message)}\n")
    sys.exit(code)
