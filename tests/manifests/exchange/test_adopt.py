"""The folds that a team's own code makes become a manifest, as they are, and grow from there."""

from typing import Any

import numpy as np
import pandas as pd
import pytest
from evenfold.manifests import adopt, audit, diff, extend, read_manifest, write_manifest
from evenfold.splitters import KFold, SplitError
from sklearn import model_selection as cv
from tables import visits
from year import flights

LATE = "late"
# What a team's code may hold, with the columns that go with it.
OURS: dict[str, tuple[Any, dict[str, Any]]] = {
    "a splitter": (cv.StratifiedKFold(5, shuffle=True, random_state=7), {"target": LATE}),
    "a path": ("sklearn.model_selection:KFold", {"params": {"n_splits": 4, "shuffle": True, "random_state": 1}}),
    "whole groups": (cv.GroupKFold(4), {"target": "arr_delay", "group": "date"}),
    "one holdout": (cv.ShuffleSplit(1, test_size=0.25, random_state=3), {"target": LATE}),
    "a column": ("mine", {"target": "arr_delay"}),
    "parts in words": ("part", {"target": LATE}),
    "labels": (np.arange(300) % 3, {}),
    "one of ours": (KFold(3, random_state=2), {}),
}


def months() -> list[pd.DataFrame]:
    """Return twelve months of flights; the last columns are a team's own."""
    made = [month.assign(late=month["arr_delay"] > 15).reset_index(drop=True) for month in flights(300)]
    words = np.resize(["train", "train", "train", "validation", "test"], 300)
    made[0] = made[0].sample(frac=1, random_state=5, ignore_index=True).assign(mine=np.arange(300) % 5, part=words)
    return made


def theirs(first: pd.DataFrame, folds: Any, fields: dict[str, Any]) -> list[np.ndarray]:
    """Return what each split of the team's tests, by key."""
    key = first["flight_id"].to_numpy()
    if isinstance(folds, str) and folds in first:
        words = {"validation": 0, "train": -1, "test": -2}
        folds = first[folds].map(lambda value: words.get(value, value)).to_numpy()
    if isinstance(folds, str):
        folds = cv.KFold(**fields["params"])
    if isinstance(folds, np.ndarray):
        return [np.sort(key[folds == fold]) for fold in range(folds.max() + 1)]
    y, groups = (first[fields[role]] if role in fields else None for role in ("target", "group"))
    return [np.sort(key[test]) for _, test in folds.split(first, y, groups)]


@pytest.mark.parametrize(("folds", "fields"), OURS.values(), ids=OURS)
def test_folds_are_taken_as_they_are_and_grow_for_a_year_without_a_row_moved(
    folds: Any, fields: dict[str, Any], tmp_path: Any
) -> None:
    first, *later = months()
    grown = adopt(first, folds, "flight_id", **fields)
    assert [np.sort(first["flight_id"].to_numpy()[test]) for _, test in grown.as_cv(first).split()] == [
        pytest.approx(tested) for tested in theirs(first, folds, fields)
    ]
    whole, shares = first, np.bincount(grown.codes + 3) / first.shape[0]
    folds_before = pd.Series(grown.fold_of(first), first["flight_id"])
    for month in later:
        whole = pd.concat([whole[month.columns], month])
        made = extend(read_manifest(write_manifest(grown, tmp_path)), whole.sample(frac=1, random_state=1))
        assert (made.added, made.moved) == (month.shape[0], 0)
        grown = made.manifest
    folds_now = pd.Series(grown.fold_of(whole), whole["flight_id"].to_numpy())
    assert (folds_now[folds_before.index] == folds_before).all()
    # New rows are dealt as the old ones were: each fold or part keeps its share, of classes too.
    assert np.bincount(grown.codes + 3) / len(whole) == pytest.approx(shares, abs=0.02 if "group" in fields else 0.001)
    if fields.get("target") == LATE:
        late = whole["late"].groupby(folds_now.to_numpy()).mean()
        assert late.max() - late.min() < 0.02
    if "group" in fields:
        assert whole["date"].groupby(whole["date"]).size().index.size == len(
            {*zip(whole["date"], folds_now, strict=True)}
        )


def test_folds_that_tear_groups_are_taken_and_audited_and_do_not_grow() -> None:
    frame = visits(120)
    manifest = adopt(frame, cv.KFold(3, shuffle=True, random_state=0), "id", group="clinic")
    torn = [finding for finding in audit(manifest, frame).findings if "clinic" in finding.message]
    assert any(finding.severity == "error" for finding in torn), torn
    with pytest.raises(SplitError, match=r"groups of .* lie in several of the folds that were given"):
        extend(manifest, visits(150))


KFOLD = cv.KFold(5, shuffle=True, random_state=0)
HOLDOUT = cv.ShuffleSplit(1, test_size=0.3, random_state=0)


# The table has grown, and every row is dealt anew; the same folds under other numbers; and other locked rows.
@pytest.mark.parametrize(
    ("then", "now", "share"),
    [(KFOLD, KFOLD, 0.8), (HOLDOUT, HOLDOUT, 0.7), ("fold", "other", 0.0), ("part", "no part", 1 / 6)],
)
def test_a_split_that_is_made_anew_says_how_many_tested_rows_would_be_trained_on(
    then: Any, now: Any, share: float
) -> None:
    frame = visits(3000)
    numbers = np.arange(3000) % 4
    frame = frame.assign(fold=numbers, other=3 - numbers, part=np.where(numbers == 0, -2, np.minimum(numbers - 2, 0)))
    frame["no part"] = np.where(np.arange(3000) % 8 == 0, -1, frame["part"])
    known = frame if isinstance(then, str) else frame.tail(2700)
    made = diff(*(adopt(rows, folds, "id") for rows, folds in ((known, then), (frame, now))))
    told = [sentence for sentence in made.sentences if "training" in sentence]
    assert made.tested_now_trained == pytest.approx(share, abs=0.06)
    assert len(told) == (share > 0)
    assert not told or told[0].startswith(f"{made.tested_now_trained:.0%} of the rows that adopted 1.0")
