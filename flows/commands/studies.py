"""Commands that compare: compare, folds, strategies."""

from __future__ import annotations

import json
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer
from evenfold.flows import definitions
from evenfold.tasks.parameters import Data, Exclude, Features, Flag, Group, Key, Metrics, Model, NSplits, Seed, Target
from pydantic import Field

from .busy import busy
from .flags import command_of

PictureOrPage = Annotated[
    Path, Field(description="Where it goes: a page, or a picture (.svg)."), Flag(names=("-o", "--output"))
]
Counts = Annotated[str, Field(description="Numbers of folds: 5..100, or 5,10,20."), Flag(names=("--k",))]
NSeeds = Annotated[int, Field(description="Partitions of each way.")]


def register_studies(app: typer.Typer) -> None:
    """Add the commands to ``app``."""
    app.command("compare")(command_of(definitions.compare, compare))
    for study in (folds, strategies):
        app.command()(command_of(study))


def compare(
    run_a: str,
    run_b: str,
    as_json: bool,
    metrics: list[str] | None = None,
    level: float = 0.95,
    margin: float = 0.0,
) -> None:
    """Print how two evaluations compare, row by row."""
    from evenfold.flows.comparison import compare_runs

    from .console import consoles

    out, _ = consoles()
    with busy(f"comparing run {run_a} with run {run_b}"):
        comparisons = compare_runs(run_a, run_b, metrics, level=level, margin=margin)
    if as_json:
        out.print_json(json.dumps([asdict(comparison) for comparison in comparisons]))
        return
    for comparison in comparisons:
        out.print(f"{comparison.metric}: {comparison.words}")
        for note in comparison.notes:
            out.print(f"  {note}")


def folds(
    data: Data,
    target: Target = None,
    group: Group = None,
    key: Key = None,
    counts: Counts = "5..50",
    model: Model = None,
    metrics: Metrics = None,
    features: Features = None,
    exclude: Exclude = None,
    seed: Seed = None,
    output: PictureOrPage = Path("folds.html"),
    as_json: bool = False,
) -> None:
    """Show what the number of folds does to the mean over folds, its spread, and the pooled score.

    Later evaluations of the same rows and model have the curve in their report.

    Example: evenfold folds examples/flights.parquet --target arr_delay --k 5,10,20
    """
    from evenfold.flows.evaluation import recipe_of
    from evenfold.reports import fold_count_html, fold_count_pictures
    from evenfold.tasks import Home
    from evenfold.tasks.runtime.limits import limited
    from evenfold.tasks.runtime.running import say
    from evenfold.tasks.work import keep_study

    from .fold_counts import counted, counts_of, keep_in_record, problem_of, show_table, write_study
    from .show import consoles, progress

    columns = {"target": target, "group": group, "key": key}
    problem = problem_of(data, columns, recipe_of(model, metrics=metrics, features=features, exclude=exclude))
    with limited(1), progress(consoles()[1]):
        table = counted(problem, counts_of(counts), seed or 0, say)
    keep_study(Home.here(), problem, table)
    page = partial(fold_count_html, problem, table)
    write_study(page, fold_count_pictures(table), output)
    about = {"data": Path(data).name, "counts": counts, "seed": str(seed or 0)}
    keep_in_record(data, "number of folds", problem, about, page(), table)
    show_table(table, output, as_json)


def strategies(
    data: Data,
    target: Target = None,
    key: Key = None,
    n_splits: NSplits = None,
    n_seeds: NSeeds = 20,
    model: Model = None,
    metrics: Metrics = None,
    features: Features = None,
    exclude: Exclude = None,
    seed: Seed = None,
    output: PictureOrPage = Path("strategies.html"),
    as_json: bool = False,
) -> None:
    """Show what stratifying does to the variance of estimates, as ratios to random folds'.

    Example: evenfold strategies examples/flights.parquet --target arr_delay --n-seeds 5
    """
    from evenfold.estimates import stratification_study
    from evenfold.flows.evaluation import recipe_of
    from evenfold.reports import strategies_html, strategy_pictures
    from evenfold.tasks.runtime.limits import limited
    from evenfold.tasks.runtime.running import say

    from .fold_counts import keep_in_record, problem_of, show_table, write_study
    from .show import consoles, progress

    columns: dict[str, Any] = {"target": target, "key": key}
    problem = problem_of(data, columns, recipe_of(model, metrics=metrics, features=features, exclude=exclude))
    with limited(1), progress(consoles()[1]):
        table = stratification_study(
            problem.model,
            problem,
            n_splits=n_splits or 5,
            n_seeds=n_seeds,
            seed=seed or 0,
            say=partial(say, "fitting models"),
        )
    page = partial(strategies_html, problem, table)
    write_study(page, strategy_pictures(table), output)
    about = {"data": Path(data).name, "n_splits": str(n_splits or 5), "n_seeds": str(n_seeds), "seed": str(seed or 0)}
    keep_in_record(data, "ways of stratifying", problem, about, page(), table)
    show_table(table, output, as_json)
