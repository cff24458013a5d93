"""Split, fit every split in a task per fold, or per block of draws, aggregate and record; tasks compute each figure."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from math import ceil, inf
from typing import TYPE_CHECKING, Any, Unpack, cast, overload

from evenfold.estimates import EvaluationError, LevelScore, ModelError, ModelSpec
from evenfold.estimates.ledger import level_of_look
from evenfold.manifests import Audit, from_anywhere
from evenfold.manifests.spec import name_like
from evenfold.reports.evaluations.studies import Segment
from evenfold.reports.evaluations.words import failure_of
from evenfold.reports.texts import FoldState
from evenfold.tasks import Evaluated, FitResult, Home, SplitRef, audit_split, data_reference, scores
from evenfold.tasks.fits import fit_final, fit_fold, fit_short
from evenfold.tasks.parameters import Data, Model, Spec
from evenfold.tasks.record import evaluations, studies
from evenfold.tasks.requests import EvaluateFields, ScoreFields
from evenfold.tasks.runtime.progress import say, saying
from evenfold.tasks.steps import Finished, finished_each, happened, run, tell, under_prefect, workers_at_once
from evenfold.tasks.work import further_pairs, work_of

from . import definitions
from .flow import Flow, flow
from .outcomes import Evaluation, GateError, Segments, SplitOutcome
from .requests import Request, checked, require_used
from .splitting import split_of

Outcomes = Iterator[tuple[int, Finished[FitResult]]]  # of fits as they finish, each with its number
SHORT_SECONDS = 1.0  # the cost of a task run, some 50 ms, is less than a twentieth of a longer fit
BLOCK_SECONDS = 4.0  # a hundredth is the task run's, and what is under way is told as often
APART_SECONDS = 10.0  # of short fits, for which plain starts processes: they take 3 seconds to import what fits need


@dataclass
class Fits:
    """Results and states of the fits in split order, those of the folds first, and the errors of those that failed."""

    split: SplitRef
    model: ModelSpec
    time_limit: float | None = None
    results: list[FitResult] = field(default_factory=list)
    apparent: FitResult | None = None
    refits: list[FitResult] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)
    states: list[FoldState] = field(default_factory=list)

    @property
    def failure(self) -> str:
        """Why there is no estimate, in a sentence."""
        return failure_of(self.errors, self.split.n_splits)

    def evaluated(self, allow_partial: bool = False, *, interval: Any = "auto", level: float = 0.95) -> Evaluated:
        """Return what the fits come to together; no estimates where some failed, unless that is allowed."""
        how: dict[str, Any] = {"apparent": self.apparent, "errors": self.errors, "interval": interval, "level": level}
        if self.errors and not (allow_partial and self.results):
            return scores.unaggregated(self.split, self.model, self.results, **how)
        return run(scores.aggregate, self.split, self.results, refits=[] if self.errors else self.refits, **how)

    def collect(self, outcomes: Outcomes, sizes: Sequence[int], to_come: int = 0) -> list[FitResult]:
        """Return the results of outcomes, each of ``sizes`` fits, in the splits' order; note all states and errors."""
        n_done = len(self.states)
        total = n_done + sum(sizes) + to_come
        came: dict[int, Finished[FitResult]] = {}
        say("fitting models", n_done, total)
        for number, done in outcomes:
            came[number] = done
            n_done += sizes[number]
            say("fitting models", n_done, total)
        results = []
        for number, done in sorted(came.items()):  # so that estimates, their bytes and what failed are in one order
            state: FoldState = "failed" if done.error else "cached" if done.cached else "fitted"
            self.states += [state] * sizes[number]
            if done.error is None:
                results.append(done.value)
            else:
                sentence = isinstance(done.error, (EvaluationError, ValueError))
                self.errors.append(str(done.error) if sentence else f"{type(done.error).__name__}: {done.error}")
        return results


