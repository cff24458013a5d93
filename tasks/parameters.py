"""Parameters of several functions, each declared once; what flows alone are asked stands in ``requests``.

What other rooms have is imported when it is needed: help comes at once.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from evenfold.splitters.errors import SplitError
from pydantic import AfterValidator, BeforeValidator, Field, WithJsonSchema
from pydantic.json_schema import SkipJsonSchema

from evenfold import estimates, manifests

if TYPE_CHECKING:
    from evenfold.estimates import ModelSpec
    from evenfold.manifests import SplitSpec


@dataclass(frozen=True)
class Flag:
    """The description of a parameter, and its flag where that is not ``--name VALUE``.

    ``takes``: what stands for its value in the help, which shows it below ``panel``. ``names``: instead of the
    parameter's own. ``example``: it is a mapping, written as NAME=JSON, such as this one. ``hidden``: it has no
    flag. ``argument``: it has none either, but a place. ``least``: no number may be smaller. ``read`` makes of what is
    typed what it stands for.
    """

    panel: str
    words: str
    takes: str = ""
    default: Any = None
    names: tuple[str, ...] = ()
    example: str = ""
    hidden: bool = False
    argument: str = ""
    least: int | None = None
    read: Callable[[Any], Any] | None = None

    @classmethod
    def of(cls, kind: Any) -> Flag:
        """Return what is said in a parameter's type."""
        return next(part for part in kind.__metadata__ if isinstance(part, cls))


# A description, by the panel of the help that shows it.
data, split, model, output, run = (partial(Flag, panel) for panel in ("Data", "Split", "Model", "Output", "Run"))
column = partial(data, takes="COLUMN")


def mapping(flag: str, takes: str, example: str, words: str, panel: str = "Split") -> Flag:
    """Return the flag of a mapping, which is repeated for each of its items."""
    return Flag(panel, words, takes, names=(flag,), example=example)


def repeats_of(repeats: Any) -> Any:
    """Return repeats as they are typed, "auto" or a number; raises SplitError for anything else."""
    number = int(repeats) if isinstance(repeats, str) and repeats.isdecimal() else repeats
    if number == "auto" or (isinstance(number, int) and not isinstance(number, bool) and number >= 1):
        return number
    raise SplitError(f"there cannot be {repeats!r} repeats of the folds; choose auto, or a number such as 10.")


def _folder(reference: Any) -> Any:
    from .references import manifest_folder

    return str(manifest_folder(reference))


def _strategy(strategy: Any) -> Any:
    from evenfold.splitters.base import strategy_recipe

    return strategy if strategy is None or isinstance(strategy, str) else strategy_recipe(strategy)


def _build(build: Any) -> Any:
    if build is None:
        return None
    from evenfold.manifests.audits.pipelines import path_of_build

    return path_of_build(build)


def _grid(source: Any) -> Any:
    from evenfold.estimates.selection import grid_of

    return grid_of(source)


def _metric(metric: Any) -> Any:
    from evenfold.estimates.metrics.scoring import name_of

    return metric if metric is None or isinstance(metric, str) else name_of(metric)


def _metrics(metrics: Any) -> Any:
    several = [metrics] if isinstance(metrics, str) or callable(metrics) else metrics
    return [_metric(each) for each in several] if isinstance(several, (list, tuple)) else several


SeveralNames = str | Sequence[str]

