"""Which models are fitted, and what came of it: a task per fold, or per block of draws."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from evenfold.estimates import EvaluationError, ModelSpec
from evenfold.tasks.fits import fit_all, fit_draws, fit_fold, fit_folds
from evenfold.tasks.outcomes import DrawsResult, Evaluated, FoldResult, FoldsResult, SplitRef
from evenfold.tasks.record.evaluations import failure_of
from evenfold.tasks.runtime.running import finished_each, run, say
from evenfold.tasks.scores import aggregate, in_blocks, unaggregated

Result = FoldResult | FoldsResult | DrawsResult


@dataclass
class Fits:
    """What came of the fits: results in split order, how many were cached, and what went wrong."""

    split: SplitRef
    model: ModelSpec
    results: list[Result] = field(default_factory=list)
    apparent: FoldResult | None = None
    errors: list[str] = field(default_factory=list)
    n_cached: int = 0
    n_fits: int = 0

    @property
    def failure(self) -> str:
        """Why there is no estimate, in a sentence."""
        return failure_of(self.errors, self.split.n_splits)

    def evaluated(self, allow_partial: bool = False) -> Evaluated:
        """Return what the fits come to together; no estimates where some failed, unless that is allowed."""
        whole = not self.errors or (allow_partial and self.results)
        if whole:
            return run(aggregate, self.split, self.results, apparent=self.apparent, errors=self.errors)
        return unaggregated(self.split, self.model, self.results, self.apparent, self.errors)


def fit_splits(
    split: SplitRef, model: ModelSpec, *, apparent: str = "full", time_limit: float | None = None, quiet: bool = False
) -> Fits:
    """Fit every split; finished fits come from the cache, and one that fails does not stop the others."""
    fits = Fits(split, model)
    if not in_blocks(split):
        fits.results = _fitted(fits, fit_fold, [(split, i, model) for i in split.splits()], 1, quiet, time_limit)
        return fits
    blocks = [(split, block, model) for block in split.blocks()]
    if split.kind != "draws":
        fits.results = _fitted(fits, fit_folds, blocks, None, quiet, time_limit)
        return fits
    whole = _fitted(fits, fit_all, [(split, model)], 1, True, time_limit)
    fits.apparent = whole[0] if whole else None
    fits.results = _fitted(fits, fit_draws, blocks, None, quiet, time_limit, apparent=apparent)
    return fits


def _fitted(
    fits: Fits,
    step: Any,
    calls: list[tuple[Any, ...]],
    size: int | None,
    quiet: bool,
    time_limit: float | None,
    **more: Any,
) -> list[Any]:
    sizes = [size or call[1][1] - call[1][0] for call in calls]
    total, before = fits.n_fits + sum(sizes), fits.n_fits
    results: dict[int, Any] = {}
    if not quiet:
        say("fitting models", before, total)
    for number, done in finished_each(step, calls, time_limit=time_limit, **more):
        fits.n_fits += sizes[number]
        fits.n_cached += sizes[number] if done.cached else 0
        if done.error is None:
            results[number] = done.value
        else:
            fits.errors.append(_reason(done.error))
        if not quiet:
            say("fitting models", fits.n_fits, total)
    return [results[number] for number in sorted(results)]


def _reason(error: Exception) -> str:
    return str(error) if isinstance(error, (EvaluationError, ValueError)) else f"{type(error).__name__}: {error}"
