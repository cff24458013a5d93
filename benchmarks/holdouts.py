"""A holdout that is asked again and again, on pure noise: how far its answers stray from the truth, which is one half.

The experiment of Dwork et al. (2015, The reusable holdout, Science 349, figure 1, left): 10,000 rows of 10,000 random
attributes, labels that depend on none. Attributes that agree on both sets are chosen, and the sign vote of the best 500
is scored on the same holdout; the paper reports 63 % where the truth is 50 %. Then Blum and Hardt's boosting attack
(2015, The Ladder, figure 1): a vote of random guesses that the board called better than one half.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from evenfold.estimates.holdouts.ladder import Ladder
from evenfold.estimates.holdouts.thresholdout import Thresholdout

ROWS, ATTRIBUTES, CHOSEN, BLOCK = 10_000, 10_000, 500, 500
BOARD_ROWS, GUESSES = 4_000, 1_000
Array = np.ndarray[Any, np.dtype[Any]]


def rows() -> list[dict[str, Any]]:
    """Return how far above one half each answer is."""
    plain, guarded = reusable_holdout()
    board, ladder = leaderboard()
    return [
        _row("500 of 10,000 attributes of noise, chosen on the holdout: its accuracy above .5", guarded, plain, 0.02),
        _row("a vote of 1,000 lucky guesses of noise: the board's accuracy above .5", ladder, board, 0.03),
    ]


def _row(work: str, ours: float, peer: float, most: float) -> dict[str, Any]:
    return {
        "work": work,
        "ours": f"{ours - 0.5:+.3f}",
        "peer": f"{peer - 0.5:+.3f} (plain holdout)",
        "ratio": f"{abs(ours - 0.5) / abs(peer - 0.5):.2f}",
        "target": f"at most {most:g}",
        "met": abs(ours - 0.5) <= most,
    }


def reusable_holdout(seed: int = 0) -> tuple[float, float]:
    """Return the accuracy that a plain holdout reports after 10,000 questions, and that Thresholdout reports."""
    labels = {side: _signs(np.random.default_rng([seed, 1, side]), ROWS) for side in (0, 1)}
    means = {side: _correlations(labels[side], seed, side) for side in (0, 1)}
    guard = Thresholdout(budget=ATTRIBUTES, threshold=0.04, noise=0.01, seed=seed)
    # A question is whether attribute and label agree: a mean between 0 and 1.
    answers = (
        2 * np.array([guard.answer(0.5 + a / 2, 0.5 + b / 2) for a, b in zip(means[0], means[1], strict=True)]) - 1
    )
    reported = []
    for seen in (means[1], answers):
        agree = (np.sign(means[0]) == np.sign(seen)) & (np.abs(means[0]) >= 1 / np.sqrt(ROWS))
        agree &= np.abs(seen) >= 1 / np.sqrt(ROWS)
        strength = np.where(agree, np.abs(means[0] + seen), 0.0)
        best = np.argsort(-strength)[:CHOSEN]
        weights = np.where(agree[best], np.sign(means[0][best]), 0.0)
        reported.append([_accuracy(labels[side], best, weights, seed, side) for side in (0, 1)])
    plain = reported[0][1]
    return plain, guard.answer(reported[1][0], reported[1][1])


def _signs(random: np.random.Generator, n: int) -> Array:
    return (2 * random.integers(0, 2, n) - 1).astype(np.float32)


def _block(seed: int, side: int, start: int) -> Array:
    return np.random.default_rng([seed, 2, side, start]).standard_normal((ROWS, BLOCK), dtype=np.float32)


def _correlations(labels: Array, seed: int, side: int) -> Array:
    starts = range(0, ATTRIBUTES, BLOCK)
    return np.concatenate([labels @ _block(seed, side, start) / ROWS for start in starts]).astype(np.float64)


def _accuracy(labels: Array, best: Array, weights: Array, seed: int, side: int) -> float:
    total = np.zeros(ROWS)
    for start in range(0, ATTRIBUTES, BLOCK):
        inside = np.flatnonzero((best >= start) & (best < start + BLOCK))
        total += _block(seed, side, start)[:, best[inside] - start] @ weights[inside]
    return float(np.mean(np.sign(total) == labels))


def leaderboard(seed: int = 0) -> tuple[float, float]:
    """Return the accuracy of the vote that a plain board shows, and that the Ladder shows."""
    truth = np.random.default_rng([seed, 3]).integers(0, 2, BOARD_ROWS)
    guesses = np.random.default_rng([seed, 4]).integers(0, 2, (GUESSES, BOARD_ROWS))
    losses = (guesses != truth).astype(np.float64)
    lucky = guesses[losses.mean(axis=1) < 0.5]
    plain = float(np.mean((lucky.mean(axis=0) > 0.5) == truth))
    board, told, kept = Ladder(), np.inf, []
    for guess, loss in zip(guesses, losses, strict=True):
        now = board.answer(loss)
        kept += [guess] if now < told else []
        told = now
    vote = np.mean(kept, axis=0) > 0.5
    return plain, 1.0 - board.answer((vote != truth).astype(np.float64))


if __name__ == "__main__":
    print(rows())
