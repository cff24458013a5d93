"""The commands of operations: retrain, doctor, clean, load."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from ._flags import model_of, spec_of

Text = str | None
Data = Annotated[str, typer.Argument(metavar="FILE", help="Parquet or CSV file, a folder or a glob of them.")]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON object instead of tables.")]


def add_commands(app: typer.Typer) -> None:
    """Add the commands to the command line."""
    app.command()(retrain)


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
