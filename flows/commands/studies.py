"""Commands that compare: the demo, two models, a model with later rows, numbers of folds, ways of stratifying."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Unpack

from evenfold.reports.terminal import Words
from evenfold.splitters.errors import SplitError, amount
from evenfold.tasks import parameters as of
from evenfold.tasks.requests import CompareFields, StudyFields

from evenfold import estimates, flows, manifests, reports

from .terminal import OUTPUT_FLAGS, Output

if TYPE_CHECKING:
    import pandas as pd


FLIGHTS = "examples/flights.parquet"
FEATURES = ("time_hour", "month", "wday", "hour", "minute", "distance", "carrier", "origin", "dest")

PictureOrPage = Annotated[Path, of.run("Where it goes: a page, or a picture (.svg).", names=OUTPUT_FLAGS)]
RecordedRun = Annotated[
    str, of.run("MLflow run of an evaluation or a tuning, its first digits, or models:/NAME@champion.", argument="RUN")
]
TrainingData = Annotated[str | None, of.data("Where the model's training table lies now.", "PATH")]
KnownRows = Annotated[bool, of.data("Predict rows of the split as well, which may be training rows.")]


def demo(engine: of.Engine = "prefect") -> Output:
    """Show the product on real data: a leak found on flights, and .632 on breast cancer.

    Example: evenfold demo --engine plain
    """
    from sklearn.datasets import load_breast_cancer

    from .show import show as show_result

    if not Path(FLIGHTS).exists():
        raise SplitError(f"there is no {FLIGHTS} here; run the demo in a checkout of evenfold.")
    frame = load_breast_cancer(as_frame=True).frame.rename(columns={"target": "benign"})
    frame.insert(0, "patient", range(1, len(frame) + 1))
    of_flights = partial(
        flows.evaluate, FLIGHTS, key="flight_id", target="arr_delay", features=FEATURES, metrics=("r2", "mae"),
        model={"text": "ordinal"}, engine=engine,
    )  # fmt: skip
    evaluations = {
        "1. Arrival delays of 20,000 flights, without the departure delay, in random folds.":
            of_flights(name="flights-random", strategy="KFold"),
        "2. The same in folds of whole dates, whose rows share weather and queues. The difference is the leak.":
            of_flights(name="flights-by-date", group="date"),
        "3. Breast cancer, 569 rows: 200 bootstrap resamples and .632.": flows.evaluate(
            frame, name="breast-cancer", key="patient", target="benign", strategy="Bootstrap", n_splits=200,
            model="evenfold.estimates:scaled_logistic_regression", metrics=("accuracy", "roc_auc"), engine=engine,
        ),
    }  # fmt: skip

    def show(out: Words, _: object) -> None:
        for title, evaluation in evaluations.items():
            out.say(f"{title}\n", "bold")
            show_result(evaluation, out)
            out.say("")

    return Output([json.loads(each.model_dump_json()) for each in evaluations.values()], show)


def compare(
    run_a: of.RunA, run_b: of.RunB, metrics: of.Metrics = None,
    output: Annotated[Path | None, of.run("Write a page about it to this file.", "PATH", names=OUTPUT_FLAGS)] = None,
    **fields: Unpack[CompareFields],
) -> Output:  # fmt: skip
    """Compare two evaluations row by row, over repeats of the folds where fits are short; with -o also on a page.

    Both must rest on the same split. Versions of one split that grew are compared on the rows that both tested.

    Example: evenfold compare RUN_A RUN_B --metric r2
    """
    from evenfold.flows.comparison import pair_of

    if output is not None:
        manifests.require_place(output)
    fields["repeats"] = of.repeats_of(fields.get("repeats", "auto"))
    pair = pair_of(run_a, run_b, fields["repeats"])
    if not pair.recipes:  # nothing is fitted
        fields["engine"] = "plain"
    comparisons = flows.compare(run_a, run_b, metrics, **fields)
    page = reports.comparison_page(comparisons, pair.names)
    if output is not None:
        manifests.write_whole(output, page.html())
    return Output([asdict(comparison) for comparison in comparisons], lambda out, _: out.show(page, place=output))


def predict(
    run: RecordedRun, data: of.Data,
    output: Annotated[Path, of.run("Parquet or CSV file to write.", names=OUTPUT_FLAGS)] = Path("predictions.parquet"),
    training_data: TrainingData = None, known_rows: KnownRows = False,
) -> Output:  # fmt: skip
    """Predict later rows with the model of a recorded evaluation, or with what a tuning chose.

    The recipe is fitted once on every training row of its split; the targets of FILE are not read.
    Rows of the split itself are refused unless --known-rows lets them in: the model was trained on them.

    Example: evenfold predict RUN next_year.parquet -o predictions.parquet
    """
    import pyarrow as pa
    from evenfold.flows.later import predict_later, read_besides
    from evenfold.manifests.tables.read import TABLES

    manifests.require_place(output, TABLES, [data, training_data])
    if output.exists():
        manifests.require_place(output, read=read_besides(run, training_data))
    predictions = predict_later(run, data, training_data, known_rows=known_rows)
    manifests.write_whole(output, pa.Table.from_pandas(predictions, preserve_index=False))
    about = {"rows": len(predictions), "columns": list(predictions.columns), "output": str(output)}
    names = ", ".join(map(str, predictions.columns))
    return Output(about, f"{amount(len(predictions), 'row')} predicted: {names}\n  {output}")


def score(
    run: RecordedRun, data: of.Data, metrics: of.Metrics = None, level: of.Level = 0.95,
    training_data: TrainingData = None,
) -> Output:  # fmt: skip
    """Score the model of a recorded evaluation, or what a tuning chose, on later rows, beside what was promised.

    Rows of the split itself are refused: the model was trained on them.

    Example: evenfold score RUN next_year.parquet
    """
    from evenfold.flows.later import score_later

    return Output(score_later(run, data, training_data, metrics=metrics, level=level))


def folds(
    data: of.Data,
    counts: Annotated[str, of.run("Numbers of folds: 5..100, 5:50:5, or 5,10,20.", names=("--k",))] = "5..50",
    strategy: of.Strategy = None, seed: of.Seed = None, output: PictureOrPage = Path("folds.html"),
    **fields: Unpack[StudyFields],
) -> Output:  # fmt: skip
    """Show what the number of folds does to the mean over folds, its spread and the pooled score, on a page (-o).

    Example: evenfold folds examples/flights.parquet --target arr_delay --k 5,10,20
    """
    from evenfold.estimates.studies import fold_counts

    about = {"counts": fold_counts(counts), "seed": seed or 0, "strategy": strategy}
    return _told(data, "number of folds", estimates.fold_count_study, about, output, fields)


def strategies(
    data: of.Data, n_splits: of.NSplits = None,
    n_seeds: Annotated[int, of.run("Partitions of each way.")] = 20, strategy: of.Strategy = None,
    seed: of.Seed = None, output: PictureOrPage = Path("strategies.html"), **fields: Unpack[StudyFields],
) -> Output:  # fmt: skip
    """Show what stratifying does to the variance of estimates, beside random folds, on a page (-o); groups stay whole.

    Example: evenfold strategies examples/flights.parquet --target arr_delay --n-seeds 5
    """
    n_splits = 5 if n_splits is None else n_splits
    about = {"n_splits": n_splits, "n_seeds": n_seeds, "seed": seed or 0, "strategy": strategy}
    return _told(data, "ways of stratifying", estimates.stratification_study, about, output, fields)


def _told(
    data: str, what: str, study: Callable[..., pd.DataFrame], about: dict[str, object], output: Path,
    fields: StudyFields,
) -> Output:  # fmt: skip
    """Run a study by its parameters, ``about``, and write, record and return its table.

    SplitError, before any fit, for an ``output`` that is neither a page nor a picture, or in no folder.
    """
    from evenfold.flows import definitions, requests
    from evenfold.manifests.plan import check_columns
    from evenfold.reports.charts import stacked
    from evenfold.tasks.record.studies import record_page
    from evenfold.tasks.runtime.limits import limited
    from evenfold.tasks.runtime.progress import say
    from evenfold.tasks.work import check_model

    if output.suffix not in (".html", ".svg"):
        raise SplitError(f"the picture cannot be written to {output}; pass -o NAME.html for a page, or NAME.svg.")
    manifests.require_place(output)
    request = requests.Request.to(definitions.evaluate).read({"data": data, **fields})
    check_columns(data, request.specification)
    problem = check_model(data, request.specification, request.recipe)
    with limited(problem.X.size):
        table = study(problem, **about, say=partial(say, "fitting models"))
    page, pictures = reports.study_page(problem, table), reports.study_pictures(table)
    manifests.write_whole(output, page.html() if output.suffix == ".html" else stacked(pictures))
    name = f"{problem.model.title} @ {Path(data).stem}: {what}"
    params = {"data": Path(data).name, "problem": problem.digest}  # one run for the same of these
    params |= {key: str(value) for key, value in about.items() if value is not None}
    record_page(manifests.name_of(data), name, "study", params, page, study=table.to_dict("records"))
    rows = json.loads(table.to_json(orient="records"))
    came = {"rows": rows, "sentences": [each.title for each in pictures], "picture": str(output)}
    return Output(came, lambda out, _: out.show(page, "ratios", "fold-count", place=output))
