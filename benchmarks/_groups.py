"""Tables of groups x classes, their rows, and both splitters on them."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np
from evenfold.splitters import BalancedGroupKFold
from evenfold.splitters.targets import MOST_CLASSES_OF_INTEGERS
from sklearn.model_selection import StratifiedGroupKFold


class Work:
    """Rows of a table of groups x classes, shuffled, and both splitters on them."""

    def __init__(self, table: Any, k: int) -> None:
        self.k = k
        self.table = table[:, table.sum(axis=0) > 0]
        n_groups, n_classes = self.table.shape
        groups = np.repeat(np.repeat(np.arange(n_groups), n_classes), self.table.ravel())
        y = np.repeat(np.tile(np.arange(n_classes), n_groups), self.table.ravel())
        order = np.random.default_rng(99).permutation(groups.size)
        # Integers of more than 20 values are numbers to a splitter; written out they are the classes that they are.
        self.groups, self.y = groups[order], y[order] if n_classes <= MOST_CLASSES_OF_INTEGERS else y[order].astype(str)

    def ours(self, **parameters: Any) -> tuple[Any, float]:
        """Return the fold of each group and the seconds."""
        splitter = BalancedGroupKFold(self.k, **parameters)
        labels, seconds = timed(lambda: splitter.assign(y=self.y, groups=self.groups))
        return self._of_groups(labels), seconds

    def sklearn(self, seed: int = 0) -> tuple[Any, float]:
        splitter = StratifiedGroupKFold(self.k, shuffle=True, random_state=seed)
        nothing = np.zeros((self.y.size, 1))
        pairs, seconds = timed(lambda: list(splitter.split(nothing, self.y, self.groups)))
        labels = np.empty(self.y.size, dtype=int)
        for fold, (_, test) in enumerate(pairs):
            labels[test] = fold
        return self._of_groups(labels), seconds

    def _of_groups(self, labels: Any) -> Any:
        folds = np.empty(self.table.shape[0], dtype=int)
        folds[self.groups] = labels
        return folds

    def loads(self, folds: Any) -> Any:
        return np.array([self.table[folds == f].sum(axis=0) for f in range(self.k)]).astype(float)

    def terms(self, folds: Any) -> tuple[float, float]:
        """Return the published cost's size term and class term."""
        loads = self.loads(folds)
        sizes = loads.sum(axis=1)
        n, shares = sizes.sum(), loads.sum(axis=0) / sizes.sum()
        classes = ((loads / np.maximum(sizes, 1)[:, None] - shares) ** 2).sum()
        return float(((sizes / n - 1 / self.k) ** 2).sum()), float(classes)

    def worst(self, folds: Any) -> tuple[float, float]:
        """Return the largest deviation of a fold's size, as a share of it, and of a class's share of a fold."""
        loads = self.loads(folds)
        sizes = loads.sum(axis=1)
        shares = loads / np.maximum(sizes, 1)[:, None] - loads.sum(axis=0) / sizes.sum()
        return float(np.abs(sizes / sizes.sum() * self.k - 1).max()), float(np.abs(shares).max())

    def alone(self) -> tuple[float, float]:
        """Return both deviations of a fold that holds the largest group and nothing else."""
        sizes, n = self.table.sum(axis=1), self.table.sum()
        largest = int(sizes.argmax())
        shares = self.table[largest] / sizes[largest] - self.table.sum(axis=0) / n
        return float(sizes[largest] * self.k / n - 1), float(np.abs(shares).max())

    def cost(self, folds: Any) -> float:
        return sum(self.terms(folds))


def timed(work: Callable[[], Any]) -> tuple[Any, float]:
    """Return what ``work`` returns, and the CPU seconds it took."""
    start = time.process_time()
    result = work()
    return result, time.process_time() - start


def lognormal(rng: Any, n: int, mean: float = 100.0) -> Any:
    return np.maximum(1, np.rint(rng.lognormal(0, 1, n) / np.exp(0.5) * mean)).astype(int)


def mixed(rng: Any, sizes: Any, n_classes: int, alpha: float = 0.5) -> Any:
    """Return groups of these sizes, each with a class mix of its own."""
    mixes = rng.dirichlet(np.full(n_classes, alpha), sizes.size)
    return np.array([rng.multinomial(size, mix) for size, mix in zip(sizes, mixes, strict=True)])
