"""The flags that several commands share."""

from __future__ import annotations

import json
import re
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperGroup


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


def spec_of(
    data: str,
    file: Path | None,
    columns: dict[str, Any],
    strategy: str | None,
    n_splits: int | None,
    param: list[str] | None,
    seed: int | None,
    name: str | None,
    holdout: float | None,
) -> Any:
    """Return the specification in the file with the flags put over it."""
    from evenfold.manifests import read_spec

    base = read_spec(file).model_dump(exclude_unset=True) if file else {}
    fields = {"strategy": strategy, "seed": seed, "name": name or base.get("name") or _name_of(data)}
    said = values_of("--param", param, 'NAME=JSON, such as leftovers="end"')
    params = {**base.get("params", {}), **said, **({} if n_splits is None else {"n_splits": n_splits})}
    fields["holdout"] = None if holdout is None else {"fraction": holdout}
    given = {field: value for field, value in columns.items() if value}
    merged = base | {field: value for field, value in fields.items() if value is not None}
    return read_spec(merged | {"params": params, "columns": base.get("columns", {}) | given})


def _name_of(data: str) -> str:
    return re.sub(r"[^A-Za-z0-9._-]", "-", Path(data).stem).strip("._-")[:100] or "split"


def values_of(flag: str, given: list[str] | None, example: str) -> dict[str, Any]:
    """Return what NAME=JSON flags say; a value that is no JSON is text."""
    from evenfold.splitters import SplitError

    values: dict[str, Any] = {}
    for each in given or []:
        name, equals, value = each.partition("=")
        if not equals:
            raise SplitError(f"{flag} {each!r} has no '='; write {example}.")
        try:
            values[name] = json.loads(value)
        except json.JSONDecodeError:
            values[name] = value
    return values


def model_of(given: str | None, fields: dict[str, Any]) -> Any:
    """Return the model that a file or an import path names, with the fields of the flags put over it."""
    from evenfold.estimates import ModelSpec

    base = ModelSpec.read(given) if given and given.endswith((".yaml", ".yml", ".json")) else ModelSpec.of(given)
    changed = {name: value for name, value in fields.items() if value}
    return ModelSpec.of(base.model_dump(exclude_unset=True) | changed)


SHORT = {
    "demo": "Show the product on real data: a leak found, and .632.",
    "split": "Split FILE and record the manifest.",
    "evaluate": "Split FILE, train a model per fold, record the estimate.",
    "retrain": "Let new rows join, compare with the champion, register.",
    "extend": "Add new rows to a manifest; no assigned row moves.",
    "audit": "Say what is wrong with a split: leaks, rows, uneven folds.",
    "verify": "Prove that a manifest is what was written.",
    "diff": "Say which rows moved, joined or left between two manifests.",
    "show": "Show a manifest: asked, identity, how many rows are where.",
    "export": "Write the folds as scikit-learn, H2O, Spark, nnU-Net read them.",
    "import": "Make a manifest of folds that were decided elsewhere.",
    "join": "Write the rows that one fold trains on or tests.",
    "load": "Find a split in MLflow and download its manifest.",
    "compare": "Compare two evaluations row by row.",
    "tune": "Try a grid on every fold; what the winner is worth.",
    "folds": "Show what the number of folds does to the estimate.",
    "strategies": "Show what stratifying does to the estimate's variance.",
    "doctor": "Look at servers, stores, versions and clocks; what to fix.",
    "ui": "Open MLflow's and Prefect's pages on what was recorded.",
    "clean": "Remove old cached results; never manifests or records.",
}
EPILOG = (
    "\b\nExit codes: 0 done, 1 a gate failed, 2 bad input, 3 an evaluation failed.\n"
    "Every command has an example in its own --help, and --json for machines."
)
WIDTH = 76


class Commands(TyperGroup):
    """The commands in the order of SHORT; one that is missing there comes last, with its own first sentence."""

    def list_commands(self, ctx: Any) -> list[str]:
        """Return the names in that order."""
        places = {name: place for place, name in enumerate(SHORT)}
        return sorted(super().list_commands(ctx), key=lambda name: places.get(name, len(places)))

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """Return the command with a short help that fits a line, and an example that fits a screen."""
        command = super().get_command(ctx, cmd_name)
        if command is not None and "\b" not in (command.help or ""):
            command.short_help = SHORT.get(cmd_name, command.short_help)
            command.help = pasted(command.help or "")
        return command


def pasted(text: str) -> str:
    """Return a help text whose example stands alone, broken between flags so that a shell can take it as it is."""
    before, found, example = text.partition("Example: ")
    if not found:
        return text
    lines = [""]
    for part in re.split(r" (?=-)", " ".join(example.split())):
        if lines[-1] and len(lines[-1]) + len(part) + 3 > WIDTH:
            lines[-1] += " \\"
            lines.append("    ")
        lines[-1] += part if not lines[-1].strip() else f" {part}"
    return f"{before}\b\nExample:\n  " + "\n  ".join(lines)