Data = Annotated[
    Any, run("Parquet or CSV file, a folder or a glob of them; in Python also a frame.", argument="FILE"),
    WithJsonSchema({"type": "string"}),
]  # fmt: skip
Folder = Annotated[
    "str | SkipJsonSchema[Any]", BeforeValidator(_folder),
    run("Name of a split (NAME@1.0), its short id, or the folder of its manifest.", argument="MANIFEST"),
]  # fmt: skip
Target = Annotated[str | None, column("Column to predict.")]
SomeNames = Annotated[SeveralNames | None, BeforeValidator(lambda names: [names] if isinstance(names, str) else names)]
Group = Annotated[SomeNames, column("Column whose rows stay together; repeat for several, whose rows share any.")]
Key = Annotated[SomeNames, column("Column that names each row; repeat for several.")]
Time = Annotated[str | None, column("Column that says when a row happened.")]
NSplits = Annotated[
    int | None,
    split("Number of folds or draws.  [default: 5 folds, or 200 resamples]", "N", names=("-k", "--n-splits")),
]
Seed = Annotated[int | None, split("Decides everything that is random.  [default: 0]", "N")]
Spec = Annotated[
    "SplitSpec | SkipJsonSchema[Mapping[str, Any]] | str | SkipJsonSchema[Path] | None",
    BeforeValidator(lambda spec: None if spec is None else manifests.read_spec(spec)),
    split("A specification, or its YAML or JSON file; what is given beside it is put over it.", "PATH"),
]
Model = Annotated[
    "ModelSpec | SkipJsonSchema[Any] | str | None",
    BeforeValidator(lambda model: None if model is None else estimates.ModelSpec.of(model)),
    model("Import path of an estimator, or a YAML or JSON file; in Python also the estimator itself. What is given "
          "beside it is put over it.", "NAME or PATH"),
]  # fmt: skip
Strategy = Annotated[
    "SkipJsonSchema[Any] | str | None", BeforeValidator(_strategy),
    split("A strategy, or module:Name of your own; chosen from the columns if left out. In Python also the strategy "
          "itself, a splitter of scikit-learn, or pairs of (train, test) positions.", "NAME"),
]  # fmt: skip
Metrics = Annotated[
    SeveralNames | SkipJsonSchema[Any] | None, BeforeValidator(_metrics),
    model("A scikit-learn scorer, or module:name of your own; repeat for several. In Python also a scorer or a "
          "function of (y_true, y_pred) itself.", "NAME", names=("--metric",)),
]  # fmt: skip
Build = Annotated[
    "SkipJsonSchema[Any] | str | None", BeforeValidator(_build),
    model("Import path of the function that builds features, build(train, test) or build(frame), which the audit then "
          "asks by changing its input; in Python also the function itself.", "NAME"),
]  # fmt: skip
Intervals = Annotated[
    Literal["auto", "bootstrap", "corrected_t", "nested", "none"],
    model("How intervals are made; nested asks for further fits.", "METHOD", default="auto"),
]
Level = Annotated[
    float, Field(gt=0, lt=1),
    model("Share of the cases in which an interval is to hold the truth.", "SHARE", default=0.95),
]  # fmt: skip
Repeats = Annotated[
    Literal["auto"] | int, BeforeValidator(repeats_of),
    run("Repeats of the folds to compare on: auto takes up to 10 that cost up to a minute of fits, 1 those "
        "that were recorded.", "auto or N", default="auto"),
]  # fmt: skip
TimeLimit = Annotated[
    float | None, Field(gt=0),
    run("Seconds after which a fit is stopped; each has a process of its own then.", "SECONDS"),
]  # fmt: skip
LogModels = Annotated[
    Literal["none", "final", "all"],
    output("Models in MLflow: one of all rows, or one per fold as well; each is one more fit.", default="none"),
]
AllowPartial = Annotated[bool, output("Aggregate even if folds failed, tagged as partial.", default=False)]
Engine = Annotated[
    Literal["prefect", "plain"], run("Run the steps as Prefect tasks, or plainly without Prefect.", default="prefect")
]
DataEngine = Annotated[
    Literal["auto", "memory", "duckdb", "dask", "spark"],
    run("Where rows are sorted: in memory, out of core by DuckDB, or on a cluster.", default="auto"),
]
Memory = Annotated[
    str | None,
    run("Memory for the table, such as 2GB; DuckDB works on disk above.  [default: 1/4 of what is free]", "SIZE"),
]
OnRefused = Annotated[
    Literal["stop", "new_major"],
    split("Where rows cannot join the champion's split: stop, or take another, which forgets the tested.",
          default="stop"),
]  # fmt: skip
Merged = Annotated[
    Literal["quarantine", "accept"], data("What happens to rows of groups that became one.", default="quarantine")
]
Grid = Annotated[
    "Mapping[str, Sequence[Any]] | str | SkipJsonSchema[Path]", BeforeValidator(_grid),
    model("Values to try of each parameter: a YAML or JSON file, or '{alpha: [0.1, 1]}' itself.", "PATH"),
]  # fmt: skip
Metric = Annotated[
    "str | SkipJsonSchema[Any] | None", BeforeValidator(_metric),
    run("The scorer that decides; the model's first if left out.", hidden=True),
]  # fmt: skip


def _of_a_model(name: str | None) -> str | None:
    if name is not None and not (name.isprintable() and name[:1] not in " -." and not set(name) & set("/:'\"")):
        raise ValueError(f"{name[:60]!a} cannot name a model; write one in plain letters, without '/', ':' and quotes")
    return name


RegisteredName = Annotated[
    str | None, AfterValidator(_of_a_model), output("Name in the registry.  [default: the split's]", "NAME")
]
_Run = Annotated[str, BeforeValidator(lambda run: getattr(run, "run_id", run))]
RunA = Annotated[_Run, run("MLflow run of an evaluation.", argument="RUN_A")]
RunB = Annotated[_Run, run("MLflow run of another, on the same split.", argument="RUN_B")]