def fit_splits(split: SplitRef, model: ModelSpec, *, interval: str = "auto", time_limit: float | None = None) -> Fits:
    """Fit every split, and what the interval asks for; finished fits are kept, and one that fails stops no other."""
    fits = Fits(split, model, time_limit)
    if split.in_blocks:
        blocks, n_whole = split.blocks(), int(split.kind == "draws")
        outcomes = finished_each(fit_fold, [(split, block, model) for block in blocks], time_limit=time_limit)
        fits.results = fits.collect(outcomes, [last - first for first, last in blocks], to_come=n_whole)
        # Alone: beside it a single block, as a bootstrap of 200 draws is, would be fitted with some of the threads.
        whole = finished_each(fit_fold, [(split, "all rows", model)] * n_whole, time_limit=time_limit)
        fits.apparent = next(iter(fits.collect(whole, [1] * n_whole)), None)
    else:
        fits.results = fits.collect(_each(fits, split.n_splits, "folds"), [1] * split.n_splits)
    fit_more(fits, interval)
    return fits


def fit_more(fits: Fits, purpose: str | int, seconds: float | None = None) -> None:
    """Fit what an interval, or so many repeats, ask for beyond the folds; a failure is one of the ``fits``' errors.

    ``fits`` then holds them. ``seconds``: what a fit takes, where the folds of ``fits`` do not say it.
    """
    n_further = 0 if fits.errors else len(further_pairs(work_of(fits.split, fits.model), purpose))
    if n_further:
        longest = max((score.seconds_fit for fit in fits.results for score in fit.scores), default=seconds)
        fits.refits = fits.collect(_each(fits, n_further, purpose, longest), [1] * n_further)


def _each(fits: Fits, n: int, of: str | int, seconds: float | None = None) -> Outcomes:
    """Yield what each of ``n`` fits came to: in a task of its own, or, where it is shorter than that costs, in a block.

    ``seconds``: what one takes; without it, the first to finish says so. Without Prefect a block is for a process,
    where fits are worth its start: of threads that need the interpreter one waits for another.
    """
    numbers, workers, plain = list(range(n)), workers_at_once(), not under_prefect()

    def alone(numbers: list[int]) -> Outcomes:
        calls = [(fits.split, i, fits.model) for i in numbers]
        for place, done in finished_each(fit_fold, calls, of=of, time_limit=fits.time_limit):
            yield numbers[place], done

    # A limit starts a process for each fit, which takes seconds: no such fit is short.
    if workers is None or fits.time_limit is not None or (plain and workers == 1):
        yield from alone(numbers)
        return
    # Every worker has a fit while the first to finish says how long one takes: long fits lose nothing by it.
    begun, numbers = alone(numbers[:workers]), numbers[workers:]
    # Only the first: `begun` goes on in the background, and the others of it are taken up at the end.
    number, first = next(begun)
    yield number, first
    if seconds is None:
        took = [] if first.error else first.value.scores
        seconds = took[0].seconds_fit + took[0].seconds_score if took else inf
    apart = plain and not first.cached and seconds * len(numbers) > APART_SECONDS and sys.platform == "linux"
    blocks = short_blocks(n - len(numbers), n, seconds, workers) if apart or not plain else []
    calls = [(fits.split, block, fits.model) for block in blocks]
    for place, done in finished_each(fit_short, calls, of=of, apart=apart):
        # Of a block that failed as a whole each is fitted below.
        for i, fit in zip(range(*blocks[place]), done.returned or (), strict=False):
            if fit.returned is not None:
                numbers.remove(i)
                yield i, fit
    # Alone, a fit is tried as often as any other, and its own task run says why it failed.
    yield from alone(numbers)
    yield from begun


