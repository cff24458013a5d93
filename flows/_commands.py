"""The commands of operations: retrain, doctor, clean, load."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from ._busy import busy
from ._flags import model_of, spec_of

Text = str | None
Data = Annotated[str, typer.Argument(metavar="FILE", help="Parquet or CSV file, a folder or a glob of them.")]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON object instead of tables.")]


def add_commands(app: typer.Typer) -> None:
    """Add the commands to the command line."""
    for command in (retrain, doctor, clean, load):
        app.command()(command)


# As long as its list of flags, which Typer reads from the signature.
def retrain(
    data: Data,
    target: Annotated[Text, typer.Option(help="Column to predict.")] = None,
    group: Annotated[Text, typer.Option(help="Column whose rows stay together.")] = None,
    key: Annotated[list[str] | None, typer.Option(help="Column that names each row; repeat for several.")] = None,
    stratify: Annotated[list[str] | None, typer.Option(help="Column to share out evenly.")] = None,
    time: Annotated[Text, typer.Option(help="Column that says when a row happened.")] = None,
    strategy: Annotated[Text, typer.Option(help="Class name of a strategy.")] = None,
    n_splits: Annotated[int | None, typer.Option("-k", "--n-splits", help="Number of folds or draws.")] = None,
    param: Annotated[list[str] | None, typer.Option(help="A parameter of the strategy, as NAME=JSON.")] = None,
    seed: Annotated[int | None, typer.Option(help="Decides everything that is random.  [default: 0]")] = None,
    name: Annotated[Text, typer.Option(help="What the split is called.  [default: the file's name]")] = None,
    spec: Annotated[Path | None, typer.Option(help="YAML or JSON file with a specification.")] = None,
    holdout: Annotated[float | None, typer.Option(help="Share of the rows to lock away as a test part.")] = None,
    model: Annotated[Text, typer.Option(help="Import path of an estimator, or a YAML or JSON file.")] = None,
    metric: Annotated[list[str] | None, typer.Option(help="A scikit-learn scorer; the first decides.")] = None,
    features: Annotated[list[str] | None, typer.Option(help="A column to learn from; repeat for several.")] = None,
    exclude: Annotated[list[str] | None, typer.Option(help="A column not to learn from; repeat for several.")] = None,
    task: Annotated[Text, typer.Option(help="classification or regression.")] = None,
    registered_name: Annotated[Text, typer.Option(help="Name in the registry.  [default: the split's]")] = None,
    gates: Annotated[bool, typer.Option(help="Stop where a gate of the audit fails.")] = True,
    run_label: Annotated[str, typer.Option(help="Another label retrains the same data again.")] = "",
    engine: Annotated[str, typer.Option(help="prefect, or plain without it.")] = "prefect",
    refresh: Annotated[bool, typer.Option(help="Compute again what the cache holds.")] = False,
    as_json: Json = False,
) -> None:
    """Let new rows of FILE join the split, compare the model with the champion, and register the winner.

    Example: evenfold retrain examples/flights.parquet --target arr_delay --group date --key flight_id
    """
    from evenfold import flows
    from rich.markdown import Markdown

    from ._show import consoles, progress

    columns = {"target": target, "group": group, "key": key, "stratify": stratify, "time": time}
    request: dict[str, Any] = {
        "spec": spec_of(data, spec, columns, strategy, n_splits, param, seed, name, holdout),
        "model": model_of(model, {"metrics": metric, "features": features, "exclude": exclude, "task": task}),
        "registered_name": registered_name,
        "gates": gates,
        "run_label": run_label,
        "refresh": refresh,
    }
    out, err = consoles()
    with progress(err) as say:
        outcome = flows.retrain(data, engine=engine, say=say, **request)  # type: ignore[arg-type]
    if as_json:
        out.print_json(outcome.model_dump_json())
    else:
        out.print(Markdown(outcome.report))


def doctor(as_json: Json = False) -> None:
    """Look at servers, stores, versions, clocks and what killed flows left; exit code 1 where something is wrong.

    Example: evenfold doctor
    """
    from evenfold.tasks import Home, prepare_environment
    from evenfold.tasks.doctor import examine

    from ._show import consoles

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
    from evenfold.tasks.clean import age_of
    from evenfold.tasks.clean import clean as remove

    from ._show import consoles

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

    from ._show import consoles

    prepare_environment(Home.here())
    with busy(f"looking for {reference}"):
        found = load_split(reference)
    told = {"name": found.name, "version": found.version, "split_id": found.split_id, "uri": str(found.uri)}
    out, _ = consoles()
    if as_json:
        out.print_json(data=told)
    else:
        out.print(f"{found.name} {found.version}: split_id {found.split_id[:16]}\n  manifest {found.uri}")
