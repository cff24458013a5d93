"""Commands that compare: two models, a model with later rows, numbers of folds, ways of stratifying."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Unpack

from evenfold.tasks.parameters import Data, Flag, Level, Metrics, NSplits, RunA, RunB, Seed, Strategy
from evenfold.tasks.requests import CompareFields, StudyFields, flat

from .flags import answer, busy

if TYPE_CHECKING:
    from .console import Words

PictureOrPage = Annotated[Path, Flag("Where it goes: a page, or a picture (.svg).", names=("-o", "--output"))]
ComparisonPage = Annotated[Path | None, Flag("Write a page about it to this file.", "PATH", names=("-o", "--output"))]
Counts = Annotated[str, Flag("Numbers of folds: 5..100, 5:100:5, or 5,10,20.", names=("--k",))]
RecordedRun = Annotated[
    str, Flag("MLflow run of an evaluation or a tuning, its first digits, or models:/NAME@champion.", argument="RUN")
]
TrainingData = Annotated[str | None, Flag("Where the table lies now that the model was trained on.", "PATH", "Data")]
KnownRows = Annotated[bool, Flag("Predict rows of the split as well, which may be training rows.", panel="Data")]
Predictions = Annotated[Path, Flag("Parquet or CSV file to write.", names=("-o", "--output"))]
NSeeds = Annotated[int, Flag("Partitions of each way.")]


@flat
def compare(
    run_a: RunA,
    run_b: RunB,
    metrics: Metrics = None,
    output: ComparisonPage = None,
    as_json: bool = False,
    **fields: Unpack[CompareFields],
) -> None:
    """Compare two evaluations row by row, over repeats of the folds where fits are short; with -o also on a page.

    Both must rest on the same split. Versions of one split that grew are compared on the rows that both tested.

    Example: evenfold compare RUN_A RUN_B --metric r2
    """
    from evenfold.manifests.tables.read import require_place, write_whole
    from evenfold.reports import comparison_page
    from evenfold.tasks.parameters import repeats_of

    from .show import consoles, progress, show_page

    if output is not None:
        require_place(output)
    with busy(f"reading run {run_a} and run {run_b}"):
        from evenfold.flows.comparison import look_ahead

        fields["repeats"] = repeats_of(fields.get("repeats", "auto"))
        fits, names = look_ahead(run_a, run_b, fields["repeats"])
    from evenfold import flows

    if not fits:
        fields["engine"] = "plain"
    with progress(consoles()[1]):
        comparisons = flows.compare(run_a, run_b, metrics, **fields)
    page = comparison_page(comparisons, names)
    if output is not None:
        write_whole(output, page.html())

    def show(out: Words, _: object) -> None:
        show_page(out, page)
        if output is not None:
            out.say(f"  page {output}")

    answer([asdict(comparison) for comparison in comparisons], as_json, show)


def predict(
    run: RecordedRun, data: Data, output: Predictions = Path("predictions.parquet"), training_data: TrainingData = None,
    known_rows: KnownRows = False, as_json: bool = False,
) -> None:  # fmt: skip
    """Predict later rows with the model of a recorded evaluation, or with what a tuning chose.

    The recipe is fitted once on every training row of its split; the targets of FILE are not read.
    Rows of the split itself are refused unless --known-rows lets them in: the model was trained on them.

    Example: evenfold predict RUN next_year.parquet -o predictions.parquet
    """
    import pyarrow as pa
    from evenfold.flows.later import predict_later, read_besides
    from evenfold.manifests.tables.canonical import amount
    from evenfold.manifests.tables.read import TABLES, require_place, write_whole

    require_place(output, TABLES, [data, training_data])
    if output.exists():
        require_place(output, read=read_besides(run, training_data))
    with busy(f"predicting by run {run}"):
        predictions = predict_later(run, data, training_data, known_rows=known_rows)
        write_whole(output, pa.Table.from_pandas(predictions, preserve_index=False))
    about = {"rows": len(predictions), "columns": list(predictions.columns), "output": str(output)}
    names = ", ".join(map(str, predictions.columns))
    answer(about, as_json, f"{amount(len(predictions), 'row')} predicted: {names}\n  {output}")


def score(
    run: RecordedRun, data: Data, metrics: Metrics = None, level: Level = 0.95, training_data: TrainingData = None,
    as_json: bool = False,
) -> None:  # fmt: skip
    """Score the model of a recorded evaluation, or what a tuning chose, on later rows, beside what was promised.

    Rows of the split itself are refused: the model was trained on them.

    Example: evenfold score RUN next_year.parquet
    """
    from evenfold.flows.later import score_later

    from .show import show_recorded

    with busy(f"scoring by run {run}"):
        scored = score_later(run, data, training_data, metrics=metrics, level=level)
    answer(scored, as_json, show_recorded)


@flat
def folds(
    data: Data,
    counts: Counts = "5..50",
    strategy: Strategy = None,
    seed: Seed = None,
    output: PictureOrPage = Path("folds.html"),
    as_json: bool = False,
    **fields: Unpack[StudyFields],
) -> None:
    """Show what the number of folds does to the mean over folds, its spread, and the pooled score.

    Later evaluations of the same rows and model have the curve in their report.

    Example: evenfold folds examples/flights.parquet --target arr_delay --k 5,10,20
    """
    from evenfold.estimates import fold_count_study
    from evenfold.tasks import Home
    from evenfold.tasks.record.studies import keep_study

    from .fold_counts import counts_of, problem_of, tell_study

    about = {"counts": counts_of(counts), "seed": seed or 0, "strategy": strategy}
    problem = problem_of(data, output, **fields)
    table = tell_study(data, "number of folds", problem, fold_count_study, about, output, as_json)
    if strategy is None:  # an evaluation's page shows the plain one
        keep_study(Home.here(), problem, table)


@flat
def strategies(
    data: Data,
    n_splits: NSplits = None,
    n_seeds: NSeeds = 20,
    strategy: Strategy = None,
    seed: Seed = None,
    output: PictureOrPage = Path("strategies.html"),
    as_json: bool = False,
    **fields: Unpack[StudyFields],
) -> None:
    """Show what stratifying does to the variance of estimates, as ratios to random folds'; groups stay whole.

    Example: evenfold strategies examples/flights.parquet --target arr_delay --n-seeds 5
    """
    from evenfold.estimates import stratification_study

    from .fold_counts import problem_of, tell_study

    n_splits = 5 if n_splits is None else n_splits
    about = {"n_splits": n_splits, "n_seeds": n_seeds, "seed": seed or 0, "strategy": strategy}
    problem = problem_of(data, output, **fields)
    tell_study(data, "ways of stratifying", problem, stratification_study, about, output, as_json)
