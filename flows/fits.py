"""Which models are fitted, and what came of it: a task per fold, or per block of draws."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from math import ceil, inf
from typing import Any

from evenfold.estimates import EvaluationError, ModelSpec
from evenfold.tasks.fits import fit_all, fit_draws, fit_fold, fit_folds, fit_further, fit_short_folds, fit_short_further
from evenfold.tasks.outcomes import DrawsResult, Evaluated, FoldResult, FoldsResult, Refit, SplitRef
from evenfold.tasks.record.evaluations import failure_of
from evenfold.tasks.runtime.progress import say
from evenfold.tasks.scores import aggregate, in_blocks, unaggregated
from evenfold.tasks.steps.running import Finished, finished_each, run, workers_at_once
from evenfold.tasks.steps.step import REFRESHING
from evenfold.tasks.work import further_pairs, work_of

SHORT_SECONDS = 1.0  # the cost of a task run, some 50 ms, is less than a twentieth of a longer fit
BLOCK_SECONDS = 4.0  # a hundredth is the task run's, and what is under way is told as often
Result = FoldResult | FoldsResult | DrawsResult


@dataclass
class Fits:
    """What came of the fits: results in split order, how many were cached, and what went wrong."""

    split: SplitRef
    model: ModelSpec
    results: list[Result] = field(default_factory=list)
    apparent: FoldResult | None = None
    refits: list[Refit] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)
    n_cached: int = 0
    n_fits: int = 0

    @property
    def failure(self) -> str:
        """Why there is no estimate, in a sentence."""
        return failure_of(self.errors, self.split.n_splits)

    def evaluated(self, allow_partial: bool = False, *, interval: Any = "auto", level: float = 0.95) -> Evaluated:
        """Return what the fits come to together; no estimates where some failed, unless that is allowed."""
        whole = not self.errors or (allow_partial and self.results)
        if whole:
            refits = [] if self.errors else self.refits
            return run(
                aggregate, self.split, self.results, apparent=self.apparent, errors=self.errors, refits=refits,
                interval=interval, level=level,
            )  # fmt: skip
        return unaggregated(self.split, self.model, self.results, self.apparent, self.errors)


def fit_splits(
    split: SplitRef, model: ModelSpec, *, apparent: str = "full", time_limit: float | None = None, quiet: bool = False
) -> Fits:
    """Fit every split; finished fits come from the cache, and one that fails does not stop the others."""
    fits = Fits(split, model)
    if not in_blocks(split):
        fits.results = _collected(fits, _each_fold(fits, time_limit), [1] * split.n_splits, quiet)
        return fits
    blocks = [(split, block, model) for block in split.blocks()]
    sizes = [last - first for first, last in split.blocks()]
    if split.kind != "draws":
        fits.results = _collected(fits, finished_each(fit_folds, blocks, time_limit=time_limit), sizes, quiet)
        return fits
    whole = _collected(fits, finished_each(fit_all, [(split, model)], time_limit=time_limit), [1], True)
    fits.apparent = whole[0] if whole else None
    draws = finished_each(fit_draws, blocks, time_limit=time_limit, apparent=apparent)
    fits.results = _collected(fits, draws, sizes, quiet)
    return fits


def fit_more(fits: Fits, asked: str | int, time_limit: float | None = None, seconds: float | None = None) -> None:
    """Fit what an interval, or so many repeats, ask for beyond the folds; a failure is one of the ``fits``' errors.

    ``fits`` then holds them. ``seconds``: what a fit takes, where the folds of ``fits`` do not say it.
    """
    n_further = 0 if fits.errors else len(further_pairs(work_of(fits.split, fits.model), asked))
    if not n_further:
        return
    longest = max((fit.score.seconds_fit for fit in fits.results if isinstance(fit, FoldResult)), default=seconds)
    workers = workers_at_once()
    short = None if workers is None or time_limit is not None else longest
    blocks = [] if short is None else short_blocks(0, n_further, short, workers or 1)
    outcomes = (
        _further_in_blocks(fits, asked, blocks) if blocks else _further(fits, asked, range(n_further), time_limit)
    )
    fits.refits = _collected(fits, outcomes, [1] * n_further, False)


def _further(
    fits: Fits, asked: str | int, numbers: Sequence[int], time_limit: float | None = None
) -> Iterator[tuple[int, Finished[Refit]]]:
    calls = [(fits.split, asked, i, fits.model) for i in numbers]
    for place, done in finished_each(fit_further, calls, time_limit=time_limit):
        yield numbers[place], done


def _further_in_blocks(
    fits: Fits, asked: str | int, blocks: list[tuple[int, int]]
) -> Iterator[tuple[int, Finished[Refit]]]:
    calls = [(fits.split, asked, block, fits.model) for block in blocks]
    unfinished = []
    for i, finished in _opened(fit_short_further, calls, blocks):
        if finished is None:
            unfinished.append(i)
        else:
            yield i, finished
    yield from _further(fits, asked, unfinished)


def _opened(
    block_step: Any, calls: list[Any], blocks: list[tuple[int, int]]
) -> Iterator[tuple[int, Finished[Any] | None]]:
    """Yield the number of each fit of some blocks and what it came to, None where it has to be tried alone."""
    for place, done in finished_each(block_step, calls, refresh=REFRESHING.get()):
        numbers = range(*blocks[place])
        results = done.value if done.error is None else [(None, False)] * len(numbers)
        for i, (result, cached) in zip(numbers, results, strict=True):
            yield i, None if result is None else Finished(result, cached=cached)


def _collected(fits: Fits, outcomes: Iterator[tuple[int, Finished[Any]]], sizes: list[int], quiet: bool) -> list[Any]:
    total, before = fits.n_fits + sum(sizes), fits.n_fits
    results: dict[int, Any] = {}
    if not quiet:
        say("fitting models", before, total)
    for number, done in outcomes:
        fits.n_fits += sizes[number]
        fits.n_cached += sizes[number] if done.cached else 0
        if done.error is None:
            results[number] = done.value
        else:
            fits.errors.append(_reason(done.error))
        if not quiet:
            say("fitting models", fits.n_fits, total)
    # They come as they finish; estimates and their bytes are to be those of the splits' order.
    return [results[number] for number in sorted(results)]


def _each_fold(fits: Fits, time_limit: float | None) -> Iterator[tuple[int, Finished[FoldResult]]]:
    """Yield what each fold came to: in a task of its own, or, where its fit is shorter than that costs, in a block."""
    every, workers = fits.split.splits(), workers_at_once()
    # A limit starts a process for each fit, which takes seconds: no such fit is short.
    if workers is None or time_limit is not None:
        yield from _one_by_one(fits, every, time_limit)
        return
    # Every worker has a fold while the first to finish says how long a fit takes: long fits lose nothing by it.
    begun = _one_by_one(fits, every[:workers], None)
    # Only the first: `begun` goes on in the background, and the others of it are taken up at the end.
    number, first = next(begun)
    yield number, first
    seconds = inf if first.error else first.value.score.seconds_fit + first.value.score.seconds_score
    blocks = short_blocks(len(every[:workers]), len(every), seconds, workers)
    if blocks:
        yield from _block_by_block(fits, blocks)
    else:
        yield from _one_by_one(fits, every[workers:], None)
    yield from begun


def short_blocks(first: int, last: int, seconds: float, workers: int) -> list[tuple[int, int]]:
    """Return the folds first..last-1 as even blocks of at most some ``BLOCK_SECONDS``; none where fits are long.

    There are as many blocks for each worker, so that none waits for another.
    """
    if seconds >= SHORT_SECONDS or last - first <= workers:
        return []
    rounds = ceil((last - first) * seconds / BLOCK_SECONDS / workers)
    n_blocks = min(last - first, workers * max(1, rounds))
    edges = [first + (last - first) * i // n_blocks for i in range(n_blocks + 1)]
    return list(pairwise(edges))


def _one_by_one(fits: Fits, folds: list[int], time_limit: float | None) -> Iterator[tuple[int, Finished[FoldResult]]]:
    calls = [(fits.split, i, fits.model) for i in folds]
    for place, done in finished_each(fit_fold, calls, time_limit=time_limit):
        yield folds[place], done


def _block_by_block(fits: Fits, blocks: list[tuple[int, int]]) -> Iterator[tuple[int, Finished[FoldResult]]]:
    unfinished: list[int] = []
    calls = [(fits.split, block, fits.model) for block in blocks]
    for i, finished in _opened(fit_short_folds, calls, blocks):
        if finished is None:
            unfinished.append(i)
        else:
            yield i, finished
    # Alone, a fold is tried as often as any other, and its own task run says why it failed.
    yield from _one_by_one(fits, unfinished, None)


def _reason(error: Exception) -> str:
    return str(error) if isinstance(error, (EvaluationError, ValueError)) else f"{type(error).__name__}: {error}"
