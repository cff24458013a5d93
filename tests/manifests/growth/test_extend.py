"""Growing a manifest: rows join, leave and come back, and nothing that has a fold gets another."""

import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from evenfold.manifests import decide, diff, extend, read_manifest, verify, write_manifest
from evenfold.manifests.growth.extend import GROWING_VERSION
from evenfold.splitters import SplitError
from tables import arrivals

PLAIN = {"name": "plain", "columns": {"key": "id"}, "strategy": "KFold"}
CLASSES = {"name": "classes", "columns": {"key": "id", "target": "label"}, "strategy": "StratifiedKFold"}
NUMBERS = {"name": "numbers", "columns": {"key": "id", "target": "number"}, "strategy": "SortedStratifiedKFold"}
GROUPS = {"name": "groups", "columns": {"key": "id", "target": "label", "group": "g"}, "strategy": "BalancedGroupKFold"}
PARTS = {"name": "parts", "columns": {"key": "id", "target": "number"}, "strategy": "FractionalStratifiedSplit"}
PARTS |= {"params": {"parts": {"train": 0.6, "validation": 0.2, "test": 0.2}}}
HASHED = {"name": "hashed", "columns": {"key": "id"}, "strategy": "HashSplit", "params": {"n_splits": 5}}
REPEATED = CLASSES | {"name": "repeated", "strategy": "Repeated"}
REPEATED |= {"params": {"strategy": {"strategy": "StratifiedKFold", "params": {"n_splits": 3}}, "n_repeats": 2}}
REPEATED_PARTS = PLAIN | {"name": "repeated-parts", "strategy": "Repeated"}
REPEATED_PARTS |= {"params": {"strategy": {"strategy": "RandomSplit"}, "n_repeats": 2}}
POISSON = {"name": "poisson", "columns": {"key": "id"}, "strategy": "PoissonBootstrap", "params": {"n_splits": 8}}
GROWING = [PLAIN, CLASSES, NUMBERS, GROUPS, PARTS, HASHED, REPEATED, REPEATED_PARTS, POISSON]
NAMES = [spec["name"] for spec in GROWING]


LOCKED = [spec | {"holdout": {"fraction": 0.2}} for spec in (CLASSES, GROUPS, HASHED)]


@pytest.mark.parametrize("spec", GROWING + LOCKED, ids=[*NAMES, "locked classes", "locked groups", "locked hashes"])
def test_no_row_moves_through_generations(spec: dict[str, Any], tmp_path: Path) -> None:
    whole = arrivals(700)
    manifest = decide(spec, whole.iloc[:400])
    for end, gone in ((550, 0), (700, 30)):
        grown = extend(manifest, whole.iloc[gone:end].sample(frac=1, random_state=end))
        assert (grown.added, grown.deleted, grown.moved) == (150, gone, 0)
        assert diff(manifest, grown.manifest).n_moved == 0
        assert grown.manifest.parent_split_id == manifest.split_id
        assert grown.manifest.split_id != manifest.split_id
        write_manifest(manifest, tmp_path)
        read = read_manifest(write_manifest(grown.manifest, tmp_path))
        assert read.split_id == grown.manifest.split_id
        if spec is not POISSON:
            assert read.at_generation(manifest.generation).split_id == manifest.split_id
        manifest = read
    assert (manifest.status == 1).sum() == 30


@pytest.mark.parametrize("spec", GROWING, ids=NAMES)
def test_batch_after_batch_grows_like_the_whole_table(spec: dict[str, Any]) -> None:
    whole = arrivals(600)
    by_table = by_batch = decide(spec, whole.iloc[:300])
    for end in (400, 500, 600):
        by_table = extend(by_table, whole.iloc[:end]).manifest
        by_batch = extend(by_batch, whole.iloc[end - 100 : end].sample(frac=1, random_state=3), batch=True).manifest
        assert by_batch.state == by_table.state
    assert by_table.split_id == by_batch.split_id


