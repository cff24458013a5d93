"""Draws and sorts against their peers in one run: CPU seconds, and errors as they come out."""

from __future__ import annotations

import resource
import statistics
import time
from collections import deque
from collections.abc import Callable, Iterator
from itertools import islice
from typing import Any

import numpy as np
import pandas as pd
from evenfold.splitters import (
    Bootstrap,
    GroupStratifiedShuffleSplit,
    KFold,
    SortedStratifiedKFold,
    Splitter,
    StratifiedKFold,
)
from sklearn import model_selection as sklearn

MANY, K = 10_000_000, 10
Row = dict[str, Any]


def rows() -> list[Row]:
    """Return the table's rows: each work, ours, its peer, their ratio, the target and whether it is met."""
    return [bootstrap(), *group_draws(), *sorts(), *folds()]  # the bootstrap first: it measures the most memory so far


def cpu(work: Callable[[], Any], times: int = 3) -> float:
    """Return the least CPU seconds of a few runs."""
    spent = []
    for _ in range(times):
        start = time.process_time()
        work()
        spent.append(time.process_time() - start)
    return min(spent)


def row(work: str, ours: str, peer: str, ratio: float, target: str, met: bool) -> Row:
    return {"work": work, "ours": ours, "peer": peer, "ratio": round(ratio, 3), "target": target, "met": met}


# ---------------------------------------------------------------- draws of groups


def students(seed: int) -> tuple[Any, Any]:
    """Return y and groups of 1,000 rows in 20 groups of about 50, prevalence Beta with mean 10 %."""
    rng = np.random.default_rng(seed)
    groups, shares = rng.integers(0, 20, 1000), rng.beta(1, 9, 20)
    return (rng.random(1000) < shares[groups]).astype(int), groups


def crowd(seed: int) -> tuple[Any, Any]:
    """Return y and groups of 200,000 rows in 5,000 groups of lognormal size, prevalence Beta with mean 10 %."""
    rng = np.random.default_rng(seed)
    sizes = rng.lognormal(size=5000)
    groups = np.concatenate([np.arange(5000), rng.choice(5000, 195_000, p=sizes / sizes.sum())])
    return (rng.random(groups.size) < rng.beta(1, 9, 5000)[groups]).astype(int), groups


def measured(pairs: Iterator[tuple[Any, Any]], y: Any, groups: Any) -> dict[str, float]:
    """Return mean errors of train share (.8) and prevalence, how often groups are tested, and CPU seconds a split."""
    n_groups, size, prevalence, spent = int(groups.max()) + 1, [], [], 0.0
    picks = np.zeros(n_groups)
    start = time.process_time()
    for train, test in pairs:
        spent += time.process_time() - start
        size.append(abs(train.size / y.size - 0.8))
        prevalence.append(abs(y[test].mean() - y.mean()))
        picks[np.unique(groups[test])] += 1
        start = time.process_time()
    return {
        "size": statistics.fmean(size),
        "prevalence": statistics.fmean(prevalence),
        "never": int((picks == 0).sum()),
        "variation": float(picks.std() / picks.mean()),
        "seconds": spent / len(size),
    }


def ours_drawn(y: Any, groups: Any, splits: int, beta: float | None = None) -> dict[str, float]:
    splitter = GroupStratifiedShuffleSplit(splits, beta=beta)
    return measured(splitter.pairs(splitter.rows(None, y, groups)), y, groups)


def theirs_drawn(y: Any, groups: Any, splits: int) -> dict[str, float]:
    splitter = sklearn.GroupShuffleSplit(splits, test_size=0.2, random_state=0)
    return measured(splitter.split(y, y, groups), y, groups)


def told(result: dict[str, float]) -> str:
    return (
        f"train share {result['size']:.1e}, prevalence {result['prevalence']:.1e}, {result['never']:.0f} groups never "
        f"tested, variation {result['variation']:.2f}, {result['seconds'] * 1e3:.2f} ms"
    )


def medians(results: list[dict[str, float]]) -> dict[str, float]:
    return {key: statistics.median(result[key] for result in results) for key in results[0]}


def group_draws() -> list[Row]:
    few = [students(seed) for seed in range(5)]
    ours = medians([ours_drawn(*each, 500) for each in few])
    small = (ours["size"] <= 3e-3, ours["prevalence"] <= 3e-3, ours["never"] == 0, ours["variation"] <= 0.25)
    work, target = "group draws, 1,000 rows / 20 groups, 500 splits (median of 5 instances)", "<= 3e-3, 3e-3, 0, .25"
    drawn = [row(work, told(ours), *_peer(name, peer, ours), target, all(small)) for name, peer in _peers(few, 500)]
    many = [crowd(0)]
    ours = ours_drawn(*many[0], 200)
    large = (ours["size"] <= 2e-4, ours["prevalence"] <= 2e-4, ours["seconds"] <= 0.010)
    work, target = "group draws, 200,000 rows / 5,000 groups, after the table", "<= 2e-4, 2e-4, 10 ms a split"
    return [
        *drawn,
        *(row(work, told(ours), *_peer(name, peer, ours), target, all(large)) for name, peer in _peers(many, 3)),
    ]


