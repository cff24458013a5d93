"""Leaving one site out of every region at a time."""

from __future__ import annotations

import numpy as np
import pytest
from evenfold.manifests import decide
from evenfold.splitters import SplitError, StratifiedLeaveOneGroupOut

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


def test_a_specification_names_sites_and_regions() -> None:
    import pandas as pd

    data = pd.DataFrame({"id": range(SITES.size), "site": SITES, "region": STRATA})
    columns = {"key": "id", "group": "site", "stratify": "region"}
    manifest = decide({"columns": columns, "strategy": "StratifiedLeaveOneGroupOut"}, data)
    for fold in range(manifest.n_splits):
        _, test = manifest.train_test(data, fold)
        assert test.groupby("region")["site"].nunique().max() == 1


def test_strata_of_one_group_each_are_refused() -> None:
    with pytest.raises(SplitError, match="every stratum has one group, of 2 in all"):
        StratifiedLeaveOneGroupOut().split(None, ["x", "y"] * 3, ["a", "b"] * 3)