@pytest.mark.parametrize("holdout", [None, {"fraction": 0.25}])
def test_more_folds_than_shares_are_remembered_grow_evenly(holdout: Any) -> None:
    """Above 100 folds the shares follow from the strategy, and the locked part keeps its own."""
    whole = arrivals(960)
    manifest = decide(PLAIN | {"params": {"n_splits": 120}, "holdout": holdout}, whole.iloc[:480])
    assert manifest.state is None or manifest.state.shares is None
    codes = extend(manifest, whole).manifest.codes
    assert (codes == -2).sum() == (240 if holdout else 0)
    assert set(np.bincount(codes[codes >= 0])) == {6 if holdout else 8}


GROWN = {"classes": "2c412120e6a0acb4", "groups": "44a38b81a5f43153", "repeated": "d63ea5d48e644717"}


@pytest.mark.parametrize("spec", [CLASSES, GROUPS, REPEATED], ids=list(GROWN))
def test_grown_folds_are_pinned(spec: dict[str, Any]) -> None:
    whole = arrivals(500)
    manifest = decide(spec, whole.iloc[:300])
    for end in (400, 500):
        manifest = extend(manifest, whole.iloc[:end]).manifest
    assert (GROWING_VERSION, manifest.split_id[:16]) == (2, GROWN[str(spec["name"])])


def test_a_batch_is_refused_where_too_much_would_have_to_be_remembered() -> None:
    """300 classes in 5 folds are not counted in the header; the whole table extends such a split."""
    old = pd.DataFrame({"id": range(900), "label": [f"c{i % 300}" for i in range(900)]})
    new = old.assign(id=old["id"] + 900)
    manifest = decide(CLASSES | {"params": {"rare": "spread"}}, old)
    with pytest.raises(SplitError, match=r"5 folds hold of 300 classes, .* pass the whole table, without batch"):
        extend(manifest, new, batch=True)
    assert extend(manifest, pd.concat([old, new])).added == 900


def test_classes_stay_even_as_they_join() -> None:
    """After ten batches two folds' counts of any class differ by at most 1, as when they were split."""
    whole = arrivals(1500)
    manifest = decide(CLASSES, whole.iloc[:500])
    for end in range(600, 1501, 100):
        manifest = extend(manifest, whole.iloc[:end]).manifest
    for label in "abc":
        counts = np.bincount(manifest.codes[(whole["label"] == label).to_numpy()], minlength=5)
        assert np.ptp(counts) <= 1, (label, counts)
    assert np.ptp(np.bincount(manifest.codes)) <= 3


def test_deleted_rows_come_back_to_their_fold() -> None:
    whole = arrivals(200)
    manifest = decide(PLAIN, whole)
    less = extend(manifest, whole.iloc[50:], max_missing=0.25)
    assert less.deleted == 50
    assert sum(test.size for _, test in less.manifest.pairs()) == 150
    back = extend(less.manifest, whole)
    assert back.returned == 50
    assert (back.manifest.codes == manifest.codes).all()
    assert sum(test.size for _, test in back.manifest.pairs()) == 200


def test_rows_that_come_back_count_where_new_ones_fill_the_folds() -> None:
    spec = {"columns": {"key": "id"}, "strategy": "KFold", "params": {"n_splits": 2}}
    data = pd.DataFrame({"id": range(50)})
    manifest = decide(spec, data.head(40))
    gone = np.flatnonzero(manifest.in_use.column() == 0)[:10]
    fewer = extend(manifest, data.head(40).drop(index=gone), max_missing=1).manifest
    assert np.bincount(extend(fewer, data).manifest.in_use.column()).tolist() == [25, 25]


