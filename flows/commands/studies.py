"""Commands that choose and compare: compare, tune, folds, strategies."""

from __future__ import annotations

import json
from dataclasses import asdict
from functools import partial
from pathlib import Path
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
    Locked,
    Metrics,
    Model,
    Name,
    Param,
    Seed,
    Spec,
    Splits,
    Strategy,
    Stratify,
    Target,
    model_of,
    spec_of,
)

PictureOrPage = Annotated[Path, typer.Option("-o", "--output", help="Where it goes: a page, or a picture (.svg).")]


def register_studies(app: typer.Typer) -> None:
    """Add the commands to ``app``."""
    for command in (compare, tune, folds, strategies):
        app.command()(command)


def compare(
    run_a: Annotated[str, typer.Argument(metavar="RUN_A", help="MLflow run of an evaluation.")],
    run_b: Annotated[str, typer.Argument(metavar="RUN_B", help="MLflow run of another, on the same split.")],
    metric: Metrics = None,
    as_json: Json = False,
) -> None:
    """Compare two evaluations row by row.

    Example: evenfold compare RUN_A RUN_B --metric r2
    """
    from evenfold.flows.comparison import compare_runs

    from .console import consoles

    out, _ = consoles()
    with busy(f"comparing run {run_a} with run {run_b}"):
        found = compare_runs(run_a, run_b, metric)
    if as_json:
        out.print_json(json.dumps([asdict(each) for each in found]))
        return
    for each in found:
        out.print(f"{each.metric}: {each.words}")
        for note in each.notes:
            out.print(f"  {note}")


# As long as its list of flags, which Typer reads from the signature.
def tune(
    data: Data,
    grid: Annotated[Path, typer.Option(help="YAML or JSON file: values to try of each parameter.")],
    target: Target = None,
    group: Group = None,
    key: Key = None,
    stratify: Stratify = None,
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
    n_random: Annotated[int | None, typer.Option(help="Try so many combinations, at random.")] = None,
    one_standard_error: Annotated[bool, typer.Option(help="Take the first that is as good as the best.")] = False,
    final: Annotated[bool, typer.Option(help="Score the winner once on the locked part; needs --reason.")] = False,
    reason: Annotated[str, typer.Option(help="Why the locked part is looked at; recorded.")] = "",
    engine: Engine = EngineChoice.prefect,
    as_json: Json = False,
) -> None:
    """Try every configuration of a grid on every fold, and say what the winner is worth.

    Example: evenfold tune examples/flights.parquet --grid grid.yaml --target arr_delay --group date
    """
    from evenfold.flows.tuning import read_grid

    from evenfold import flows

    from .show import consoles, progress, show_evaluation, show_tuning

    out, err = consoles()
    columns = {"target": target, "group": group, "key": key, "stratify": stratify}
    request = {
        "spec": spec_of(data, spec, columns, strategy, n_splits, param, seed, name, holdout),
        "model": model_of(model, {"metrics": metric, "features": features, "exclude": exclude}),
        "grid": read_grid(grid),
        "n_random": n_random,
        "metric": metric[0] if metric else None,
        "one_standard_error": one_standard_error,
        "on": "holdout" if final else "folds",
        "reason": reason,
    }
    with progress(err) as say:
        outcome = flows.tune(data, engine=engine.value, say=say, **request)
    if as_json:
        out.print_json(outcome.model_dump_json())
        return
    show_tuning(out, outcome)
    if outcome.look:
        show_evaluation(out, outcome.look)


def folds(
    data: Data,
    target: Target = None,
    group: Group = None,
    key: Key = None,
    counts: Annotated[str, typer.Option("--k", help="Numbers of folds: 5..100, or 5,10,20.")] = "5..50",
    model: Model = None,
    metric: Metrics = None,
    features: Features = None,
    exclude: Exclude = None,
    seed: Seed = None,
    output: PictureOrPage = Path("folds.html"),
    as_json: Json = False,
) -> None:
    """Show what the number of folds does to the mean over folds, its spread, and the pooled score.

    Later evaluations of the same rows and model have the curve in their report.

    Example: evenfold folds examples/flights.parquet --target arr_delay --k 5,10,20
    """
    from evenfold.reports import fold_count_html, fold_count_pictures
    from evenfold.tasks import Home
    from evenfold.tasks.runtime.engine import limited
    from evenfold.tasks.work import keep_study

    from .fold_counts import counted, counts_of, problem_of, show_table, write_study
    from .show import consoles, progress

    pass

    columns = {"target": target, "group": group, "key": key}
    problem = problem_of(data, columns, model_of(model, {"metrics": metric, "features": features, "exclude": exclude}))
    with limited(1), progress(consoles()[1]) as say:
        table = counted(problem, counts_of(counts), seed or 0, say)
    keep_study(Home.here(), problem, table)
    write_study(partial(fold_count_html, problem, table), fold_count_pictures(table), output)
    show_table(table, output, as_json)


def strategies(
    data: Data,
    target: Target = None,
    key: Key = None,
    n_splits: Splits = None,
    n_seeds: Annotated[int, typer.Option(help="Partitions of each way.")] = 20,
    model: Model = None,
    metric: Metrics = None,
    features: Features = None,
    exclude: Exclude = None,
    seed: Seed = None,
    output: PictureOrPage = Path("strategies.html"),
    as_json: Json = False,
) -> None:
    """Show what stratifying does to the variance of estimates, as ratios to random folds'.

    Example: evenfold strategies examples/flights.parquet --target arr_delay --n-seeds 5
    """
    from evenfold.estimates import stratification_study
    from evenfold.reports import strategies_html, strategy_pictures
    from evenfold.tasks.runtime.engine import limited

    from .fold_counts import problem_of, show_table, write_study
    from .show import consoles, progress

    pass

    columns: dict[str, Any] = {"target": target, "key": key}
    problem = problem_of(data, columns, model_of(model, {"metrics": metric, "features": features, "exclude": exclude}))
    with limited(1), progress(consoles()[1]) as say:
        table = stratification_study(
            problem.model,
            problem,
            n_splits=n_splits or 5,
            n_seeds=n_seeds,
            seed=seed or 0,
            say=partial(say, "fitting models"),
        )
    write_study(partial(strategies_html, problem, table), strategy_pictures(table), output)
    show_table(table, output, as_json)
