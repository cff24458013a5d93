"""Parameters of tasks and flows, in groups: each field once, with its type, default, description and flag.

A function takes a group as ``**fields: Unpack[Group]``; ``flat`` makes the same of it for who looks at signatures.
"""

import inspect
from collections.abc import Callable, Mapping
from typing import Annotated, Any, Literal, TypedDict, TypeVar, get_args

from pydantic import Field

from . import parameters as of
from .parameters import Flag, Folder, SomeNames, column, mapping

F = TypeVar("F", bound=Callable[..., Any])


def flat(function: F) -> F:
    """Give a function a signature with each field of its group as a parameter of its own, with its default."""
    function.__signature__ = signature_of(function)  # type: ignore[attr-defined]
    return function


def signature_of(function: Callable[..., Any]) -> inspect.Signature:
    """Return a function's signature with each field of its group as a parameter of its own, with its default."""
    signature, parameters = inspect.signature(function), []
    # What it returns may be named for type checkers alone, so only what it takes is looked up.
    taken = type("Taken", (), {"__annotations__": {p.name: p.annotation for p in signature.parameters.values()}})
    kinds = inspect.get_annotations(taken, globals=inspect.unwrap(function).__globals__, eval_str=True)
    for each in signature.parameters.values():
        if each.kind is not each.VAR_KEYWORD:
            parameters.append(each.replace(annotation=kinds[each.name]))
            continue
        (group,) = get_args(kinds[each.name])
        parameters += [
            inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=Flag.of(kind).default, annotation=kind)
            for name, kind in group.__annotations__.items()
        ]
    return signature.replace(parameters=parameters)


class SpecFields(TypedDict, total=False):
    """Fields that are put over a specification."""

    target: of.Target
    group: of.Group
    group_mode: Annotated[
        Literal["merge", "cross"] | None,
        of.data("Of several groups: keep what they join together, or leave out rows that cross.  [default: merge]"),
    ]
    key: of.Key
    stratify: Annotated[SomeNames, column("Column to share out evenly, instead of the target; repeat for several.")]
    balance_on: Annotated[
        SomeNames,
        column("Column whose shares and scores are reported, and which no model learns from; repeat for several."),
    ]
    coordinates: Annotated[
        SomeNames, column("Column that says where a row lies, in a plane; give two: x, and y in the same unit.")
    ]
    time: of.Time
    label_end: Annotated[str | None, column("Column that says when the target of each row is known, after its time.")]
    fold: Annotated[str | None, column("Column that gives the fold in which a row is tested, from 0 on.")]
    strategy: of.Strategy
    n_splits: of.NSplits
    parts: Annotated[
        Mapping[str, float] | None,
        mapping("--parts", "NAME=SHARE", "train=.8", "A part's name and share, instead of folds; repeatable."),
    ]
    params: Annotated[
        Mapping[str, Any] | None,
        mapping("--param", "NAME=JSON", 'leftovers="end"', "A parameter of the strategy, as NAME=JSON; repeatable."),
    ]
    seed: of.Seed
    name: Annotated[str | None, of.split("What the split is called.  [default: the file's name]", "NAME")]
    holdout: Annotated[float | None, of.split("Share of the rows to lock away as a test part.", "SHARE")]
    missing_target: Annotated[
        Literal["stop", "wait"] | None,
        of.data("Rows without a target: stop, or let them wait outside of every split; extend lets them in once "
                "they have one.  [default: stop]"),
    ]  # fmt: skip
    missing_group: Annotated[
        Literal["refuse", "alone"] | None,
        of.data("Rows without a group: refuse, or each is a group of its own.  [default: refuse]"),
    ]


class SplitFields(SpecFields, total=False):
    """A split, and where its rows are sorted."""

    data_engine: of.DataEngine
    memory: of.Memory


class RecipeFields(TypedDict, total=False):
    """Fields that are put over a recipe."""

    model_params: Annotated[
        Mapping[str, Any] | None,
        mapping("--model-param", "NAME=JSON", "alpha=1", "A parameter of the estimator, as NAME=JSON; repeatable.",
                "Model"),
    ]  # fmt: skip
    metrics: of.Metrics
    features: Annotated[SomeNames, of.model("A column to learn from; repeat for several.", "COLUMN")]
    exclude: Annotated[SomeNames, of.model("A column not to learn from; repeat for several.", "COLUMN")]
    balance: Annotated[str | None, of.model("How training rows are balanced by class, such as class_weight.", "METHOD")]
    threshold: Annotated[
        Literal["tuned", "prevalence"] | float | None,
        of.model("Probability from which the second class is predicted; or tuned, or prevalence.", "SHARE"),
    ]
    target_transform: Annotated[
        str | None, of.model("Import path of a transformer that the target is learnt through.", "NAME")
    ]
    task: Annotated[
        Literal["classification", "regression"] | None,
        of.model("What is predicted: classification (classes) or regression (numbers).", "TASK"),
    ]
    positive: Annotated[
        str | None,
        of.model("The class of two that recall, F1, sensitivity, specificity and thresholds are about.", "CLASS"),
    ]