def test_a_table_that_is_cut_short_is_refused() -> None:
    whole = arrivals(400)
    manifest = decide(PLAIN, whole.iloc[:300])
    assert extend(manifest, whole.iloc[30:]).deleted == 30
    with pytest.raises(SplitError, match=r"31 of the 300 rows .* \(10\.3%\) .*at most 10%.*--batch.*to 0\.11\."):
        extend(manifest, whole.iloc[31:])
    with pytest.raises(SplitError, match=r"33 of the 300 rows .*\(11\.0%\).*to 0\.11\."):
        extend(manifest, whole.iloc[33:])
    with pytest.raises(SplitError, match=r"300 of the 300 rows .*\(100\.0%\)"):
        extend(manifest, whole.iloc[300:])
    assert extend(manifest, whole.iloc[300:], batch=True).added == 100
    assert extend(manifest, whole.iloc[300:], max_missing=1).deleted == 300
    for share in (-0.1, 1.1, float("nan")):
        with pytest.raises(SplitError, match="choose a share"):
            extend(manifest, whole, max_missing=share)


def test_rows_that_were_deleted_before_are_not_missing_again() -> None:
    whole = arrivals(300)
    manifest = extend(decide(PLAIN, whole), whole.iloc[30:]).manifest
    assert extend(manifest, whole.iloc[57:]).deleted == 27
    with pytest.raises(SplitError, match="28 of the 270 rows"):
        extend(manifest, whole.iloc[58:])


def test_a_changed_class_moves_nothing() -> None:
    whole = arrivals(200)
    manifest = decide(CLASSES, whole)
    grown = extend(manifest, pd.concat([whole.assign(label="b"), arrivals(5, start=500)]))
    assert grown.moved == 0
    assert diff(manifest, grown.manifest).n_moved == 0


@pytest.mark.parametrize(("rule", "check"), [("freeze", lambda codes: (codes == -3).all()), ("hash", None)])
def test_other_rules_for_new_rows(rule: str, check: Any) -> None:
    whole = arrivals(400)
    manifest = decide(PLAIN | {"on_new_rows": rule}, whole.iloc[:300])
    new = extend(manifest, whole).manifest.codes[300:]
    if check:
        assert check(new)
        return
    some = extend(manifest, whole.iloc[:350]).manifest.codes[300:]
    assert (new[:50] == some).all()
    assert set(new.tolist()) == set(range(5))


@pytest.mark.parametrize(("beyond", "noted", "far"), [(9, False, 1e6), (10, True, 1e6), (10, True, -1e6)])
def test_drift_is_said_of_ten_rows_and_not_of_nine(beyond: int, noted: bool, far: float) -> None:
    old = pd.DataFrame({"id": np.arange(1000), "number": np.arange(1000) / 10})
    new = pd.DataFrame({"id": np.arange(1000, 1100), "number": np.where(np.arange(100) < beyond, far, 50.0)})
    notes = extend(decide(NUMBERS, old), pd.concat([old, new])).notes
    assert any("drifted" in note for note in notes) == noted


@pytest.mark.parametrize(("beyond", "noted"), [(39, False), (45, True)])
def test_drift_is_said_beyond_twice_what_was_expected(beyond: int, noted: bool) -> None:
    """Two of 100 bins are outermost, so 2 % of new rows are expected there: 3.9 % are no drift, and 4.5 % are."""
    old = pd.DataFrame({"id": np.arange(1000), "number": np.arange(1000) / 10})
    far = np.where(np.arange(1000) < beyond, 1e6, 50.0)
    new = pd.DataFrame({"id": np.arange(1000, 2000), "number": far})
    grown = extend(decide(NUMBERS, old), pd.concat([old, new]))
    assert len(grown.manifest.state.edges) == 99
    assert any("target bins, which held 2% when" in note for note in grown.notes) == noted


def test_nothing_new_is_the_manifest_itself() -> None:
    manifest = decide(PLAIN, arrivals(50))
    same = extend(manifest, arrivals(50))
    assert same.manifest is manifest
    assert (same.added, same.deleted, same.returned, same.quarantined, same.moved) == (0, 0, 0, 0, 0)


