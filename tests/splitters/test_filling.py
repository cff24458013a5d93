"""Filling what classes lack: new rows lift the emptiest bins, and nothing moves."""

from __future__ import annotations

import numpy as np
from evenfold.splitters.kernels.random import Stream
from evenfold.splitters.kernels.sampling import fill
from hypothesis import example, given, settings, strategies as st


@given(
    held=st.lists(st.integers(0, 30), min_size=4, max_size=4),
    strata=st.lists(st.integers(0, 2), min_size=1, max_size=60),
    seed=st.integers(0, 5),
)
@example(held=[0, 1, 0, 0], strata=[0, 0, 0, 0, 0, 1, 1], seed=0)
@example(held=[0, 0, 1, 1], strata=[0, 1], seed=0)
@settings(max_examples=60)
def test_filling_lifts_the_emptiest_and_moves_nothing(held: list[int], strata: list[int], seed: int) -> None:
    before = np.column_stack([held, held[::-1], np.zeros(4, dtype=np.int64)]).astype(np.int64)
    bins = fill(np.array(strata), before, np.full(4, 0.25), Stream(seed))
    after = before.copy()
    np.add.at(after, (bins, strata), 1)
    for c in range(3):
        fed = np.flatnonzero(after[:, c] > before[:, c])
        assert all(after[f, c] <= after[:, c].min() + 1 for f in fed)


def test_filling_is_as_even_as_whole_rows_allow_in_2_000_random_cases() -> None:
    for case in range(2_000):
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


def test_filling_never_feeds_a_fuller_bin_before_an_emptier_one_in_2_000_random_cases() -> None:
    for case in range(2_000):
        rng = np.random.default_rng(case)
        n_bins, n_classes = rng.integers(2, 9), rng.integers(1, 7)
        held = rng.integers(0, rng.integers(1, 6), (n_bins, n_classes))
        strata = rng.integers(0, n_classes, rng.integers(1, 60))
        after = held.copy()
        np.add.at(after, (fill(strata, held, np.full(n_bins, 1 / n_bins), Stream(case)), strata), 1)
        assert np.all((after == held) | (after <= after.min(axis=0) + 1))
