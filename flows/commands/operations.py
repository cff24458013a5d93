"""The commands of operations: retrain, doctor, clean, load."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from .busy import busy
from .flags import (
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
    Metrics,
    Model,
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


def add_commands(app: typer.Typer) -> None:
    """Add the commands to the command line."""
    for command in (retrain, doctor, clean, load):
        app.command()(command)


# As long as its list of flags, which Typer reads from the signature.
def retrain(
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
    registered_name: Annotated[str | None, typer.Option(help="Name in the registry.  [default: the split's]")] = None,
    gates: Annotated[bool, typer.Option(help="Stop where a gate of the audit fails.")] = True,
    run_label: Annotated[str, typer.Option(help="Another label retrains the same data again.")] = "",
    time_limit: Limit = None,
    engine: Engine = EngineChoice.prefect,
    refresh: Refresh = False,
    as_json: Json = False,
) -> None:
    """Let new rows of FILE join the split, compare the model with the champion, and register the winner.

    Example: evenfold retrain examples/flights.parquet --target arr_delay --group date --key flight_id
    """
    from rich.markdown import Markdown

    from evenfold import flows

    from .show import consoles, progress

    columns = {"target": target, "group": group, "key": key, "stratify": stratify, "time": time}
    request: dict[str, Any] = {
        "spec": spec_of(data, spec, columns, strategy, n_splits, param, seed, name, holdout),
        "model": model_of(model, {"metrics": metric, "features": features, "exclude": exclude, "task": task}),
        "registered_name": registered_name,
        "gates": gates,
        "run_label": run_label,
        "time_limit": time_limit,
        "refresh": refresh,
    }
    out, err = consoles()
    with progress(err) as say:
        outcome = flows.retrain(data, engine=engine.value, say=say, **request)
    if as_json:
        out.print_json(outcome.model_dump_json())
    else:
        out.print(Markdown(outcome.report), soft_wrap=False)  # the console's own soft wrap would cut its lines


def doctor(as_json: Json = False) -> None:
    """Look at servers, stores, versions, clocks and what killed flows left; exit code 1 where something is wrong.

    Example: evenfold doctor
    """
    from evenfold.tasks import Home, prepare_environment
    from evenfold.tasks.doctor import examine

    from .show import consoles

    home = Home.here()
    prepare_environment(home)
    with busy("looking at servers and stores"):
        found = examine(home)
    out, _ = consoles()
    if as_json:
        out.print_json(data=[each.to_json() for each in found])
    else:
        for each in found:
            out.print(f"[{'green]ok  ' if each.ok else 'red]BAD '}[/] {each.check}: {each.message}")
            if each.fix:
                out.print(f"       {each.fix}", markup=False)
    raise typer.Exit(0 if all(each.ok for each in found) else 1)


def clean(
    older_than: Annotated[str, typer.Option(help="What nobody wrote or read for so long: 30d, 12h or 4w.")] = "30d",
    dry_run: Annotated[bool, typer.Option(help="Say what would be removed, and remove nothing.")] = False,
    as_json: Json = False,
) -> None:
    """Remove old cached results, scores and data; manifests and records are never touched.

    Example: evenfold clean --older-than 30d --dry-run
    """
    from evenfold.tasks import Home
    from evenfold.tasks.results.clean import age_of, clean as remove

    from .show import consoles

    with busy("looking for what is old"):
        done = remove(Home.here(), age_of(older_than), dry_run)
    out, _ = consoles()
    if as_json:
        out.print_json(data={"files": done.files, "bytes": done.bytes, "dry_run": dry_run})
    else:
        out.print(f"{'would remove' if dry_run else 'removed'} {done.files:,} files, {done.bytes / 1e6:,.1f} MB")


def load(
    reference: Annotated[str, typer.Argument(metavar="SPLIT", help="name@1.1, a name, a split_id or a plan_id.")],
    as_json: Json = False,
) -> None:
    """Find a split that another project recorded in MLflow, and download its manifest.

    Example: evenfold load flights@1.0
    """
    from evenfold.flows import load_split
    from evenfold.tasks import Home, prepare_environment

    from .show import consoles

    prepare_environment(Home.here())
    with busy(f"looking for {reference}"):
        found = load_split(reference)
    told = {"name": found.name, "version": found.version, "split_id": found.split_id, "uri": str(found.uri)}
    out, _ = consoles()
    if as_json:
        out.print_json(data=told)
    else:
        out.print(f"{found.name} {found.version}: split_id {found.split_id[:16]}\n  manifest {found.uri}")
