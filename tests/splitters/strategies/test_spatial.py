"""Blocks of a map and sites of regions: whole, evenly packed, and apart from what is learnt from."""

from typing import Any

import numpy as np
import pytest
from evenfold.splitters import Holdout, Needs, Rows, SpatialBlockKFold, SplitError, StratifiedLeaveOneGroupOut


def places(n: int = 400, seed: int = 0) -> Any:
    return np.random.default_rng(seed).uniform(0, 100, (n, 2))


def pairs(strategy: Any, where: Any, y: Any = None) -> list[tuple[Any, Any]]:
    return list(strategy.split(None, y, coordinates=where))


def nearest(some: Any, others: Any) -> Any:
    """Return the distance of each of ``some`` to the nearest of ``others``, one by one."""
    return np.array([min(np.hypot(*(one - other)) for other in others) for one in some])


def test_blocks_are_whole_and_the_buffer_is_round_every_tested_row() -> None:
    where = places()
    made = pairs(SpatialBlockKFold(4, block_size=20, buffer=5), where)
    squares = [(int(x // 20), int(y // 20)) for x, y in where]
    assert sorted(row for _, test in made for row in test) == list(range(400))
    for train, test in made:
        assert not {squares[row] for row in train} & {squares[row] for row in test}
        left_out = np.setdiff1d(np.arange(400), np.append(train, test))
        assert nearest(where[train], where[test]).min() > 5
        assert nearest(where[left_out], where[test]).max() <= 5
        assert left_out.size


def test_rows_at_the_very_distance_of_the_buffer_are_left_out() -> None:
    """On a grid whose steps are no binary fractions, a distance of three steps is 0.3 and nothing beside it."""
    grid = np.stack(np.meshgrid(np.arange(12), np.arange(12)), axis=-1).reshape(-1, 2) / 10
    steps = np.round(grid * 10).astype(int)
    for train, test in pairs(SpatialBlockKFold(2, block_size=0.6, buffer=0.3), grid + 1e-12):
        squared = ((steps[train][:, None] - steps[test]) ** 2).sum(axis=2).min(axis=1)
        assert squared.min() > 9


def test_the_same_place_is_in_the_same_block_in_every_table() -> None:
    where = np.array([[-1.0, 3.0], [1.0, 3.0], [9.0, 3.0], [11.0, 3.0]])
    strategy = SpatialBlockKFold(2, block_size=10)

    def blocks(rows: Any) -> Any:
        return strategy.prepared(Rows.of(needs=Needs(coordinates=True), coordinates=rows)).groups

    assert blocks(where).tolist() == [0, 1, 1, 2]
    assert blocks(where[1:]).tolist() == [0, 0, 1]


def test_locked_rows_are_whole_blocks_and_nothing_within_the_buffer_is_split() -> None:
    where = places(600)
    holdout = Holdout(SpatialBlockKFold(3, block_size=10, buffer=2), 0.2)
    locked, rest = (take(None, coordinates=where) for take in (holdout.locked, holdout.rest))
    squares = [(int(x // 10), int(y // 10)) for x, y in where]
    assert not {squares[row] for row in locked} & {squares[row] for row in rest}
    assert nearest(where[rest], where[locked]).min() > 2
    assert 100 < locked.size < 140


@pytest.mark.parametrize(
    ("strategy", "where", "said"),
    [
        (SpatialBlockKFold(5, block_size=60), places(), "n_splits=5 with 4 blocks of block_size=60; choose 2 to 4"),
        (SpatialBlockKFold(5, block_size=-1), places(), "block_size=-1; choose the side of a square"),
        (SpatialBlockKFold(5, block_size=[1, 2, 3]), places(), "or width and height"),
        (SpatialBlockKFold(5, block_size=1e-20), places(), "is too small for coordinates up to 100"),
        (SpatialBlockKFold(2, block_size=50, buffer=200), places(), "nothing to train on: .* a smaller buffer"),
        (SpatialBlockKFold(2, block_size=50), places()[:, 0], "coordinates are 1 column; pass two"),
        (SpatialBlockKFold(2, block_size=50), np.full((9, 2), np.inf), "infinite in 9 of 9 rows"),
        (SpatialBlockKFold(2, block_size=50), None, "SpatialBlockKFold needs coordinates"),
        (SpatialBlockKFold(2, block_size=50), np.full((9, 2), np.datetime64("2024-01-01")), "text or objects"),
    ],
)
def test_what_does_not_fit_is_said_with_what_would(strategy: Any, where: Any, said: str) -> None:
    with pytest.raises(SplitError, match=said):
        strategy.split(np.zeros((where.shape[0] if where is not None else 9, 1)), coordinates=where)


REGIONS = {"north": ["a", "b", "c", "d"], "south": ["e", "f", "g", "h"], "isles": ["i", "j"]}
SITES = np.random.default_rng(3).permutation(np.repeat([site for sites in REGIONS.values() for site in sites], 7))
REGION = {site: region for region, sites in REGIONS.items() for site in sites}
STRATA = np.array([REGION[site] for site in SITES])


@pytest.mark.parametrize("seed", range(5))
def test_every_fold_tests_one_site_of_each_large_region_and_every_site_once(seed: int) -> None:
    pairs = list(StratifiedLeaveOneGroupOut(random_state=seed).split(None, STRATA, SITES))
    tested = [sorted({*SITES[test].tolist()}) for _, test in pairs]
    assert len(tested) == 4
    assert sorted(site for sites in tested for site in sites) == list("abcdefghij")
    for (train, _), sites in zip(pairs, tested, strict=True):
        regions = [REGION[site] for site in sites]
        assert sorted(set(regions)) == sorted(regions)
        assert {"north", "south"} <= set(regions)
        assert not set(sites) & {*SITES[train]}


def test_strata_of_one_group_each_are_refused() -> None:
    with pytest.raises(SplitError, match="every stratum has one group, of 2 in all"):
        StratifiedLeaveOneGroupOut().split(None, ["x", "y"] * 3, ["a", "b"] * 3)