def _peers(instances: list[tuple[Any, Any]], splits: int) -> list[tuple[str, dict[str, float]]]:
    return [
        ("GroupShuffleSplit", medians([theirs_drawn(*each, max(splits, 50)) for each in instances])),
        ("published rule, beta 100", medians([ours_drawn(*each, splits, beta=100) for each in instances])),
    ]


def _peer(name: str, peer: dict[str, float], ours: dict[str, float]) -> tuple[str, float]:
    return f"{name}: {told(peer)}", ours["prevalence"] / peer["prevalence"]


# ---------------------------------------------------------------- sorted and plain folds


def labels_of_tests(splitter: Any, y: Any, n: int) -> Any:
    """Return a label per row, made from a scikit-learn splitter's test indices."""
    labels = np.empty(n, dtype=np.int16)
    for fold, test in enumerate(splitter._iter_test_indices(np.empty((n, 0)), y)):
        labels[test] = fold
    return labels


def labels_of_masks(splitter: Any, y: Any, n: int) -> Any:
    """Return a label per row, made from the test masks where a splitter has no test indices."""
    labels = np.empty(n, dtype=np.int16)
    for fold, test in enumerate(splitter._iter_test_masks(np.empty((n, 0)), y)):
        labels[test] = fold
    return labels


def distance(y: Any, labels: Any) -> float:
    """Return the largest distance between a fold's distribution and the whole (Kolmogorov-Smirnov)."""
    ranked, ranks = labels[np.argsort(y)], np.arange(1, y.size + 1)
    sizes = np.bincount(labels)
    return max(float(np.abs(np.cumsum(ranked == f) / sizes[f] - ranks / y.size).max()) for f in range(sizes.size))


def sorts() -> list[Row]:
    y = np.random.default_rng(0).pareto(1.5, MANY)
    ours = cpu(lambda: SortedStratifiedKFold(K).assign(None, y))
    floor = cpu(lambda: np.argsort(y))
    ks = distance(y, SortedStratifiedKFold(K).assign(None, y))
    binned = sklearn.StratifiedKFold(K, shuffle=True, random_state=0)

    def by_bins() -> Any:
        return labels_of_masks(binned, pd.qcut(y, 100, labels=False), MANY)

    peer, peer_ks = cpu(by_bins, times=2), distance(y, by_bins())
    work = "sorted folds, 10 M heavy-tailed rows, k=10"
    return [
        row(work, f"{ours:.2f} s", f"np.argsort alone: {floor:.2f} s", ours / floor, "<= 2.5", ours <= 2.5 * floor),
        row(
            work, f"{ours:.2f} s", f"qcut(100) + StratifiedKFold: {peer:.2f} s", ours / peer, "<= 1/3", 3 * ours <= peer
        ),
        row(
            work, f"KS {ks:.1e}", f"qcut(100) + StratifiedKFold: KS {peer_ks:.1e}", ks / peer_ks, "<= 1e-6", ks <= 1e-6
        ),
    ]


def folds() -> list[Row]:
    y, X = np.random.default_rng(0).integers(0, 3, MANY), np.empty((MANY, 0))
    works: list[tuple[str, Splitter, Any, Callable[..., Any], Any]] = [
        ("stratified folds", StratifiedKFold(K), sklearn.StratifiedKFold, labels_of_masks, y),
        ("plain folds", KFold(K), sklearn.KFold, labels_of_tests, None),
    ]
    made = []
    for work, splitter, peer, labelled, target in works:
        theirs = peer(K, shuffle=True, random_state=0)
        ours = cpu(lambda splitter=splitter, target=target: splitter.assign(X, target))
        peers = cpu(lambda theirs=theirs, labelled=labelled, target=target: labelled(theirs, target, MANY), times=2)
        told_peer = f"labels from {peer.__name__}'s test sets: {peers:.2f} s"
        made.append(row(f"{work}, 10 M rows, k=10", f"{ours:.2f} s", told_peer, ours / peers, "< 1", ours < peers))
    return made


# ---------------------------------------------------------------- resamples


def bootstrap() -> Row:
    """Compare 10,000 resamples of 100,000 rows, one after another, with the random bits alone, by turns."""
    n, turns, each = 100_000, 100, 100
    splitter = Bootstrap(turns * each)
    counts, bits = splitter.resamples(splitter.rows(np.empty((n, 0)))), np.random.Philox(0)
    ours = theirs = 0.0
    before = memory()
    for _ in range(turns):
        ours += cpu(lambda: deque(islice(counts, each), maxlen=0), times=1)
        theirs += cpu(lambda: deque((bits.random_raw(n) for _ in range(each)), maxlen=0), times=1)
    grown = memory() - before
    return row(
        "bootstrap, 10,000 resamples of 100,000 rows: counts, one resample after another",
        f"{ours / turns / each * 1e3:.2f} ms a resample, {grown:.0f} MB in all",
        f"random_raw(n) alone: {theirs / turns / each * 1e3:.2f} ms",
        ours / theirs,
        "<= 1.5, memory flat",
        ours <= 1.5 * theirs and grown < 10,
    )


def memory() -> float:
    """Return the most memory so far, in MB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def main() -> None:
    """Print the table."""
    for each in rows():
        verdict = "met" if each["met"] else "MISSED"
        print(f"{each['work']}\n    ours  {each['ours']}\n    peer  {each['peer']}")
        print(f"    ratio {each['ratio']}   target {each['target']}   {verdict}")


if __name__ == "__main__":
    main()
