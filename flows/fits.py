"""Which models are fitted, and what came of it: a task per fold, or per block of draws."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import pairwise
from math import ceil, inf
from typing import Any

from evenfold.estimates import EvaluationError, ModelSpec
from evenfold.tasks.fits import fit_fold, fit_short
from evenfold.tasks.outcomes import Evaluated, FitResult, FoldState, SplitRef
from evenfold.tasks.record.evaluations import failure_of
from evenfold.tasks.runtime.progress import say
from evenfold.tasks.scores import aggregate, unaggregated
from evenfold.tasks.steps.running import Finished, finished_each, run, under_prefect, workers_at_once
from evenfold.tasks.steps.step import REFRESHING
from evenfold.tasks.work import further_pairs, work_of

SHORT_SECONDS = 1.0  # the cost of a task run, some 50 ms, is less than a twentieth of a longer fit
BLOCK_SECONDS = 4.0  # a hundredth is the task run's, and what is under way is told as often
APART_SECONDS = 10.0  # of short fits, for which plain starts processes: they take 3 seconds to import what fits need


@dataclass
class Fits:
    """What came of the fits: results and states in split order, how many were cached, and what went wrong."""

    split: SplitRef
    model: ModelSpec
    results: list[FitResult] = field(default_factory=list)
    apparent: FitResult | None = None
    refits: list[FitResult] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)
    states: list[FoldState] = field(default_factory=list)
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
    if not split.in_blocks:
        outcomes = _each(fits, split.n_splits, "folds", time_limit)
        fits.results = _collected(fits, outcomes, [1] * split.n_splits, quiet, fits.states)
        return fits
    if split.kind == "draws":
        whole = finished_each(fit_fold, [(split, "all rows", model)], time_limit=time_limit)
        fits.apparent = next(iter(_collected(fits, whole, [1], True)), None)
    blocks = split.blocks()
    how = {"time_limit": time_limit, "apparent": apparent if split.kind == "draws" else "full"}
    outcomes = finished_each(fit_fold, [(split, block, model) for block in blocks], **how)
    fits.results = _collected(fits, outcomes, [last - first for first, last in blocks], quiet, fits.states)
    return fits


def fit_more(fits: Fits, purpose: str | int, time_limit: float | None = None, seconds: float | None = None) -> None:
    """Fit what an interval, or so many repeats, ask for beyond the folds; a failure is one of the ``fits``' errors.

    ``fits`` then holds them. ``seconds``: what a fit takes, where the folds of ``fits`` do not say it.
    """
    n_further = 0 if fits.errors else len(further_pairs(work_of(fits.split, fits.model), purpose))
    if n_further:
        longest = max((score.seconds_fit for fit in fits.results for score in fit.scores), default=seconds)
        outcomes = _each(fits, n_further, purpose, time_limit, longest)
        fits.refits = _collected(fits, outcomes, [1] * n_further, False)


def _collected(
    fits: Fits, outcomes: Iterator[tuple[int, Finished[Any]]], sizes: list[int], quiet: bool,
    states: list[FoldState] | None = None,
) -> list[Any]:  # fmt: skip
    total, before = fits.n_fits + sum(sizes), fits.n_fits
    results: dict[int, Any] = {}
    errors: dict[int, str] = {}
    came: dict[int, FoldState] = {}
    if not quiet:
        say("fitting models", before, total)
    for number, done in outcomes:
        fits.n_fits += sizes[number]
        fits.n_cached += sizes[number] if done.cached else 0
        if done.error is None:
            results[number] = done.value
        else:
            sentence = isinstance(done.error, (EvaluationError, ValueError))
            errors[number] = str(done.error) if sentence else f"{type(done.error).__name__}: {done.error}"
        came[number] = "failed" if done.error else "cached" if done.cached else "fitted"
        if not quiet:
            say("fitting models", fits.n_fits, total)
    # They come as they finish; estimates, their bytes and what failed are to be those of the splits' order.
    if states is not None:
        states += [came[number] for number, size in enumerate(sizes) for _ in range(size)]
    fits.errors += [errors[number] for number in sorted(errors)]
    return [results[number] for number in sorted(results)]


def _each(
    fits: Fits, n: int, of: str | int, time_limit: float | None, seconds: float | None = None
) -> Iterator[tuple[int, Finished[FitResult]]]:
    """Yield what each of ``n`` fits came to: in a task of its own, or, where it is shorter than that costs, in a block.

    ``seconds``: what one takes; without it, the first to finish says so. Without Prefect a block is for a process,
    where fits are worth its start: of threads that need the interpreter one waits for another.
    """
    numbers, workers = list(range(n)), workers_at_once()
    begun: Iterator[tuple[int, Finished[FitResult]]] = iter(())
    plain = not under_prefect()
    # A limit starts a process for each fit, which takes seconds: no such fit is short.
    if workers is None or time_limit is not None or (plain and workers == 1):
        yield from _alone(fits, numbers, of, time_limit)
        return
    cached = False
    if seconds is None or plain:
        # Every worker has a fit while the first to finish says how long one takes: long fits lose nothing by it.
        begun, numbers = _alone(fits, numbers[:workers], of), numbers[workers:]
        # Only the first: `begun` goes on in the background, and the others of it are taken up at the end.
        number, first = next(begun)
        yield number, first
        cached = first.cached
        if seconds is None:
            seconds = inf if first.error else first.value.score.seconds_fit + first.value.score.seconds_score
    apart = plain and not cached and seconds * len(numbers) > APART_SECONDS and sys.platform == "linux"
    blocks = short_blocks(n - len(numbers), n, seconds, workers) if apart or not plain else []
    calls = [(fits.split, block, fits.model) for block in blocks]
    for place, done in finished_each(fit_short, calls, of=of, refresh=REFRESHING.get(), apart=apart):
        shared = range(*blocks[place])
        results = done.value if done.error is None else [(None, False)] * len(shared)
        for i, (result, cached) in zip(shared, results, strict=True):
            if result is not None:
                numbers.remove(i)
                yield i, Finished(result, cached=cached)
    # Alone, a fit is tried as often as any other, and its own task run says why it failed.
    yield from _alone(fits, numbers, of)
    yield from begun


def _alone(
    fits: Fits, numbers: list[int], of: str | int, time_limit: float | None = None
) -> Iterator[tuple[int, Finished[FitResult]]]:
    calls = [(fits.split, i, fits.model) for i in numbers]
    for place, done in finished_each(fit_fold, calls, of=of, time_limit=time_limit):
        yield numbers[place], done


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
