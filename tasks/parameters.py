"""What tasks and flows are asked, each parameter once: its type, its description, and its flag on the command line.

Prefect's forms, flags and checks are made of these. Types of other rooms are named, not imported: help comes at once.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, Protocol, runtime_checkable

from pydantic import AfterValidator, BeforeValidator, Field, WithJsonSchema
from pydantic.json_schema import SkipJsonSchema

if TYPE_CHECKING:
    from evenfold.estimates import ModelSpec
    from evenfold.manifests import SplitSpec

    from .outcomes import SplitRef


@dataclass(frozen=True)
class Flag:
    """How the command line writes a parameter, where it is not ``--name VALUE``.

    ``names``: instead of the parameter's own. ``example``: it is a mapping, written as NAME=JSON, such as this one.
    ``file``: it is a file that holds a mapping, or a word. ``hidden``: it has no flag. ``takes``: what stands for its
    value in the help, which shows it below ``panel``.
    """

    names: tuple[str, ...] = ()
    example: str = ""
    file: bool = False
    hidden: bool = False
    argument: str = ""
    takes: str = ""
    panel: Literal["Data", "Split", "Model", "Output", "Run"] = "Run"


def _engine(given: Any) -> Any:
    if given not in ("prefect", "plain"):
        from evenfold.splitters import SplitError

        raise SplitError(f"there is no engine {given!r}; choose 'prefect' or 'plain'.")
    return given


def repeats_of(given: Any) -> Any:
    """Return repeats as they are typed, "auto" or a number; raises SplitError for anything else."""
    number = int(given) if isinstance(given, str) and given.isdecimal() else given
    if number == "auto" or (isinstance(number, int) and not isinstance(number, bool) and number >= 1):
        return number
    from evenfold.splitters import SplitError

    raise SplitError(f"there cannot be {given!r} repeats of the folds; choose auto, or a number such as 10.")


def _several(given: Any) -> Any:
    return [given] if isinstance(given, str) else given


def _spec(given: Any) -> Any:
    from evenfold.manifests import read_spec

    return given if given is None else read_spec(given)


def _model(given: Any) -> Any:
    from evenfold.estimates import ModelSpec

    return None if given is None else ModelSpec.of(given)


def _folder(given: Any) -> Any:
    from .references import manifest_folder

    return str(manifest_folder(given))


def _grid(given: Any) -> Any:
    if not isinstance(given, (str, Path)):
        return given
    import yaml
    from evenfold.estimates import ModelError
    from evenfold.splitters.deployed import reason_of, require_readable
    from evenfold.splitters.documents import read_document

    inline = str(given).lstrip().startswith("{")
    try:
        require_readable([] if inline else [given])
        grid = read_document(str(given) if inline else Path(given).read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise ModelError(f"there is no grid file {given}; pass one, or the grid: '{{alpha: [0.1, 1]}}'.") from None
    except (OSError, ValueError, yaml.YAMLError) as error:
        raise ModelError(f"the grid {str(given)!r} cannot be read: {reason_of(error)}") from None
    if not isinstance(grid, dict):
        raise ModelError(f"the grid {str(given)!r} holds no parameters; write name: [value, value] for each.")
    return grid


def _of_lists(grid: Any) -> Any:
    for name, values in grid.items() if isinstance(grid, Mapping) else ():
        if isinstance(values, (str, bytes, Mapping)) or not isinstance(values, Iterable):
            told = "null" if values is None else str(values)
            raise ValueError(f"{name} is {told}, which is no list of values to try; write {{{name}: [{told}]}}")
    return grid


SeveralNames = str | Sequence[str]


@runtime_checkable
class OfSplit(Protocol):
    """What the flows return: each says which split it is about."""

    @property
    def split(self) -> SplitRef:
        """The split."""


Data = Annotated[
    Any,
    Field(description="Parquet or CSV file, a folder or a glob of them; in Python also a frame."),
    WithJsonSchema({"type": "string"}),
    Flag(argument="FILE"),
]
Folder = Annotated[
    "str | SkipJsonSchema[Path] | SkipJsonSchema[SplitRef] | SkipJsonSchema[OfSplit]",
    BeforeValidator(_folder),
    Field(description="Folder of a manifest, or the name of a split: NAME@1.0."),
]
ManifestArgument = Annotated[Folder, Flag(argument="MANIFEST")]
Target = Annotated[str | None, Field(description="Column to predict."), Flag(takes="COLUMN", panel="Data")]
SomeNames = Annotated[SeveralNames | None, BeforeValidator(_several)]
Group = Annotated[
    SomeNames,
    Field(description="Column whose rows stay together; repeat for several, whose rows share any."),
    Flag(takes="COLUMN", panel="Data"),
]
Key = Annotated[
    SomeNames,
    Field(description="Column that names each row; repeat for several."),
    Flag(takes="COLUMN", panel="Data"),
]
Stratify = Annotated[
    SomeNames,
    Field(description="Column to share out evenly, instead of the target; repeat for several."),
    Flag(takes="COLUMN", panel="Data"),
]
GroupMode = Annotated[
    Literal["merge", "cross"] | None,
    Field(
        description="Of several groups: keep what they join together, or leave out rows that cross.  [default: merge]"
    ),
    Flag(panel="Data"),
]
BalanceOn = Annotated[
    SomeNames,
    Field(
        description="Column whose shares and scores are reported, and which no model learns from; repeat for several."
    ),
    Flag(takes="COLUMN", panel="Data"),
]
Coordinates = Annotated[
    SomeNames,
    Field(description="Column that says where a row lies, in a plane; give two: x, and y in the same unit."),
    Flag(takes="COLUMN", panel="Data"),
]
Time = Annotated[
    str | None, Field(description="Column that says when a row happened."), Flag(takes="COLUMN", panel="Data")
]
MissingTarget = Annotated[
    Literal["stop", "wait"] | None,
    Field(
        description="Rows without a target: stop, or let them wait outside of every split; extend lets them in once "
        "they have one.  [default: stop]"
    ),
    Flag(panel="Data"),
]
Strategy = Annotated[
    str | None,
    Field(description="A strategy, or module:Name of your own; chosen from the columns if left out."),
    Flag(takes="NAME", panel="Split"),
]
NSplits = Annotated[
    int | None,
    Field(description="Number of folds or draws.  [default: 5 folds, or 200 resamples]"),
    Flag(takes="N", panel="Split", names=("-k", "--n-splits")),
]
Params = Annotated[
    Mapping[str, Any] | None,
    Field(description="A parameter of the strategy, as NAME=JSON; repeatable."),
    Flag(takes="NAME=JSON", panel="Split", names=("--param",), example='leftovers="end"'),
]
Seed = Annotated[
    int | None, Field(description="Decides everything that is random.  [default: 0]"), Flag(takes="N", panel="Split")
]
Name = Annotated[
    str | None,
    Field(description="What the split is called.  [default: the file's name]"),
    Flag(takes="NAME", panel="Split"),
]
Holdout = Annotated[
    float | None,
    Field(description="Share of the rows to lock away as a test part."),
    Flag(takes="SHARE", panel="Split"),
]
Spec = Annotated[
    "SplitSpec | SkipJsonSchema[Mapping[str, Any]] | str | SkipJsonSchema[Path] | None",
    BeforeValidator(_spec),
    Field(description="A specification, or its YAML or JSON file; what is given beside it is put over it."),
    Flag(file=True, takes="PATH", panel="Split"),
]
Model = Annotated[
    "ModelSpec | SkipJsonSchema[Mapping[str, Any]] | str | SkipJsonSchema[Path] | None",
    BeforeValidator(_model),
    Field(description="Import path of an estimator, or a YAML or JSON file; what is given beside it is put over it."),
    Flag(file=True, takes="NAME or PATH", panel="Model"),
]
ModelParams = Annotated[
    Mapping[str, Any] | None,
    Field(description="A parameter of the estimator, as NAME=JSON; repeatable."),
    Flag(names=("--model-param",), example="alpha=1", takes="NAME=JSON", panel="Model"),
]
Metrics = Annotated[
    SomeNames,
    Field(description="A scikit-learn scorer; repeat for several."),
    Flag(takes="NAME", panel="Model", names=("--metric",)),
]
Features = Annotated[
    SomeNames,
    Field(description="A column to learn from; repeat for several."),
    Flag(takes="COLUMN", panel="Model"),
]
Exclude = Annotated[
    SomeNames,
    Field(description="A column not to learn from; repeat for several."),
    Flag(takes="COLUMN", panel="Model"),
]
ModelTask = Annotated[
    Literal["classification", "regression"] | None,
    Field(description="What is predicted: classification (classes) or regression (numbers)."),
    Flag(takes="TASK", panel="Model"),
]
Impute = Annotated[
    Literal["mean", "median", "most_frequent"] | None,
    Field(description="Fill missing numbers with the median, mean or most_frequent of each fold's training rows."),
    Flag(takes="METHOD", panel="Model"),
]
Positive = Annotated[
    str | None,
    Field(description="The class of two that recall, F1, sensitivity, specificity and thresholds are about."),
    Flag(takes="CLASS", panel="Model"),
]
Importance = Annotated[
    Literal["auto", "none"],
    Field(description="Measure what the model uses on test rows, where that costs little, or not."),
    Flag(panel="Model"),
]
OnManifest = Annotated[
    Folder | None,
    Field(description="A split to evaluate on instead of splitting anew: its name, or the folder of its manifest."),
    Flag(takes="SPLIT", panel="Split"),
]
On = Annotated[
    Literal["folds", "holdout"],
    Field(description="The folds, or the locked part, which needs a reason."),
    Flag(panel="Model"),
]
Reason = Annotated[
    str, Field(description="Why the locked part is looked at; recorded."), Flag(takes="TEXT", panel="Model")
]
Apparent = Annotated[
    Literal["full", "resample"],
    Field(description="Bootstraps: one fit on all rows, or also each resample on itself."),
    Flag(panel="Model"),
]
RunLabel = Annotated[
    str, Field(description="Another label makes another MLflow run of the same."), Flag(takes="TEXT", panel="Output")
]
Intervals = Annotated[
    Literal[
        "auto", "wald", "corrected_wald", "stretches", "wilson", "conservative_z", "corrected_t", "bootstrap", "bca",
        "nested", "none",
    ],
    Field(description="How intervals are made; nested and conservative_z ask for further fits."),
    Flag(takes="METHOD", panel="Model"),
]  # fmt: skip
Level = Annotated[
    float,
    Field(gt=0, lt=1, description="Share of the cases in which an interval is to hold the truth."),
    Flag(takes="SHARE", panel="Model"),
]
Margin = Annotated[
    float,
    Field(ge=0, allow_inf_nan=False, description="Difference of scores that does not matter."),
    Flag(takes="NUMBER", panel="Model"),
]
Repeats = Annotated[
    Literal["auto"] | int,
    BeforeValidator(repeats_of),
    Field(
        description="Repeats of the folds to compare on: auto takes up to 10 that cost up to a minute of fits, 1 those "
        "that were recorded."
    ),
    Flag(takes="auto or N", panel="Run"),
]
TimeLimit = Annotated[
    float | None,
    Field(gt=0, description="Seconds after which a fit is stopped; each has a process of its own then."),
    Flag(takes="SECONDS", panel="Run"),
]
LogModels = Annotated[
    Literal["none", "final", "all"],
    Field(description="Models in MLflow: one of all rows, or one per fold as well; each is one more fit."),
    Flag(panel="Output"),
]
AllowPartial = Annotated[
    bool, Field(description="Aggregate even if folds failed, tagged as partial."), Flag(panel="Output")
]
Refresh = Annotated[bool, Field(description="Compute again what the cache holds."), Flag(panel="Run")]
Engine = Annotated[
    Literal["prefect", "plain"],
    BeforeValidator(_engine),
    Field(description="Run the steps as Prefect tasks, or plainly without Prefect."),
    Flag(panel="Run"),
]
DataEngine = Annotated[
    Literal["auto", "memory", "duckdb", "dask", "spark"],
    Field(description="Where rows are sorted: in memory, out of core by DuckDB, or on a cluster."),
    Flag(panel="Run"),
]
Memory = Annotated[
    str | None,
    Field(description="Memory for the table, such as 2GB; DuckDB works on disk above.  [default: 1/4 of what is free]"),
    Flag(takes="SIZE", panel="Run"),
]
Batch = Annotated[bool, Field(description="The data hold new rows only, not the whole table."), Flag(panel="Data")]
MaxMissing = Annotated[
    float,
    Field(ge=0, le=1, description="Share of the known rows that may be missing; more is refused."),
    Flag(takes="SHARE", panel="Data"),
]
OnRefused = Annotated[
    Literal["stop", "new_major"],
    Field(description="Where rows cannot join the champion's split: stop, or take another, which forgets the tested."),
    Flag(panel="Split"),
]
OnUnclear = Annotated[
    Literal["commit", "stop"],
    Field(description="Where nothing can tell whether the new rows are sound: let them in with a warning, or stop."),
    Flag(panel="Split"),
]
Merged = Annotated[
    Literal["quarantine", "accept"],
    Field(description="What happens to rows of groups that became one."),
    Flag(panel="Data"),
]
Grid = Annotated[
    "Mapping[str, Sequence[Any]] | str | SkipJsonSchema[Path]",
    BeforeValidator(_of_lists),
    BeforeValidator(_grid),
    Field(description="Values to try of each parameter: a YAML or JSON file, or '{alpha: [0.1, 1]}' itself."),
    Flag(file=True, takes="PATH", panel="Model"),
]
NRandom = Annotated[
    int | None, Field(ge=1, description="Try so many of the combinations, at random."), Flag(takes="N", panel="Model")
]
Metric = Annotated[
    str | None, Field(description="The scorer that decides; the model's first if left out."), Flag(hidden=True)
]
Nested = Annotated[
    bool,
    Field(description="Choose anew inside the training rows of every fold as well: the score of choosing."),
    Flag(panel="Model"),
]
OneStandardError = Annotated[
    bool, Field(description="Take the first that is as good as the best."), Flag(panel="Model")
]


def _of_a_model(given: str | None) -> str | None:
    if given is not None and not (given.isprintable() and given[:1] not in " -." and not set(given) & set("/:'")):
        raise ValueError(f"{given[:60]!a} cannot name a model; write one in plain letters, without '/', ':' and quotes")
    return given


RegisteredName = Annotated[
    str | None,
    AfterValidator(_of_a_model),
    Field(description="Name in the registry.  [default: the split's]"),
    Flag(takes="NAME", panel="Output"),
]
Gates = Annotated[bool, Field(description="Stop where a gate of the audit fails."), Flag(panel="Run")]
_Run = Annotated[str, BeforeValidator(lambda given: getattr(given, "run_id", given))]
RunA = Annotated[_Run, Field(description="MLflow run of an evaluation."), Flag(argument="RUN_A")]
RunB = Annotated[_Run, Field(description="MLflow run of another, on the same split."), Flag(argument="RUN_B")]
