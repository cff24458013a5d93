"""Thresholdout: answers with the training rows' value unless the holdout's disagrees."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from evenfold.splitters.errors import SplitError
from evenfold.splitters.kernels.random import LOOKING, Stream


@dataclass
class Thresholdout:
    """Answers questions about means of values between 0 and 1, many of them from one holdout.

    A question is a function of a row; ``answer`` is given its mean over the training rows and over the holdout's. The
    answer is the training mean where the two are within a noisy ``threshold`` of each other, so nothing of the holdout
    is told, and else the holdout's mean with noise, which spends one of ``budget``.

    Guarantee (Dwork et al. 2015, Generalization in adaptive data analysis and holdout reuse, theorem 25): for m
    questions, each chosen in view of all earlier answers, with threshold 3t/4, noise t / (96 ln(4m/b)) and a holdout
    of at least a constant times ln(m/b) / t^2 * min(B, sqrt(B ln(ln(m/b) / t))) rows, every answer before the budget B
    is spent is within t of the population's value, with probability 1 - b. The constants are large: with the usual
    threshold of .04 and noise of .01 the guarantee is one of shape, and the figure in the benchmarks is what it does.
    The rows must be independent of one another; holdouts of whole groups count by groups.
    """

    budget: int
    threshold: float = 0.04
    noise: float = 0.01
    seed: int = 0

    def __post_init__(self) -> None:
        if self.budget < 1 or self.threshold <= 0 or self.noise <= 0:
            raise SplitError(
                f"Thresholdout with budget={self.budget}, threshold={self.threshold:g} and noise={self.noise:g}; "
                "choose a budget of at least 1, and a threshold and noise above 0."
            )
        self.left = self.budget
        self._stream = Stream(self.seed, LOOKING)
        self._limit = self.threshold + self._laplace(2 * self.noise)

    def replay(self, spent: Iterable[bool]) -> None:
        """Go on after earlier questions: whether each was answered by the holdout's own mean, in their order."""
        # The very numbers that answering drew, in that order, so that the next answer's noise is what it would be.
        for own in spent:
            self._laplace(4 * self.noise)
            if own:
                self.left -= 1
                self._limit = self.threshold + self._laplace(2 * self.noise)
                self._laplace(self.noise)

    def answer(self, training: float, holdout: float) -> float:
        """Return the answer to one question; raises SplitError once the budget is spent."""
        if self.left < 1:
            raise SplitError(
                f"the {self.budget} answers that this holdout can give are spent; lock fresh rows away, or stop here."
            )
        if abs(holdout - training) <= self._limit + self._laplace(4 * self.noise):
            return training
        self.left -= 1
        self._limit = self.threshold + self._laplace(2 * self.noise)
        return holdout + self._laplace(self.noise)

    def _laplace(self, scale: float) -> float:
        uniform = float(self._stream.uniform(1)[0]) - 0.5
        return -scale * math.copysign(math.log(max(1.0 - 2.0 * abs(uniform), np.finfo(float).tiny)), uniform)
