"""Hashed folds: by hand, by another engine, and for any number of folds exactly."""

import hashlib
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from evenfold.splitters import HashSplit, SplitError

KEYS = [*range(-3, 200), "zażółć", "", "ключ", "鍵", "emoji 🗝", "a|b", "0x1F"]


def unit(key: Any, salt: str) -> Fraction:
    return Fraction(int(hashlib.sha256(f"{salt}|{key}".encode()).hexdigest()[:13], 16), 2**52)


@pytest.mark.parametrize("n_splits", [2, 5, 7, 1000, 4096, 65_537, 2**31 - 1])
def test_the_fold_is_the_rule_in_whole_numbers(n_splits: int) -> None:
    wanted = [int(unit(key, "s") * n_splits) for key in KEYS]
    assert HashSplit(n_splits, salt="s").labels_of(np.array(KEYS, dtype=object)).tolist() == wanted


def test_a_value_worked_out_by_hand() -> None:
    """SHA-256 of "|1" begins with b75c34545e8cb, which is .716 of 16^13: the fourth of five folds."""
    assert HashSplit(5).labels_of([1]).tolist() == [0xB75C34545E8CB * 5 // 16**13] == [3]
    assert HashSplit(5).labels_of(["1"]).tolist() == HashSplit(5).labels_of(np.array([1], np.uint8)).tolist()


def test_a_part_is_the_first_whose_cumulative_share_is_above_u() -> None:
    parts = {"train": 0.7, "validation": 0.1, "test": 0.2}
    labels = HashSplit(parts=parts, salt="s").labels_of(np.array(KEYS, dtype=object))
    edges = [Fraction(0.7), Fraction(0.7 + 0.1)]
    wanted = [[-1, 0, -2][sum(edge <= unit(key, "s") for edge in edges)] for key in KEYS]
    assert labels.tolist() == wanted


def test_duckdb_decides_the_same_folds() -> None:
    duckdb = pytest.importorskip("duckdb", reason="duckdb is not installed, so its folds cannot be compared")
    keys = [f"{i}-{'äß鍵🗝'[i % 4]}" for i in range(20_000)]
    rule = next(line.strip() for line in (HashSplit.__doc__ or "").splitlines() if "sha256('trial'" in line)
    with duckdb.connect() as connection:
        rows = connection.execute(f"select {rule} from (select unnest(?) as id)", [keys]).fetchall()
    assert HashSplit(5, salt="trial").labels_of(keys).tolist() == [fold for (fold,) in rows]


def test_sizes_are_as_even_as_chance_makes_them() -> None:
    """100,000 keys in 10 folds: each within 5 standard deviations of a tenth."""
    sizes = np.bincount(HashSplit(10).labels_of(np.arange(100_000)))
    assert np.abs(sizes - 10_000).max() < 5 * np.sqrt(100_000 * 0.1 * 0.9)


@pytest.mark.parametrize(
    ("splitter", "key", "message"),
    [
        (HashSplit(5), np.arange(4), "n_splits=5 with 4 rows"),
        (HashSplit(5), np.arange(6), r"the hashes of these 6 keys leave \d of 5 labels without rows"),
        (HashSplit(2), np.linspace(0, 1, 40), r"key holds 0\.0 \(float\); pass integers or text"),
        (HashSplit(2), [True, False] * 20, "key holds True"),
        (HashSplit(2, salt=1), np.arange(40), "salt=1; choose a text"),
        (HashSplit(parts={"train": 0.5, "test": 0.6}), np.arange(40), "sum to 1.1"),
    ],
)
def test_what_has_no_portable_hash_is_refused(splitter: HashSplit, key: Any, message: str) -> None:
    with pytest.raises(SplitError, match=message):
        splitter.split(np.zeros((len(key), 1)), key=key)