def short_blocks(first: int, last: int, seconds: float, workers: int) -> list[tuple[int, int]]:
    """Return the folds first..last-1 as even blocks of at most some ``BLOCK_SECONDS``; none where fits are long."""
    if seconds >= SHORT_SECONDS or last - first <= workers:
        return []
    # As many for each worker, so that none waits for another.
    n_blocks = min(last - first, workers * max(1, ceil((last - first) * seconds / BLOCK_SECONDS / workers)))
    return list(pairwise(first + (last - first) * i // n_blocks for i in range(n_blocks + 1)))


def check_evaluation(request: Request) -> str:
    """Raise SplitError or ModelError for bad input; return what the split is called.

    Of segments only for what can be none's: what one alone lacks is said in its row.
    """
    if not request.parameters.get("by"):
        return checked(request)[0]
    require_used(request)
    spec, *_ = scores.segmented(from_anywhere(request.data), request.specification, request.recipe, request.by)
    return spec.name


@flow(definitions.evaluate, check_evaluation)
def _evaluate(request: Request) -> Evaluation | Segments:
    """Split, evaluate on the folds or the locked part, and record."""
    if request.by:
        return run_segments(request)
    split = split_of(request)
    if request.on == "holdout":
        return look_at_holdout(split, request.recipe, request)
    evaluation = evaluated(split, request.recipe, request)
    audit = run(audit_split, split.split, features=evaluation.features, build=request.build)
    title = f"the evaluation, run {evaluation.run_id[:8]},"
    require_level_gap(split.split, evaluation.levels, evaluation.model.metrics[0], title)
    return evaluation.model_copy(update={"audit": audit})


if TYPE_CHECKING:

    class _Evaluate(Flow[..., Evaluation]):
        @overload  # type: ignore[override,no-overload-impl]
        def __call__(
            self, data: Data, spec: Spec = ..., model: Model = ..., *, by: None = ..., **fields: Unpack[EvaluateFields]
        ) -> Evaluation: ...
        @overload
        def __call__(
            self, data: Data, spec: Spec = ..., model: Model = ..., *, by: str, **fields: Unpack[EvaluateFields]
        ) -> Segments: ...


evaluate = cast("_Evaluate", _evaluate)


def run_segments(request: Request) -> Segments:
    """Split, fit and audit each segment, a task run for each, and record their table in one run."""
    started, by, home = time.monotonic(), request.by, Home.here()
    spec, model, tables = scores.segmented(from_anywhere(request.data), request.specification, request.recipe, by)
    calls = [
        (data_reference(table, home), spec.model_copy(update={"name": name_like(f"{spec.name}-{value}")}), model, value)
        for value, table in tables.items() if value
    ]  # fmt: skip
    segments = {name: Segment(segment=name, rows=of.num_rows, failed=scores.NO_VALUE) for name, of in tables.items()}
    finished = finished_each(scores.evaluate_segment, calls, **request.of(ScoreFields))
    for n_done, (number, done) in enumerate(finished, start=1):
        value, why = calls[number][-1], " ".join(str(done.error).split())
        segments[value] = done.returned or replace(segments[value], failed=why)
        say("evaluating segments", n_done, len(calls))
    table = list(segments.values())
    run_id = run(studies.record_segments, spec, model, by, table, run_label=request.run_label)
    if all(each.failed for each in table):
        raise EvaluationError(f"none of {len(table):,} segments has a score, run {run_id[:8]}; {table[0].reason}")
    seconds = time.monotonic() - started
    return Segments(name=spec.name, by=by, model=model, segments=table, run_id=run_id, seconds=seconds)


def require_level_gap(split: SplitRef, levels: Sequence[LevelScore], metric: str, what: str) -> None:
    """Raise GateError where levels of a column to balance on differ by more than the gate ``level_gap`` allows."""
    audit = scores.check_levels(split, levels, metric)
    stop_where_failed(audit, f"{what} is recorded, and a gate of {split.name} {split.version} failed")


def stop_where_failed(audit: Audit, what: str, gates: bool | None = None) -> None:
    """Raise GateError with the sentences of what failed, and how to say yes to it, unless ``gates`` are off.

    ``gates``: None where the request cannot put them off.
    """
    stopping = [finding for finding in audit.findings if finding.gate == "failed"]
    if stopping and gates is not False:
        off = ", ".join(f"{finding.check}: off" for finding in stopping)
        where = "in the specification" + ("" if gates is None else ", or by gates=False (--no-gates)")
        sentences = " ".join(finding.message for finding in stopping)
        raise refused(audit.name, f"{what}: {sentences} If that is right, say so by gates: {{{off}}} {where}.")


def refused(split: str, words: str) -> GateError:
    """Return the error of what is refused, which Prefect is told as well."""
    happened("audit.failed", split, words)
    return GateError(words)


def evaluated(split: SplitOutcome, recipe: ModelSpec, request: Request) -> Evaluation:
    """Fit every split, aggregate and record; raises EvaluationError where folds are missing."""
    started, log_models, ref = time.monotonic(), request.log_models, split.split
    if log_models == "all" and ref.in_blocks:
        what = f"log_models='all' keeps a model per fold, and {ref.strategy} makes {ref.n_splits:,} splits"
        raise ModelError(f"{what} that are fitted in blocks; choose 'final'.")
    fits = fit_splits(ref, recipe, interval=request.interval, time_limit=request.time_limit)
    outcome = fits.evaluated(request.allow_partial, interval=request.interval, level=request.level)
    models = {} if fits.errors or log_models == "none" else {"all rows": run(fit_final, ref, recipe)}
    if models and log_models == "all":
        title = ref.manifest().membership.split_title
        models |= {title(i): run(fit_final, ref, recipe, i) for i in ref.splits()}
    states = fits.states[: ref.n_splits]
    with saying("recording the evaluation"):
        record = run(
            evaluations.record_evaluation, ref, outcome, split_run_id=split.run_id, run_label=request.run_label,
            states=states, models=models, build=request.build,
        )  # fmt: skip
    if fits.errors and not outcome.estimates:
        raise EvaluationError(fits.failure)
    n_fits, n_cached = len(fits.states), fits.states.count("cached")
    more = {"n_fits": n_fits, "n_cached": n_cached, "states": states, "since": record.since}
    evaluation = _evaluation(split, outcome, record.run_id, started, **more)
    tell([evaluation.summary, *([f"{record.since}."] if record.since else [])])
    return evaluation


def _evaluation(split: SplitOutcome, outcome: Evaluated, run_id: str, started: float, **more: Any) -> Evaluation:
    own: dict[str, Any] = {"cached": split.cached, "balance": split.balance, "split_run_id": split.run_id}
    own |= {"scores": outcome.scores, "apparent": outcome.apparent.score if outcome.apparent else None}
    return Evaluation(**{**dict(outcome), **own, **more}, run_id=run_id, seconds=time.monotonic() - started)


def look_at_holdout(split: SplitOutcome, model: ModelSpec, request: Request) -> Evaluation:
    """Record the look, train on every row that is not locked, score the locked ones, and record what was seen.

    Its interval is as wide as the number of looks asks, so that those of all looks hold together at ``level``. Raises
    EvaluationError where the look cannot be recorded, and then nobody has looked.
    """
    started, ref = time.monotonic(), split.split
    try:
        look = run(studies.record_look, ref, work_of(ref, model).problem.model, request.reason, request.level)
    except Exception as error:
        why = " ".join(str(error).split())[:300].rstrip(".")
        raise EvaluationError(f"the look could not be recorded, so the holdout stays closed: {why}.") from error
    result = run(fit_fold, ref, "holdout", model, time_limit=request.time_limit)
    left = None if look.budget is None else look.budget - look.look
    adjusted = level_of_look(look.look, request.level, look.sharing)
    estimates = run(scores.aggregate_look, ref, result, interval=request.interval, level=adjusted)
    look = run(studies.record_look_scores, ref, look, result, estimates)
    outcome = scores.unaggregated(ref, model, [result]).model_copy(update={"estimates": estimates})
    counts = {"n_fits": 1, "n_cached": 0, "look": look.look, "looks_left": left, "promised": look.promised}
    return _evaluation(split, outcome, look.run_id, started, **counts)
