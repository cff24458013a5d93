"""Named parts and hashed folds: their codes, their exact sizes, and what they refuse."""

import hashlib
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from evenfold.splitters import (
    BalancedGroupSplit,
    FractionalStratifiedSplit,
    HashSplit,
    Holdout,
    KFold,
    ShuffleSplit,
    SortedStratifiedKFold,
    SplitError,
    StratifiedSplit,
)
from evenfold.splitters.strategies.parts import check_parts, part_sizes, rounded
from hypothesis import given, settings, strategies as st
from sklearn import model_selection


@pytest.mark.parametrize(
    ("parts", "codes"),
    [
        ({"train": 0.8, "test": 0.2}, {"train": -1, "test": 0}),
        ({"test": 0.1, "train": 0.8, "validation": 0.1}, {"test": -2, "train": -1, "validation": 0}),
        ({"train": 0.7, "b": 0.1, "test": 0.1, "a": 0.1}, {"train": -1, "b": 1, "test": -2, "a": 2}),
    ],
)
def test_parts_have_the_codes_that_a_manifest_stores(parts: dict[str, float], codes: dict[str, int]) -> None:
    """Train is -1, validation 0, test -2 unless it stands beside train alone, others count up from 1."""
    splitter = FractionalStratifiedSplit(parts)
    assert splitter.part_codes() == codes
    assert splitter.get_n_splits() == sum(code >= 0 for code in codes.values())


def test_a_test_part_beside_validation_is_in_no_pair() -> None:
    y = np.random.default_rng(0).pareto(1.5, 200)
    splitter = FractionalStratifiedSplit({"train": 0.6, "validation": 0.2, "test": 0.2})
    ((train, validation),) = splitter.split(None, y)
    assert (train.size, validation.size) == (120, 40)
    assert set(np.union1d(train, validation)).isdisjoint(np.flatnonzero(splitter.assign(None, y) == -2))


@pytest.mark.parametrize("seed", range(8))
def test_every_class_and_every_part_is_rounded_at_once(seed: int) -> None:
    rng = np.random.default_rng(seed)
    counts = rng.integers(1, 40, rng.integers(2, 12))
    shares = rng.dirichlet(np.ones(rng.integers(2, 7)) * 2)
    sizes = part_sizes(dict(enumerate(shares)), int(counts.sum()))
    table = rounded(counts, sizes)
    assert table.sum(axis=1).tolist() == counts.tolist()
    assert table.sum(axis=0).tolist() == sizes.tolist()
    assert (np.abs(table * counts.sum() - np.outer(counts, sizes)) < counts.sum()).all()
    assert table.min() >= 0


