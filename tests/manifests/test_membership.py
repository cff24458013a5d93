"""Labels, draws and pairs behind one face: the same questions, the same answers as rows of the data give."""

from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
import pytest
from evenfold.manifests import Manifest, decide, diff
from evenfold.manifests.membership import EXCLUDED, Draws, Labels, Pairs
from evenfold.splitters import SplitError
from evenfold.splitters.strategies.wrappers import LOCKING_VERSION

FRAME = pd.DataFrame({"id": range(60), "y": np.arange(60) % 3, "t": range(60)})
REPEATED = {
    "strategy": "Repeated",
    "params": {"strategy": {"strategy": "KFold", "params": {"n_splits": 3}}, "n_repeats": 2},
}
SHAPES: list[tuple[dict[str, Any], type, int, int]] = [
    ({"strategy": "KFold"}, Labels, 5, 1),
    (REPEATED, Labels, 6, 2),
    ({"strategy": "Bootstrap", "params": {"n_splits": 4}}, Draws, 4, 1),
    ({"strategy": "ForwardChaining", "params": {"n_splits": 3}}, Pairs, 3, 1),
]


def decided(spec: dict[str, Any], **more: Any) -> Manifest:
    time = {"time": "t"} if spec["strategy"] == "ForwardChaining" else {}
    return decide({**spec, "columns": {"key": "id", "target": "y", **time}, **more}, FRAME)


@pytest.mark.parametrize(("spec", "shape", "n_splits", "n_repeats"), SHAPES)
def test_every_shape_answers_the_same_questions(
    spec: dict[str, Any], shape: type, n_splits: int, n_repeats: int
) -> None:
    membership = decided(spec, holdout=0.1).membership
    assert type(membership) is shape
    assert (membership.n, membership.n_splits, membership.n_repeats) == (60, n_splits, n_repeats)
    assert membership.codes.shape == (60, n_repeats)
    names = [membership.split_name(i) for i in range(n_splits)]
    assert names == [divmod(i, n_splits // n_repeats) for i in range(n_splits)]
    titles = [membership.split_title(i) for i in range(n_splits)]
    assert len(set(titles)) == n_splits
    digests = {membership.digest(i) for i in range(n_splits)}
    assert len(digests) == n_splits
    assert set(membership.locked) | set(membership.unlocked) == set(range(60))
    for train, test in map(membership.pair, range(n_splits)):
        assert not set(train) & set(test)
        assert not {*train, *test} & set(membership.locked)


def test_a_holdout_is_refused_where_pairs_are_positions_among_all_rows() -> None:
    with pytest.raises(SplitError, match="PredefinedPairs names rows by their position among all 60, and a holdout"):
        decided({"strategy": "PredefinedPairs", "params": {"given_pairs": [([0, 1], [2, 3])]}}, holdout=0.1)


@pytest.mark.parametrize("spec", [{"strategy": "KFold"}, REPEATED, {"strategy": "PoissonBootstrap"}])
def test_excluded_rows_are_in_no_split_and_folds_stay(spec: dict[str, Any]) -> None:
    membership = decided(spec).membership
    idle = membership.column() == membership.column().max()
    less = replace(membership, codes=np.where(idle[:, None], EXCLUDED, membership.codes))
    assert less.n_splits == membership.n_splits
    if isinstance(membership, Labels):
        assert less.pair(membership.n_bins - 1)[1].size == 0
        assert not set(np.flatnonzero(idle)) & {row for pair in map(less.pair, range(3)) for row in pair[0]}
    assert (membership.column()[idle] >= 0).all()


def test_a_row_that_moves_in_two_repeats_is_one_row() -> None:
    older = decided(REPEATED)
    codes = older.membership.codes.copy()
    codes[7] = (codes[7] + 1) % 3
    newer = replace(older, membership=replace(older.membership, codes=codes))
    assert diff(older, newer).n_moved == 1


def test_the_rule_by_which_rows_are_locked_is_part_of_what_was_asked_where_rows_are_locked() -> None:
    rows = pd.DataFrame({"id": range(60), "g": np.arange(60) // 2, "y": np.arange(60) % 7})
    for columns in ({"key": "id"}, {"key": "id", "group": "g", "target": "y"}):
        locked, whole = (decide({"columns": columns, "holdout": holdout}, rows) for holdout in (0.2, None))
        assert locked.algorithm["locking"] == LOCKING_VERSION
        assert "locking" not in whole.algorithm
