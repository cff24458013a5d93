"""What the page of a split says in titles and tiles is so, of parts, locked rows, many draws and time as well."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
import pytest
from evenfold.manifests import decide, measure
from evenfold.manifests.figures import points
from evenfold.reports.page import Page
from evenfold.reports.splits.data import SplitData, group_sizes, see
from evenfold.reports.splits.gaps import random_distance, random_share, target_gap
from evenfold.reports.splits.page import split_page
from evenfold.reports.splits.pictures import split_pictures

PARTS = {"strategy": "HashSplit", "params": {"parts": {"train": 0.8, "validation": 0.1, "test": 0.1}}}


def rows(n: int = 200) -> pd.DataFrame:
    draw = np.random.default_rng(0)
    return pd.DataFrame(
        {
            "id": range(n),
            "class": draw.choice(list("aab"), n),
            "amount": draw.normal(size=n),
            "ward": draw.integers(1, 20, n),
            "when": pd.date_range("2024-01-01", periods=n, freq="h"),
            "year": np.arange(n) * 4 // n,
        }
    )


def seen(data: pd.DataFrame, target: str = "class", **spec: Any) -> SplitData:
    spec["columns"] = {"key": "id", "target": target} | spec.get("columns", {})
    manifest = decide(spec, data)
    return see(manifest, measure(manifest, data), data)


def tiles(page: Page) -> dict[str, tuple[str, str]]:
    return {tile.label: (tile.value, tile.note) for tile in page.tiles}


@pytest.mark.parametrize("target", ["class", "amount"])
def test_the_gap_of_parts_is_that_of_the_part_that_is_furthest_off(target: str) -> None:
    look = seen(rows(), target, **PARTS)
    gap, pictures = target_gap(look.balance), split_pictures(look)
    assert gap.largest == pytest.approx(look.balance.worst["class_share" if target == "class" else "ks"])
    said = points(gap.largest)
    assert said in pictures["classes" if target == "class" else "target"].title
    assert tiles(split_page(look))[f"largest gap of {target}"][0] == said
    assert target == "amount" or "a in test: " in pictures["classes"].svg()


def test_a_small_locked_part_widens_no_bound_of_the_folds() -> None:
    look = seen(rows(4_000), strategy="StratifiedKFold", holdout={"fraction": 0.01})
    shares, (first, *others), (locked,) = look.balance.shares, look.balance.folds, look.balance.parts
    first, locked = (
        place.model_copy(update={"shares": [shares[0] - off, shares[1] + off]})
        for place, off in ((first, 0.06), (locked, 0.19))
    )
    look = replace(look, balance=look.balance.model_copy(update={"folds": [first, *others], "parts": [locked]}))
    gap, folds = target_gap(look.balance), target_gap(look.balance, look.balance.folds)
    assert (gap.worst, gap.within) == (folds.worst, False)
    assert gap.random == pytest.approx(folds.random, rel=0.1)  # of one set more
    assert gap.largest == pytest.approx(0.19)
    assert points(folds.worst) in split_pictures(look)["classes"].title
    assert gap.largest_random == pytest.approx(random_share(shares[0], locked.rows, look.balance.n_rows, 6))
    own, other = points(gap.largest_random), points(gap.random)  # each set's beside its own gap
    note = f"95 % of random splits: {own}, and {other} for the set that is {points(gap.worst)} off"
    assert tiles(split_page(look))["largest gap of class"] == (points(gap.largest), note)


def test_no_share_is_further_off_than_all_rows() -> None:
    """Folds of one row: a band beyond 100 points would be nonsense."""
    assert random_distance(1, 1000, 200) == 1.0
    assert random_share(0.3, 1, 1000, 200) == 0.7
    assert random_share(0.3, 100, 1000) < 0.1


def test_locked_groups_are_no_fold() -> None:
    look = seen(rows(), columns={"group": "ward"}, holdout={"fraction": 0.3})
    sizes = group_sizes(look)
    assert sorted(sizes) == [0, 1, 2, 3, 4]
    locked = 19 - sum(map(len, sizes.values()))
    (value, note) = tiles(split_page(look))["values of ward, each in one fold"]
    assert value == str(19 - locked)
    assert note.endswith(f"% of a fold; {locked} more locked")


@pytest.mark.parametrize(
    ("spec", "title"),
    [
        ({"strategy": "KFold"}, "Splits test rows from all of when, and train on later ones, too"),
        ({"strategy": "LeaveOneGroupOut", "columns": {"group": "year"}}, "Which rows each split tests and trains on"),
        ({"strategy": "ForwardChaining"}, "Every split is tested on what comes after its training rows"),
        (
            {"strategy": "FromSklearn", "params": {"splitter": "sklearn.model_selection:TimeSeriesSplit"}},
            "Every split is tested on what comes after its training rows",
        ),
    ],
)  # fmt: skip
def test_the_map_by_time_is_called_what_its_pairs_are(spec: dict[str, Any], title: str) -> None:
    spec = spec | {"columns": {"time": "when"} | spec.get("columns", {})}
    assert split_pictures(seen(rows(), "amount", **spec))["map"].title.startswith(title)
