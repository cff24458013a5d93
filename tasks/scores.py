"""The tasks that say what fits come to together, and what the rows of one segment come to on their own."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import asdict, replace
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
from evenfold.estimates import DrawScores, Estimate, EvaluationError, FoldScore, LevelScore, ModelSpec, Problem
from evenfold.estimates.folds import estimate_of_one_model
from evenfold.estimates.models.estimators import named_estimator
from evenfold.estimates.promotion import ROLES, Contrast, compare_draws
from evenfold.manifests import Audit, SplitSpec, canonical_table, is_numeric_target, read_table, require_columns
from evenfold.manifests.audits.audit import CHECKS, LEARNING
from evenfold.manifests.audits.findings import MODEL_GATES, CheckOutcome, Found, gates_with, judged, needed
from evenfold.manifests.fields import GateLimits
from evenfold.manifests.plan import default_strategy
from evenfold.manifests.tables.aside import frame_of
from evenfold.reports import verdict_of
from evenfold.reports.evaluations.studies import Segment
from evenfold.splitters import SplitError
from numpy.typing import NDArray

from evenfold import estimates

from .fits import fit_fold
from .outcomes import BLOCK, Evaluated, FitResult, SplitRef
from .parameters import Intervals, Level, TimeLimit
from .runtime.home import Home
from .splits import audit_split, split as decide
from .steps import finished_here, step
from .store import remember
from .work import Pair, Work, key_of_fit, preimage_of_fits, work_of

MOST_SEGMENTS, NO_VALUE = 10_000, "these rows name no segment."
# What small models learn from rows is not asked of a segment: of so few they tell little, at three times its price.
UNASKED: GateLimits = {name: "off" for name, (_, takes) in CHECKS.items() if takes in LEARNING}


@step(run_name=lambda split, **_: f"combine the scores on {split.name}", retries=0)
def aggregate(
    split: SplitRef, results: Sequence[FitResult], *, apparent: FitResult | None = None, errors: Sequence[str] = (),
    refits: Sequence[FitResult] = (), interval: Intervals = "auto", level: Level = 0.95,
) -> Evaluated:  # fmt: skip
    """Return the estimates that the results of ``fit_fold`` come to together.

    Folds give cross-validation with its pooled score and an interval (``interval``: one of
    ``evenfold.estimates.INTERVALS``; ``refits``: its further fits); draws, which need the ``apparent`` fit of "all
    rows", out-of-bag, .632 and .632+. Where some splits lack and no ``errors`` say why, those of the outcome do, and it
    is recorded as partial. Raises EvaluationError for results of several data, models or splits, or one given twice.
    """
    if not results:
        raise EvaluationError("there is no result to aggregate; fit at least one split.")
    work = _one_work(split, results, apparent, refits)
    n, n_splits = sum(len(fit.splits) for fit in results), work.manifest.n_splits
    if n < n_splits and not errors:
        errors = [f"{n} of {n_splits} splits are given, and the estimates are of these alone."]
    evaluated = unaggregated(split, work.problem.model, results, apparent, errors, interval, level)
    whole = [evaluated.apparent.predictions.path] if evaluated.apparent else []
    predictions = frame_of(evaluated.predictions or whole)
    conclusion, levels = _estimates_of(evaluated, predictions, work, refits)
    if not evaluated.errors:
        draws = [fit.predictions.path for fit in evaluated.draws]
        table = frame_of(draws) if draws else pd.DataFrame([asdict(score) for score in evaluated.scores])
        # What the fit of a split took: the median, for the first one may import.
        seconds = float((table["seconds_fit"] + table["seconds_score"]).median())
        remember(preimage_of_fits(work, interval if refits else None, seconds))
    confusion = estimates.Confusion.of(work.problem, predictions, not evaluated.predictions)
    return evaluated.model_copy(update={"estimates": conclusion, "levels": levels, "confusion": confusion})


def gap_of_levels(levels: Sequence[LevelScore], metric: str) -> CheckOutcome:
    """Return the largest difference of a score between two levels whose intervals do not overlap, in a sentence."""
    needed(levels, "no column to balance on is named")
    widest = estimates.widest_gap(levels, metric)
    if widest is None:
        return None
    (gap, better, worse), title = widest, estimates.metric_of(metric)
    scores = (f"{title.shown(float(level.value or 0.0)):.4g} for {level.level}" for level in (better, worse))
    sentence = f"{title.title} by {better.attribute} is {' and '.join(scores)}, and their intervals do not overlap."
    return Found(gap, sentence, {"attribute": better.attribute, "better": better.level, "worse": worse.level})


def check_levels(split: SplitRef, levels: Sequence[LevelScore], metric: str) -> Audit:
    """Return what the gate ``level_gap`` of the split's specification says of the scores of levels.

    Where a limit is given and there is nothing to compare, it fails: a gate that was asked for is never passed by.
    """
    limits = gates_with(split.limits, {"level_gap": MODEL_GATES["level_gap"]})
    gate = limits["level_gap"]

    def gap() -> CheckOutcome:
        if not levels and gate is not None and gate.fails:
            raise SplitError("no column to balance on is named; name one (balance_on), or leave the gate out")
        return gap_of_levels(levels, metric)

    return judged(limits, {"level_gap": gap}, split.stored(), n_rows=split.n_rows, features=[])


def unaggregated(
    split: SplitRef, model: ModelSpec, results: Sequence[FitResult], apparent: FitResult | None = None,
    errors: Sequence[str] = (), interval: str = "auto", level: float = 0.95,
) -> Evaluated:  # fmt: skip
    """Return the results of fits without the estimates, as where too many failed."""
    work = work_of(split, model)
    problem = work.problem
    return Evaluated(
        split=split, fingerprint=work.fingerprint, model=problem.model, task=problem.task,
        features=list(problem.features), left_out=problem.left_out, encoded=problem.encodings,
        fits=list(results), apparent=apparent, errors=list(errors), interval=interval, level=level,
    )  # fmt: skip


def _one_work(
    split: SplitRef, results: Sequence[FitResult], apparent: FitResult | None, refits: Sequence[FitResult]
) -> Work:
    """Return what the results are of; raises EvaluationError where that is not one thing, or not what is asked."""
    for fit in results:
        if not isinstance(fit, FitResult) or fit.of != "folds" or not fit.splits:
            what = f"the fit {fit.i!r} ({fit.of})" if isinstance(fit, FitResult) else f"a {type(fit).__name__}"
            raise EvaluationError(f"{what} is no result of a split; pass a list of what fit_fold returns of one.")
    if apparent is not None and apparent.i != "all rows":
        raise EvaluationError(f"apparent is of {apparent.i!r}; pass what fit_fold(split, 'all rows', model) returns.")
    work, same = work_of(split, results[0].model), False
    with suppress(SplitError):  # of two splits with a fold in common one result is kept, under one key
        same = all(fit.key == key_of_fit(work, fit.i, fit.of) for fit in (*results, *filter(None, [apparent]), *refits))
    if not same:
        raise EvaluationError(
            "the data changed while they were evaluated, or the results are of several models or splits; "
            "run the evaluation again."
        )
    most, times = Counter(i for fit in results for i in fit.splits).most_common(1)[0]
    if times > 1:
        name = work.manifest.membership.split_title(most)
        raise EvaluationError(f"{name} is given {times} times; give each result once.")
    return work


def kept_scores(split: SplitRef, work: Work) -> pd.DataFrame:
    """Return the predictions of every fold, or the scores of every draw, that an evaluation has kept; or nothing."""
    keys = [key_of_fit(work, i) for i in (split.blocks() if split.in_blocks else split.splits())]
    return frame_of(file for key in keys if (file := Home.here().scores / f"{key}.parquet").exists())


def compared(
    split: SplitRef, candidate: ModelSpec, champion: ModelSpec, metric: str, code: dict[str, str] | None = None,
    *, apparent: tuple[float, float] | None = None,
) -> Contrast:  # fmt: skip
    """Return the scores of the candidate minus the champion's, on the same folds or draws.

    ``code``: the champion's, where it is not that of now. ``apparent``: both mean scores on training rows. Raises
    EvaluationError where nothing is kept of the champion's scores.
    """
    work = work_of(split, candidate)
    after = kept_scores(split, work)
    before = kept_scores(split, replace(work_of(split, champion), code=code))
    if before.empty:
        raise EvaluationError("no scores of it by its earlier code are kept on these rows")
    if split.kind == "draws":
        weights = (champion.weights, candidate.weights)
        return compare_draws(before, after, metric, n_rows=work.n_drawn_from, weights=weights)
    stratified = work.manifest.splitter.needs.y != "ignored"
    on = list(work.keys.column_names) if work.keys is not None else ["row"]
    n_train = float(np.mean([work.pair(i)[0].size for i in split.splits()]))
    comparison = estimates.compare(
        before, after, metric, on=on, stratified=stratified, n_train=n_train, ordered=work.in_stretches,
        apparent=apparent, names=ROLES,
    )  # fmt: skip
    return Contrast.of(comparison)


@step(run_name=lambda split, **_: f"{split.name}: what choosing scores", retries=0)
def aggregate_chosen(
    split: SplitRef, results: Sequence[FitResult], *, interval: Intervals = "auto", level: Level = 0.95
) -> list[Estimate]:
    """Return the estimates of folds in each of which another configuration may have been chosen."""
    work = work_of(split, results[0].model)
    predictions = frame_of(fold.predictions.path for fold in results)
    return _of_folds([fold.score for fold in results], predictions, work, [], interval, level)


@step(run_name=lambda split, **_: f"{split.name}: holdout, aggregate", retries=0)
def aggregate_look(split: SplitRef, result: FitResult, interval: str, level: float) -> list[Estimate]:
    """Return what a recorded look at the locked part says, which no evaluation may: an estimate of its one model."""
    work = work_of(split, result.model)
    predictions = pd.read_parquet(result.predictions.path)
    train, test = map(work.at_hand, work.manifest.locked_pair())
    times = work.problem.times if work.in_time_order else None
    beside = estimates.baseline_predictions(work.problem, [(0, 0, train, test)], times)
    about = (result.score, predictions, work.problem, interval, level)
    how: dict[str, Any] = {"beside": beside, "ordered": work.in_stretches}
    return [estimate_of_one_model("locked holdout", metric, *about, **how) for metric in result.score.test]


def _estimates_of(
    evaluated: Evaluated, predictions: pd.DataFrame, work: Work, refits: Sequence[FitResult]
) -> tuple[list[Estimate], list[LevelScore]]:
    """Return estimates, and scores of levels to balance on; ``predictions``: of draws those of the fit on all rows."""
    problem, splitter, attributes = work.problem, work.manifest.splitter, work.attributes
    interval, level = evaluated.interval, evaluated.level
    levels: list[LevelScore] = []
    if not evaluated.draws:
        if attributes:
            levels = estimates.level_scores(
                predictions, evaluated.scores, problem, attributes, level=level, ordered=work.in_stretches
            )
        return _of_folds(evaluated.scores, predictions, work, refits, interval, level), levels
    if evaluated.apparent is None:
        raise EvaluationError("draws need the apparent score; pass apparent=fit_fold(split, 'all rows', model).")
    draws, apparent = scores_of_draws(evaluated), evaluated.apparent.score
    # Of a block of draws: constants hardly differ from one to the next.
    baseline = estimates.baseline_of_draws(problem, [*_first_draws(work, BLOCK)], problem.model.metrics)
    how: dict[str, Any] = {"interval": interval, "level": level, "baseline": baseline}
    if "out_of_bag" in splitter.promises:
        rows: NDArray[np.int64] = predictions["row"].to_numpy()
        # By a thousand of them a standard error is known to some hundredths of itself.
        some = _first_draws(work, 1_000)
        drawn = estimates.Multiplicities.of(some, rows, problem.units(rows), problem.mass(rows))
        seed: Any = work.manifest.spec.seed
        conclusion = estimates.bootstrap_aggregate(draws, apparent, predictions, problem, drawn=drawn, seed=seed, **how)
    else:
        conclusion = estimates.resampled_aggregate(draws, apparent, stratified=splitter.needs.y != "ignored", **how)
    if attributes:
        levels = estimates.level_scores_of_draws(draws, problem, attributes, level=level)
    return conclusion, levels


def _first_draws(work: Work, most: int) -> Iterator[tuple[int, Pair]]:
    return ((i, work.pair(i)) for i in range(min(work.manifest.n_splits, most)))


def scores_of_draws(evaluated: Evaluated) -> DrawScores:
    """Return the scores of every draw, of all blocks together."""
    files = [(block.predictions, block.losses) for block in evaluated.draws if block.losses is not None]
    return DrawScores.merge([DrawScores(frame_of([table.path]), frame_of([rows.path])) for table, rows in files])


def _of_folds(
    scores: Sequence[FoldScore], predictions: pd.DataFrame, work: Work, refits: Sequence[FitResult], interval: str,
    level: float,
) -> list[Estimate]:  # fmt: skip
    tested = {(score.repeat, score.fold) for score in scores}
    names = ((i, work.manifest.membership.split_name(i)) for i in range(work.manifest.n_splits))
    splits = ((*name, *work.pair(i)) for i, name in names if name in tested)
    baselines = estimates.baseline_predictions(work.problem, splits, work.problem.times if work.in_time_order else None)
    further = [pd.read_parquet(refit.predictions.path) for refit in refits]
    splitter = work.manifest.splitter
    return estimates.aggregate(
        scores, predictions, work.problem, stratified=splitter.needs.y != "ignored",
        ordered=work.in_stretches, baselines=baselines, refits=further, interval=interval, level=level,
        seed=work.manifest.spec.seed, parts=[name for name, code in splitter.part_codes().items() if code >= 0],
    )  # fmt: skip


def segmented(
    data: str, spec: SplitSpec, model: ModelSpec, by: str
) -> tuple[SplitSpec, ModelSpec, dict[str, pa.Table]]:
    """Return the strategy and the recipe of all segments, and the rows of each by its value, "" for none. O(n log n).

    Raises SplitError or ModelError for what can be no segment's.
    """
    table, columns = read_table(data, types=spec.types), spec.columns
    require_columns([by, *columns.roles(), *spec.types], table.column_names)
    if by in columns.roles() or columns.target is None:
        parted = "plays a part in the split, and has one value in a segment"
        why = parted if columns.target else "has no target beside it"
        raise SplitError(f"{by!r} {why}; name a target, and segments by a column that has no other part (by, --by).")
    values = canonical_table(table, [by], spec.types).column(0).cast(pa.large_string()).fill_null("")
    codes, order = pd.factorize(np.asarray(values.to_pylist(), dtype=object), sort=True)
    # To a model that does not name it, by itself or as a parameter of its parts, a column of one value says nothing.
    params = named_estimator(model.estimator, model.params).get_params() if model.estimator else {}
    is_feature = by in (model.features or ()) or repr(by) in repr([*params.values()])
    rest = table if is_feature else table.drop_columns([by])
    if len(order) > MOST_SEGMENTS:
        raise SplitError(f"{by!r} has {len(order):,} values, and at most {MOST_SEGMENTS:,} can be; name another.")
    frame = rest.filter(pc.is_valid(rest[columns.target])).replace_schema_metadata(None).to_pandas()
    model = model.model_copy(update={"exclude": tuple(name for name in model.exclude if is_feature or name != by)})
    problem = Problem.of(frame, model, columns.target, columns.kept_from_models(model.features))
    features = tuple(problem.features) if is_feature else model.features
    narrow = {"metrics": problem.model.metrics[:1], "importance": "none", "features": features}
    recipe = problem.model.model_copy(update=narrow)
    strategy = spec.strategy or default_strategy(
        spec, lambda name: is_numeric_target(canonical_table(rest, [name], spec.types).column(0))
    )
    rows = np.split(np.argsort(codes, kind="stable"), np.cumsum(np.bincount(codes))[:-1])
    spec = spec.model_copy(update={"strategy": strategy})
    return spec, recipe, {str(value): rest.take(pa.array(own)) for value, own in zip(order, rows, strict=True)}


@step(run_name=lambda data, spec, *_, **__: f"evaluate {spec.name}", retries=0)
def evaluate_segment(
    data: str, spec: SplitSpec, model: ModelSpec, segment: str, *, interval: Intervals = "auto", level: Level = 0.95,
    time_limit: TimeLimit = None,
) -> Segment:  # fmt: skip
    """Return the score of ``model`` on the rows of a segment, a table of their own; one task run for all.

    Its split, fits and audit are kept as any other's. SplitError, ModelError or EvaluationError where it has none.
    """
    split = finished_here(decide, data, spec).value
    fits = [finished_here(fit_fold, split, block, model, time_limit=time_limit).value for block in split.blocks()]
    whole = finished_here(fit_fold, split, "all rows", model).value if split.kind == "draws" else None
    of = finished_here(aggregate, split, fits, apparent=whole, interval=interval, level=level).value
    audit = finished_here(audit_split, split, features=of.features, gates=UNASKED).value
    return Segment(
        segment=segment, rows=split.n_rows, estimate=of.estimates[-1], audit=verdict_of(None, audit).word,
        split_id=split.split_id,
    )  # fmt: skip
