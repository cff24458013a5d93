"""What a look at locked rows is told where the score itself is not: by Thresholdout, or by the Ladder.

Thresholdout answers with the training rows' value unless the two disagree. The Ladder is a leaderboard that moves only
where a model is better by more than chance.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from evenfold.estimates.metrics.registry import metric_of
from evenfold.splitters.errors import SplitError
from evenfold.splitters.kernels.random import LOOKING, Stream
from numpy.typing import NDArray

from .ledger import AnswerLine


def require_answerable(policy: str, metrics: Sequence[str]) -> None:
    """Raise SplitError unless one metric is asked for, and it is a share of rows: what both theorems are about."""
    loss = metric_of(metrics[0]).loss
    if len(metrics) != 1 or loss is None or not loss.share:
        raise SplitError(
            f"the holdout's policy {policy} answers one metric a look, a share of rows such as accuracy, and "
            f"{', '.join(metrics)} {'is' if len(metrics) == 1 else 'are'} asked for; pass --metric accuracy."
        )


def told(
    policy: str,
    metric: str,
    training: float,
    holdout: float,
    *,
    earlier: Sequence[AnswerLine],
    budget: int | None,
    step: float,
    seed: int,
) -> tuple[float, bool]:
    """Return what a look is told of a score, and whether the holdout answered for itself.

    ``earlier``: what the looks before were told, as the ledger has it; ``training``: the score of the training rows.
    Thresholdout (``budget``, noise of ``seed``) tells the training score where the two are near; the Ladder tells the
    best score so far, in steps of ``step``, as theorem 3.1 of its paper has it. Their docstrings say what is promised.
    """
    if policy == "thresholdout":
        guard = Thresholdout(budget or 1, seed=seed)
        guard.replay(answer["spent"] for answer in earlier)
        before = guard.left
        answer = guard.answer(training, holdout)
        return min(max(answer, 0.0), 1.0), guard.left < before
    loss = metric_of(metric).loss
    assert loss is not None
    board = Ladder(step)
    board.best = min(
        (loss.score(answer["told"][metric]) for answer in earlier if metric in answer["told"]), default=np.inf
    )
    before_best = board.best
    best = board.answer(np.array([loss.score(holdout)]))
    return loss.score(min(max(best, 0.0), 1.0)), best < before_best


def words_of(policy: str, step: float, own: bool) -> str:
    """Return a sentence on what a look was told."""
    if policy == "ladder":
        better = "is better by more than a step" if own else "is not better by more than a step, so it is told again"
        return f"Told by the Ladder, in steps of {step:g}: the best score so far; this model {better}."
    if own:
        return "Told by Thresholdout: the holdout's score with noise, because the training score is far from it."
    return "Told by Thresholdout: the training score, because the holdout's is near it; no answer was spent."


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
