"""The Ladder: a leaderboard that moves only where a model is better by more than chance."""

from __future__ import annotations

import math

import numpy as np
from evenfold.splitters.errors import SplitError
from numpy.typing import NDArray


class Ladder:
    """The best loss so far on one holdout, told no more finely than a step.

    A model's loss is told only where it is lower than the best by more than the ``step``, and rounded to it; else the
    best so far is told again, so a chance gain teaches nothing.

    Guarantee (Blum and Hardt 2015, The Ladder: a reliable leaderboard for machine learning competitions, theorem 3.1):
    of k models, each chosen in view of all earlier answers, with losses between 0 and 1 and n independent rows, the
    told best differs from the true loss of the best by more than e + step with a probability of at most
    exp(-2 e^2 n + (1/step + 2) ln(4k / step) + 1): an error of about (ln(kn) / n)^(1/3), whatever was tried.

    ``step`` None is the parameter-free Ladder (their section 4): the step is the standard error of the difference from
    the best model's losses, and losses are rounded to 1/n; that one has no such theorem.
    """

    def __init__(self, step: float | None = None) -> None:
        if step is not None and not 0 < step < 1:
            raise SplitError(f"a Ladder with a step of {step:g}; choose one between 0 and 1, such as 0.01, or None.")
        self.step = step
        self.best = math.inf
        self._losses: NDArray[np.float64] | None = None

    def answer(self, losses: NDArray[np.float64]) -> float:
        """Return the best loss so far, after a model with these losses of the holdout's rows, each between 0 and 1."""
        losses = np.asarray(losses, dtype=np.float64)
        if not losses.size or losses.min() < 0 or losses.max() > 1:
            raise SplitError("the Ladder needs a loss between 0 and 1 of each row of the holdout; scale them first.")
        mean, unit = float(losses.mean()), self.step or 1.0 / losses.size
        if mean < self.best - self._margin(losses):
            self.best = round(mean / unit) * unit
            self._losses = losses
        return self.best

    def _margin(self, losses: NDArray[np.float64]) -> float:
        if self.step is not None:
            return self.step
        if self._losses is None:
            return 0.0
        if self._losses.size != losses.size:
            raise SplitError(f"{losses.size:,} losses after {self._losses.size:,}; pass those of the same rows.")
        return float(np.std(losses - self._losses, ddof=1)) / math.sqrt(losses.size)