@pytest.mark.parametrize(("n", "share", "tested"), [(10, 0.30000001, 4), (10, 0.25, 3), (30, 0.1, 3), (9, 1 / 3, 3)])
def test_sizes_are_rounded_by_one_rule_which_is_that_of_scikit_learn(n: int, share: float, tested: int) -> None:
    X, y = np.zeros((n, 1)), np.arange(n) / 2
    ours = {next(ShuffleSplit(1, test_size=share).split(X))[1].size, Holdout(KFold(2), share).locked(X).size}
    ours.add(int(np.sum(FractionalStratifiedSplit({"train": 1 - share, "test": share}).assign(X, y) == 0)))
    ours.add(int(np.sum(StratifiedSplit({"train": 1 - share, "test": share}).assign(X, y > y[n // 2]) == 0)))
    assert ours == {next(model_selection.ShuffleSplit(1, test_size=share).split(X))[1].size} == {tested}


def test_text_classes_are_shared_out_to_parts_of_any_shares() -> None:
    """The German credit data's shares, 80, 10 and 10 %: each part has 30 % of bad risks."""
    y = np.array(["Good"] * 700 + ["Bad"] * 300)[np.random.default_rng(0).permutation(1000)]
    labels = StratifiedSplit({"train": 0.8, "validation": 0.1, "test": 0.1}).assign(y=y)
    assert {code: int((y[labels == code] == "Bad").sum()) for code in (-1, 0, -2)} == {-1: 240, 0: 30, -2: 30}
    assert {code: int((labels == code).sum()) for code in (-1, 0, -2)} == {-1: 800, 0: 100, -2: 100}
    rare = np.array(["a"] * 30 + ["b"] * 2)
    with pytest.raises(SplitError, match=r"class 'b' has 2 of 32 rows, fewer than the 3 parts; choose rare='spread'"):
        StratifiedSplit().assign(y=rare)
    assert set(StratifiedSplit(rare="spread").assign(y=rare)[30:]) <= {-1, 0, -2}


@pytest.mark.parametrize(
    ("parts", "message"),
    [
        ({"train": 1.0}, "name two or more"),
        ({"a": 0.4, "b": 0.4, "c": 0.2}, r"which is trained on \('a' and 'b' are as large\); call that one 'train'"),
        ({"validation": 0.5, "test": 0.5}, r"each is for judging by its name\); call that one 'train'"),
        ({"train": 0.8, "test": 0.3}, r"sum to 1\.1; choose shares that sum to 1"),
        ({"train": 0.8, "test": 0.2 + 1e-6}, r"sum to 1\.000001; choose"),
        ({"train": 0.8, "test": 0.2, "extra": 0.0}, r"\{'extra': 0.0\} is not a share"),
        ({"train": float("nan"), "test": 0.2}, "is not a share"),
        ({"train": 89, "test": 0.11}, r"\{'train': 89\} is not a share"),
        ({"train": 89, "test": 0}, r"is not a share"),
        ({"train": 99, "test": 1}, r"'test' would get 0\.4 of 40 rows"),
        ({"train": 0.99, "test": 0.01}, r"part 'test' would get 0\.4 of 40 rows; .* at least 100 rows"),
    ],
)
def test_parts_that_cannot_be_are_refused_with_what_would_work(parts: Any, message: str) -> None:
    with pytest.raises(SplitError, match=message):
        FractionalStratifiedSplit(parts).assign(None, np.arange(40.0))
    with pytest.raises(SplitError, match=message):
        check_parts(parts, 40)


@pytest.mark.parametrize(
    ("parts", "trained", "tested"),
    [
        ({"check": 0.3, "fit": 0.7}, "fit", ["check"]),
        ({"fit": 0.7, "check": 0.2, "exam": 0.1}, "fit", ["check", "exam"]),
        ({"big": 0.6, "train": 0.2, "other": 0.2}, "train", ["big", "other"]),
    ],
)
def test_parts_of_any_names_train_on_train_or_else_on_the_largest(
    parts: dict[str, float], trained: str, tested: list[str]
) -> None:
    y, groups = np.resize([0, 1], 200), np.arange(200) // 2
    for strategy in (FractionalStratifiedSplit, StratifiedSplit, BalancedGroupSplit, HashSplit):
        splitter = strategy(parts=parts)
        codes, roles = splitter.part_codes(), {"key": np.arange(200)} if strategy is HashSplit else {}
        assert codes[trained] == -1
        pairs = list(splitter.split(None, y, groups if splitter.needs.groups else None, **roles))
        assert len(pairs) == splitter.get_n_splits() == len(tested)
        for (train, test), name in zip(pairs, tested, strict=True):
            assert abs(train.size - 200 * parts[trained]) <= (40 if strategy is HashSplit else 2)
            assert abs(test.size - 200 * parts[name]) <= (40 if strategy is HashSplit else 2)


@pytest.mark.parametrize("precision", [0, -1, 2.5, 41])
def test_a_precision_without_rows_is_refused(precision: Any) -> None:
    with pytest.raises(SplitError, match="precision="):
        FractionalStratifiedSplit(precision=precision).assign(None, np.arange(40.0))


@st.composite
def shares(draw: st.DrawFn) -> dict[str, float]:
    weights = draw(st.lists(st.integers(1, 50), min_size=2, max_size=6))
    names = ["train", *(f"part {i}" for i in range(1, len(weights)))]
    return {name: weight / sum(weights) for name, weight in zip(names, weights, strict=True)}


@settings(max_examples=50)
@given(parts=shares(), n=st.integers(1, 400), ties=st.integers(1, 400), precision=st.none() | st.integers(1, 400))
def test_every_part_is_exact_and_follows_the_distribution(
    parts: dict[str, float], n: int, ties: int, precision: int | None
) -> None:
    """Sizes are within 1 row, and no part's count below a threshold strays further than the blocks that it cuts.

    In every round a threshold cuts one block, of at most 1 + undecided / blocks rows, and whole blocks are shared in
    whole rows; so the rounds' blocks bound the distance. With ties, any order of equal values is as good.
    """
    n = max(n, int(np.ceil(1 / min(parts.values()))))
    y = np.random.default_rng(n).integers(0, ties, n).astype(float)
    splitter = FractionalStratifiedSplit(parts, precision=None if precision is None else min(precision, n))
    labels = splitter.assign(None, y)
    assert np.isin(labels, list(splitter.part_codes().values())).all()
    rounds = int(np.log2(splitter._precision(n))) + 1
    block = 1 + n // splitter._precision(n) + 2 * len(parts)
    thresholds = np.unique(y)
    for name, code in splitter.part_codes().items():
        assert abs(np.sum(labels == code) - parts[name] * n) < 1 + 1e-9
        below = np.searchsorted(np.sort(y[labels == code]), thresholds, side="right")
        wanted = parts[name] * np.searchsorted(np.sort(y), thresholds, side="right")
        assert np.abs(below - wanted).max() <= rounds * block


def test_tails_are_shared_out_to_a_few_rows_of_a_million() -> None:
    """At any threshold of a heavy tail, a part of 11 % holds its share to within 10 rows of 200,000."""
    y = np.random.default_rng(1).pareto(1.5, 200_000)
    labels = FractionalStratifiedSplit({"train": 0.89, "test": 0.11}).assign(None, y)
    ranked = labels[np.argsort(y)] == 0
    assert np.abs(np.cumsum(ranked) - 0.11 * np.arange(1, y.size + 1)).max() < 10


@pytest.mark.parametrize("parts", [{"train": 89, "test": 11}, {"train": 178, "test": 22}, {"train": 9, "test": 1}])
def test_whole_numbers_are_folds_that_are_merged(parts: dict[str, int]) -> None:
    y = np.random.default_rng(0).lognormal(size=600)
    k, tested = (10, 1) if parts["test"] == 1 else (100, 11)
    order = np.argsort(y)
    merged = SortedStratifiedKFold(k).assign(None, y) < tested
    made = FractionalStratifiedSplit(parts).assign(None, y) == 0
    for test in (merged, made):
        assert (test[order].reshape(-1, k).sum(axis=1) == tested).all()
    fractions = FractionalStratifiedSplit({name: count / sum(parts.values()) for name, count in parts.items()})
    assert np.sum(fractions.assign(None, y) == 0) == made.sum()


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


def test_every_partition_of_a_block_can_come_out() -> None:
    """Which rows of a block go where is random: among 4 rows all 6 halves appear."""
    y = np.arange(4.0)
    halves = {
        tuple(FractionalStratifiedSplit({"train": 0.5, "test": 0.5}, precision=1, random_state=seed).assign(None, y))
        for seed in range(60)
    }
    assert len(halves) == 6
