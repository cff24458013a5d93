"""Bootstraps: what is drawn how often, and what stays when rows are added."""

import hashlib
from math import exp, factorial
from typing import Any

import numpy as np
import pandas as pd
import pytest
from evenfold.manifests import decide
from evenfold.splitters import Bootstrap, GroupBootstrap, PoissonBootstrap, SplitError, StratifiedBootstrap, Stream
from evenfold.splitters.numbers import CALIBRATION, IMPORTANCE
from evenfold.splitters.strategies.bootstraps import QUANTILES


@pytest.mark.parametrize("bound", [1, 2, 3, 10, 97, 2**16 + 1, 3 * 2**30, 2**32])
def test_bounded_integers_are_uniform(bound: int) -> None:
    """The 64 equal stretches of the range hold their share, within 5 standard deviations."""
    numbers = Stream(1).below(bound, 40_001)
    assert numbers.min() >= 0
    assert numbers.max() < bound
    cells = np.bincount(numbers * min(64, bound) // bound, minlength=min(64, bound))
    width = np.array([-(-(i + 1) * bound // len(cells)) + (i * bound // -len(cells)) for i in range(len(cells))])
    wanted = numbers.size * np.abs(width) / np.abs(width).sum()
    assert (np.abs(cells - wanted) < 5 * np.sqrt(wanted)).all() or bound == 1


PINNED = {
    "raw": (lambda stream: stream.raw(33), "54b8d7f389cb658e"),
    "permutation": (lambda stream: stream.permutation(1_000), "ec7cf9007dfe9464"),
    "rows of permutations": (lambda stream: stream.shuffled_rows(7, 65), "36f9c0b3b3040663"),
    "an order by code": (lambda stream: stream.shuffled_by(np.arange(1_000) % 5, 5), "084c348915bf4e11"),
    "numbers below": (lambda stream: stream.below(3 * 2**30, 40_001), "3867a0c6456ac0d2"),
    "numbers of [0, 1)": (lambda stream: stream.uniform(99), "6bd34e41f9e105f0"),
}


@pytest.mark.parametrize("what", PINNED)
def test_the_numbers_of_a_stream_never_change(what: str) -> None:
    make, wanted = PINNED[what]
    numbers = make(Stream(7, 1, 2))
    assert CALIBRATION == IMPORTANCE + 1, "no two purposes share numbers"
    assert hashlib.sha256(numbers.astype(numbers.dtype.newbyteorder("<")).tobytes()).hexdigest()[:16] == wanted


@pytest.mark.parametrize("seed", [None, -1, 1.0, True, "1", np.random.RandomState(0)], ids=lambda seed: str(type(seed)))
def test_a_seed_that_nobody_else_can_repeat_is_refused(seed: Any) -> None:
    with pytest.raises(SplitError, match=r"random_state=.* cannot be repeated by anybody else; pass an integer"):
        Bootstrap(2, random_state=seed).split(np.zeros(9))


def splitmix64(state: int) -> int:
    word = state
    word = (word ^ (word >> 30)) * 0xBF58476D1CE4E5B9 % 2**64
    word = (word ^ (word >> 27)) * 0x94D049BB133111EB % 2**64
    return word ^ (word >> 31)


def test_a_poisson_count_is_the_rule_in_whole_numbers() -> None:
    """SHA-256, splitmix64 and the quantiles of Poisson(1), worked out by hand for some keys and resamples."""
    keys = [*range(80), "zażółć", "鍵"]
    splitter = PoissonBootstrap(3, random_state=5)
    rows = splitter.rows(np.zeros(82), key=np.array(keys, dtype=object))
    for resample, counts in enumerate(splitter.resamples(rows)):
        for key, count in zip(keys, counts.tolist(), strict=True):
            base = int.from_bytes(hashlib.sha256(f"5|{key}".encode()).digest()[:8], "big")
            word = splitmix64((base + (resample + 1) * 0x9E3779B97F4A7C15) % 2**64)
            at_most = [sum(exp(-1) / factorial(i) for i in range(k + 1)) for k in range(20)]
            assert count == sum(share <= word / 2**64 for share in at_most)


def test_quantiles_are_the_distribution() -> None:
    """P(X <= k) x 2^64 to within the precision of doubles, ascending to the last bit."""
    shares = np.cumsum([exp(-1) / factorial(k) for k in range(20)])
    assert np.allclose(QUANTILES / 2**64, shares, rtol=1e-15)
    assert (np.diff(QUANTILES.astype(object)) > 0).all()


def test_old_rows_keep_their_counts_when_data_grow() -> None:
    """1,000 rows among 1,500 in another order: every resample draws the old ones as often as before."""
    old, new = np.arange(1000), np.random.default_rng(0).permutation(1500)
    splitter = PoissonBootstrap(20)
    before = splitter.resamples(splitter.rows(old, key=old))
    after = splitter.resamples(splitter.rows(new, key=new))
    for few, many in zip(before, after, strict=True):
        assert np.array_equal(few, many[np.argsort(new)][:1000])


@pytest.mark.parametrize(
    ("splitter", "given", "message"),
    [
        (Bootstrap(), {"X": [1]}, "there is 1 row"),
        (Bootstrap(0), {"X": [1, 2]}, "n_splits=0"),
        (StratifiedBootstrap(), {"y": list("abcd")}, "4 classes in 4 rows"),
        (GroupBootstrap(), {"groups": [1, 1, 1]}, "all 3 rows are one group"),
        (PoissonBootstrap(), {"X": [1, 2, 3], "key": [1, 2, 3]}, r"resample \d draws (every|none) of the 3 rows"),
        (PoissonBootstrap(), {"X": [1, 2], "key": [1.5, 2.5]}, "key holds 1.5"),
    ],
)
def test_rows_that_cannot_be_resampled_are_refused(splitter: Bootstrap, given: dict[str, Any], message: str) -> None:
    with pytest.raises(SplitError, match=message):
        splitter.split(**given)


@pytest.mark.parametrize("strategy", ["StratifiedBootstrap", "StratifiedShuffleSplit"])
def test_a_class_that_the_holdout_takes_whole_is_drawn_no_more(strategy: str) -> None:
    rows = pd.DataFrame({"k": range(31), "y": ["rare", *["common"] * 30]})
    asked = {"columns": {"key": "k", "target": "y"}, "strategy": strategy}
    for seed in range(6):
        manifest = decide(asked | {"holdout": {"fraction": 0.5, "seed": seed}}, rows)
        assert all(len({*train} | {*test}) <= manifest.membership.eligible.size for train, test in manifest.pairs())