class LookFields(TypedDict, total=False):
    """Which rows are evaluated."""

    manifest: Annotated[
        Folder | None,
        of.split("A split to evaluate on instead of splitting anew: its name, or the folder of its manifest.", "SPLIT"),
    ]
    rows: Annotated[
        Literal["all", "known"],
        of.data("Of a named split: all of its rows, or those known that FILE holds.", default="all"),
    ]
    on: Annotated[
        Literal["folds", "holdout"], of.model("The folds, or the locked part, which needs a reason.", default="folds")
    ]
    reason: Annotated[str, of.model("Why the locked part is looked at; recorded.", "TEXT", default="")]


class ScoreFields(TypedDict, total=False):
    """Fields of scoring."""

    interval: of.Intervals
    level: of.Level
    time_limit: of.TimeLimit


class RecordFields(TypedDict, total=False):
    """Fields that say how the evaluation of folds is recorded."""

    run_label: Annotated[str, of.output("Another label makes another MLflow run of the same.", "TEXT", default="")]
    log_models: of.LogModels
    allow_partial: of.AllowPartial
    build: of.Build


class RunFields(TypedDict, total=False):
    """Fields that say how steps are run, and whether stored results are made anew."""

    engine: of.Engine
    refresh: Annotated[bool, of.run("Compute again what the cache holds.", default=False)]


class SplitRunFields(SplitFields, RunFields, total=False):
    """Parameters of ``split``."""


class EvaluateFields(SpecFields, RecipeFields, LookFields, ScoreFields, RecordFields, RunFields, total=False):
    """Parameters of the evaluation of one split."""

    importance: Annotated[
        Literal["auto", "none"],
        of.model("Measure what the model uses on test rows, where that costs little, or not.", default="auto"),
    ]


class SegmentFields(EvaluateFields, total=False):
    """Parameters of ``evaluate``."""

    by: Annotated[str | None, column("Column whose values are segments: a split and a score each, in one run.")]


class TuneFields(SpecFields, RecipeFields, LookFields, ScoreFields, RunFields, total=False):
    """Parameters of ``tune``."""

    n_random: Annotated[int | None, Field(ge=1), of.model("Try so many of the combinations, at random.", "N")]
    metric: of.Metric
    one_standard_error: Annotated[bool, of.model("Take the first that is as good as the best.", default=False)]
    nested: Annotated[
        bool,
        of.model("Choose anew inside the training rows of every fold as well: the score of choosing.", default=False),
    ]


class ExtendFields(TypedDict, total=False):
    """Parameters of ``extend``."""

    batch: Annotated[bool, of.data("The data hold new rows only, not the whole table.", default=False)]
    merged: of.Merged
    max_missing: Annotated[
        float, Field(ge=0, le=1),
        of.data("Share of the known rows that may be missing; more is refused.", "SHARE", default=0.1),
    ]  # fmt: skip
    memory: of.Memory
    engine: of.Engine


class DecideFields(TypedDict, total=False):
    """Fields that say how ``retrain`` decides."""

    registered_name: of.RegisteredName
    metric: of.Metric
    gates: Annotated[bool, of.run("Stop where a gate of the audit fails.", default=True)]
    merged: of.Merged
    on_refused: of.OnRefused
    on_unclear: Annotated[
        Literal["commit", "stop", "ask"],
        of.split("Where nothing can tell whether the new rows are sound: let them in with a warning, stop, or ask a "
                 "person, also about warnings.", default="commit"),
    ]  # fmt: skip
    ask_above: Annotated[
        float | None, Field(ge=0, allow_inf_nan=False),
        of.split("With --on-unclear ask: ask about a candidate that is better by more than this.", "NUMBER"),
    ]  # fmt: skip
    answer_within: Annotated[
        float, Field(gt=0, le=8_760),
        of.split("Hours to wait for an answer; without one it is refused.", "HOURS", default=72.0),
    ]  # fmt: skip


class RetrainFields(SpecFields, RecipeFields, ScoreFields, RecordFields, RunFields, DecideFields, total=False):
    """Parameters of ``retrain``."""


class PlanFields(EvaluateFields, DecideFields, total=False):
    """Parameters of ``plan``: those of the other two."""

    retrain: Annotated[bool, of.run("Of a retraining instead of an evaluation.", default=False)]


class AdoptFields(TypedDict, total=False):
    """Fields of folds that were decided elsewhere."""

    params: Annotated[
        Mapping[str, Any] | None,
        mapping("--param", "NAME=JSON", "n_splits=5", "A parameter of --cv, as NAME=JSON; repeatable."),
    ]
    key: of.Key
    target: of.Target
    group: Annotated[str | None, column("Column whose rows the folds keep whole.")]
    time: of.Time
    seed: Annotated[int, of.split("Of a splitter that has none.", default=0)]
    missing_group: Annotated[
        Literal["refuse", "alone"],
        of.data("Rows without a group: refuse, or each is one of its own.", default="refuse"),
    ]
    name: Annotated[str, of.split("What the split is called.", default="adopted")]


class CompareFields(TypedDict, total=False):
    """Parameters of ``compare``."""

    level: of.Level
    margin: Annotated[
        float, Field(ge=0, allow_inf_nan=False),
        of.model("Difference of scores that does not matter.", "NUMBER", default=0.0),
    ]  # fmt: skip
    repeats: of.Repeats
    engine: of.Engine


class StudyFields(RecipeFields, total=False):
    """Parameters of a study of the number of folds, or of ways of stratifying."""

    target: of.Target
    group: of.Group
    key: of.Key
    model: of.Model
