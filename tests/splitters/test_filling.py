"""Filling what classes lack: new rows lift the emptiest bins, and nothing moves."""

from __future__ import annotations

import numpy as np
from evenfold.splitters.kernels.random import Stream
from evenfold.splitters.kernels.sampling import fill


def test_filling_is_as_even_as_whole_rows_allow_in_500_random_cases() -> None:
    for case in range(500):
        rng = np.random.default_rng(case)
        n_bins, n_classes = rng.integers(2, 9), rng.integers(1, 7)
        shares = np.full(n_bins, 1 / n_bins) if case % 2 else rng.dirichlet(np.full(n_bins, 3.0))
        strata = rng.integers(0, n_classes, rng.integers(1, 60))
        bins = fill(strata, np.zeros((n_bins, n_classes), dtype=np.int64), shares, Stream(case))
        counts = np.zeros((n_bins, n_classes), dtype=np.int64)
        np.add.at(counts, (bins, strata), 1)
        off = counts - shares[:, None] * counts.sum(axis=0)
        assert np.abs(off).max() < 1
        assert np.abs(off.sum(axis=1)).max() < 1


def test_filling_never_feeds_a_fuller_bin_before_an_emptier_one_in_500_random_cases() -> None:
    for case in range(500):
        rng = np.random.default_rng(case)
        n_bins, n_classes = rng.integers(2, 9), rng.integers(1, 7)
        held = rng.integers(0, rng.integers(1, 6), (n_bins, n_classes))
        strata = rng.integers(0, n_classes, rng.integers(1, 60))
        after = held.copy()
        np.add.at(after, (fill(strata, held, np.full(n_bins, 1 / n_bins), Stream(case)), strata), 1)
        assert np.all((after == held) | (after <= after.min(axis=0) + 1))
