"""The flags that several commands share."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer


class EngineChoice(StrEnum):
    """What runs the steps."""

    prefect = "prefect"
    plain = "plain"


class ModelsChoice(StrEnum):
    """Which models an evaluation keeps."""

    none = "none"
    final = "final"
    all = "all"


Data = Annotated[str, typer.Argument(metavar="FILE", help="Parquet or CSV file, a folder or a glob of them.")]
Target = Annotated[str | None, typer.Option(help="Column to predict.")]
Group = Annotated[str | None, typer.Option(help="Column whose rows stay together.")]
Key = Annotated[list[str] | None, typer.Option(help="Column that names each row; repeat for several.")]
Stratify = Annotated[list[str] | None, typer.Option(help="Column to share out evenly, instead of the target.")]
Time = Annotated[str | None, typer.Option(help="Column that says when a row happened.")]
Strategy = Annotated[
    str | None, typer.Option(help="A strategy, or module:Name of your own; chosen from the columns if left out.")
]
Splits = Annotated[int | None, typer.Option("-k", "--n-splits", help="Number of folds or draws.")]
Param = Annotated[list[str] | None, typer.Option(help="A parameter of the strategy, as NAME=JSON.")]
Seed = Annotated[int | None, typer.Option(help="Decides everything that is random.  [default: 0]")]
Name = Annotated[str | None, typer.Option(help="What the split is called.  [default: the file's name]")]
Spec = Annotated[Path | None, typer.Option(help="YAML or JSON file with a specification; flags add to it.")]
Locked = Annotated[float | None, typer.Option("--holdout", help="Share of the rows to lock away as a test part.")]
Engine = Annotated[EngineChoice, typer.Option(help="Run the steps with Prefect, or plainly without.")]
Refresh = Annotated[bool, typer.Option(help="Compute again what the cache holds.")]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON object instead of tables.")]
Model = Annotated[str | None, typer.Option(help="Import path of an estimator, or a YAML or JSON file.")]
Metrics = Annotated[list[str] | None, typer.Option("--metric", help="A scikit-learn scorer; repeat for several.")]
Features = Annotated[list[str] | None, typer.Option(help="A column to learn from; repeat for several.")]
Exclude = Annotated[list[str] | None, typer.Option(help="A column not to learn from; repeat for several.")]
Task = Annotated[str | None, typer.Option(help="classification or regression.")]
Limit = Annotated[
    float | None, typer.Option("--time-limit", help="Seconds after which a fit is stopped, in a process of its own.")
]
LogModels = Annotated[ModelsChoice, typer.Option(help="Keep models in MLflow; each is one more fit.")]