@pytest.mark.parametrize(
    ("spec", "said"),
    [
        ({"columns": {}, "strategy": "KFold"}, "no key column"),
        ({"columns": {"key": "id"}, "strategy": "Bootstrap"}, "cannot grow without moving rows; one by .*PoissonBoot"),
        ({"columns": {"key": "id"}, "strategy": "LeaveOneOut"}, "cannot grow"),
        ({"columns": {"key": "id", "time": "id"}, "strategy": "ForwardChaining"}, "cannot grow"),
    ],
)
def test_what_cannot_grow_says_what_can(spec: dict[str, Any], said: str) -> None:
    with pytest.raises(SplitError, match=said):
        extend(decide(spec, arrivals(40)), arrivals(50))


def test_a_batch_with_known_rows_is_refused() -> None:
    with pytest.raises(SplitError, match="10 of 20 rows of the batch are in the manifest already"):
        extend(decide(PLAIN, arrivals(50)), arrivals(20, start=40), batch=True)
    with pytest.raises(SplitError, match=r"20 of 31 rows of the batch are in the manifest already \(first key 120\)"):
        extend(decide(PLAIN, arrivals(20, start=40)), arrivals(31, start=29), batch=True)


@pytest.mark.parametrize("column", ["g", "label", "id"])
def test_new_rows_must_be_complete_where_the_split_reads_them(column: str) -> None:
    gap = arrivals(60).astype({"id": object})
    gap.loc[55, column] = None
    with pytest.raises(SplitError, match=f"{column}.* (missing|null|None)"):
        extend(decide(GROUPS | {"params": {"n_splits": 3}}, arrivals(50)), gap)


def test_a_child_that_would_move_rows_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    from evenfold.manifests.growth import extend as growing

    child = growing._child

    def moving(*given: Any) -> Any:
        made = child(*given)
        codes = made.membership.codes.copy()
        codes[:3] = (codes[:3] + 1) % 5
        return replace(made, membership=replace(made.membership, codes=codes))

    monkeypatch.setattr(growing, "_child", moving)
    with pytest.raises(SplitError, match=r"extending plain 1\.0 would move 3 rows; it was not extended"):
        extend(decide(PLAIN, arrivals(50)), arrivals(60))


EXTENDER = r"""
import os
import sys
import pandas as pd
from pathlib import Path
from evenfold.manifests import extend, read_manifest, write_manifest
folder, other = Path(sys.argv[1]), os.fork()
seed = 7 if other else 0
grown = extend(read_manifest(folder), pd.DataFrame({"id": range(1000 + seed, 1030 + seed)}), batch=True).manifest
os.write(1, b"ready\n")
os.read(0, 1)  # both wait here until both are ready
try:
    write_manifest(grown, folder.parent.parent)
    told = "won"
except ValueError as error:
    told = str(error)
os.write(1, f"{told}\n".encode())  # a line is one write: what print writes in two may lie on both sides of another's
if other:
    os.waitpid(other, 0)
"""


def test_of_two_that_extend_at_once_one_wins(tmp_path: Path) -> None:
    folder = write_manifest(decide(PLAIN, arrivals(50)), tmp_path)
    pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    both = subprocess.Popen([sys.executable, "-c", EXTENDER, str(folder)], **pipes)
    assert [both.stdout.readline() for _ in range(2)] == ["ready\n"] * 2
    told = sorted(both.communicate("\n\n", timeout=300)[0].splitlines(), key=len)
    assert told[0] == "won"
    assert "already holds another decision" in told[1]
    assert read_manifest(folder.parent / "1.1").n == 80
    assert sorted(path.name for path in folder.parent.iterdir()) == ["1.0", "1.1"]


def test_a_grown_split_says_by_which_version_it_grew(tmp_path: Path) -> None:
    frame = pd.DataFrame({"id": np.arange(30)})
    parent = decide({"columns": {"key": "id"}, "strategy": "KFold"}, frame[:20])
    grown = extend(parent, frame).manifest
    assert "growing" not in parent.algorithm
    assert grown.algorithm == parent.algorithm | {"growing": GROWING_VERSION}
    again = read_manifest(write_manifest(grown, tmp_path))
    assert (again.algorithm, again.plan_id) == (grown.algorithm, grown.plan_id)
    assert verify(again.uri).intact
