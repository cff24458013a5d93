"""A damaged manifest is found out, down to the block, and two manifests are told apart, down to the row."""

import json
import random
from dataclasses import replace
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest
from evenfold.manifests import Damage, Verification, decide, diff, extend, read_manifest, verify, write_manifest
from evenfold.manifests.store.stored import describe, tables_of, write_described
from evenfold.splitters import SplitError
from tables import REPEATED, hourly, split

STRATEGIES: list[dict[str, Any]] = [
    {"strategy": "BalancedGroupKFold", "columns": {"key": "id", "target": "y", "group": "site"}},
    {"strategy": "KFold", "columns": {}},
    {"strategy": "Bootstrap", "columns": {"key": "id"}, "params": {"n_splits": 7}},
    {"strategy": "ForwardChaining", "columns": {"key": "id", "time": "when"}},
    {"strategy": "HashSplit", "columns": {"key": "id"}, "params": {"parts": {"train": 0.8, "test": 0.2}}},
    {"strategy": "Repeated", "columns": {"key": "id", "target": "y"}, "params": REPEATED},
]


@pytest.fixture(params=STRATEGIES, ids=lambda spec: spec["strategy"])
def stored(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    return write_manifest(decide(request.param, hourly()), tmp_path)


@pytest.fixture
def grown(tmp_path: Path) -> Path:
    """Return a manifest of two generations, with a status file, in folders of its own."""
    first = decide(STRATEGIES[0], hourly(300))
    write_manifest(first, tmp_path)
    return write_manifest(extend(first, hourly(400).iloc[16:]).manifest, tmp_path)


def overwrite(file: Path, content: bytes) -> None:
    file.unlink()
    file.write_bytes(content)


def the(found: Verification) -> Damage:
    assert not found.intact
    assert len(found.damages) == 1, found.damages
    return found.damages[0]


def test_an_undamaged_manifest_is_proved_intact(stored: Path) -> None:
    found = verify(stored)
    assert found.intact
    assert found.damages == found.not_proved == []
    assert found.split_id == read_manifest(stored).split_id
    assert len(found.proved) >= 4


def test_that_nothing_moved_is_proved_from_the_files(grown: Path) -> None:
    parent = read_manifest(grown.parent / "1.0")
    assert f"0 rows moved: the older rows make their parent's split_id {parent.split_id[:16]}" in verify(grown).proved


def test_what_was_written_wrong_from_the_start_is_found_by_the_rows(tmp_path: Path) -> None:
    first = decide(STRATEGIES[0], hourly(300))
    later = extend(first, hourly(400)).manifest
    said = []
    for number, wrong in enumerate((replace(first, plan_id="0" * 64), replace(later, parent_split_id="0" * 64))):
        said += [each.message for each in verify(write_manifest(wrong, tmp_path / str(number))).damages]
    (tmp_path / "1.0").mkdir()
    write_described(tmp_path / "1.0", {**describe(first), "counts": {"0": 300}}, tables_of(first, 0).items())
    said += [each.message for each in verify(tmp_path / "1.0").damages]
    (tmp_path / "2.0").mkdir()
    write_described(tmp_path / "2.0", {**describe(first), "split_id": "0" * 64}, tables_of(first, 0).items())
    with pytest.raises(SplitError, match=f"says it is 000000000000 and its rows are {first.split_id[:12]}"):
        read_manifest(tmp_path / "2.0")
    assert ["make plan_id" in each for each in said] == [True, True, False, False]
    assert "the older rows make split_id" in said[2]
    assert "differs in counts from what its rows give" in said[3]


def test_a_version_before_that_is_no_parent_lends_no_file(tmp_path: Path) -> None:
    write_manifest(decide(STRATEGIES[0] | {"seed": 1}, hourly(300)), tmp_path)
    manifest = extend(decide(STRATEGIES[0], hourly(300)), hourly(400)).manifest
    assert read_manifest(write_manifest(manifest, tmp_path)).split_id == manifest.split_id


def test_a_generation_without_a_new_row_is_written_and_proved(tmp_path: Path) -> None:
    for spec in (STRATEGIES[0], STRATEGIES[5] | {"name": "repeated"}):
        first = decide(spec, hourly())
        write_manifest(first, tmp_path)
        found = verify(write_manifest(extend(first, hourly().iloc[5:]).manifest, tmp_path))
        assert found.intact
        assert "0 rows moved" in found.proved[-1]


def test_draws_are_drawn_again(tmp_path: Path) -> None:
    folder = write_manifest(decide(STRATEGIES[2] | {"params": {"n_splits": 230}}, hourly(60)), tmp_path)
    assert "200 of 230 draws come out as recorded" in verify(folder).proved


@pytest.mark.parametrize("kept", [0, -1])
def test_a_truncated_file_is_named_with_the_rows_that_are_lost(grown: Path, kept: int) -> None:
    file = grown / "assignments-0001.parquet"
    whole = file.read_bytes()
    overwrite(file, whole[:kept])
    damage = the(verify(grown))
    assert (damage.file, damage.first_row, damage.last_row) == (file.name, 0, 99)
    assert f"has {len(whole[:kept]):,} of {len(whole):,} bytes and cannot be opened" in damage.message
    assert "rows 0 to 99 cannot be relied on" in damage.message


def test_any_flipped_bit_in_any_parquet_file_is_found(stored: Path) -> None:
    chance = random.Random(0)
    for file in sorted(stored.glob("*.parquet")):
        whole = file.read_bytes()
        for at in chance.sample(range(len(whole)), 8):
            overwrite(file, whole[:at] + bytes([whole[at] ^ 1 << chance.randrange(8)]) + whole[at + 1 :])
            assert {damage.file for damage in verify(stored).damages} == {file.name}, at
        overwrite(file, whole)
    assert verify(stored).intact


def damage_values(file: Path, block: int, length: int) -> None:
    column = pq.ParquetFile(file).metadata.row_group(block).column(1)
    content = bytearray(file.read_bytes())
    middle = column.data_page_offset + column.total_compressed_size // 2
    for at in range(middle, middle + length):
        content[at] ^= 16
    overwrite(file, bytes(content))


def test_the_first_damaged_block_is_named_by_its_rows(tmp_path: Path) -> None:
    n = 2_400_000
    frame = pd.DataFrame({"id": np.arange(n)})
    folder = write_manifest(decide({"strategy": "KFold", "columns": {"key": "id"}}, frame), tmp_path)
    file = folder / "assignments-0000.parquet"
    damage_values(file, 1, 100)
    damage = the(verify(folder))
    assert (damage.file, damage.block, damage.first_row, damage.last_row) == (file.name, 1, 1_000_000, 1_999_999)
    assert damage.message.startswith("assignments-0000.parquet: block 1 (rows 1,000,000 to 1,999,999) ")
    assert "and the 1 block before it as written" in damage.message
    with pytest.raises(SplitError, match=r"assignments-0000\.parquet is damaged"):
        read_manifest(folder)


def test_a_changed_header_is_found_field_by_field(grown: Path) -> None:
    file = grown / "manifest.json"
    header = json.loads(file.read_text())
    counted = json.loads(json.dumps(header["state"]))
    counted["counts"][0][2][1] += 1  # from which the next extension would start
    ids = ("split_id", "plan_id", "parent_split_id", "fingerprint")
    values = {
        "name": "other", "version": "2.1", "kind": "draws", "n_rows": 399, "n_splits": 4, "files": "none", "state": [],
        "versions": {}, "generations": [{"n": 0, "rows": 299}, {"n": 1, "rows": 101}],
        "parts": [{"name": "train", "code": -1, "share": 0.5}], **{field: "0" * 64 for field in ids},
    }  # fmt: skip
    parts = {"spec": {"seed": 1}, "types": {"y": "int"}, "algorithm": {"version": 99}, "counts": {"0": 1}}
    entries = ({"sha256": "0" * 64}, {"blocks": ["0" * 16]}, {"bytes": 1}, {"rows": 1}, {"rows": "300"})
    changed: list[dict[str, Any]] = [{field: value} for field, value in values.items()]
    changed += [{field: header[field] | part} for field, part in parts.items()]
    changed += [{"files": [header["files"][0] | entry, *header["files"][1:]]} for entry in entries]
    changed += [{"files": header["files"][:-1]}, {"state": counted}, {"spec": header["spec"] | {"name": "other"}}]
    for damaged in ([header], *(header | fields for fields in changed)):
        overwrite(file, json.dumps(damaged).encode())
        found = verify(grown)
        assert not found.intact, damaged
        assert found.damages, damaged
    for field in set(header) - {"schema"}:
        overwrite(file, json.dumps({name: value for name, value in header.items() if name != field}).encode())
        assert not verify(grown).intact, field


def _is_intact(folder: Path) -> bool:
    try:
        return verify(folder).intact
    except SplitError as error:
        return "has schema" not in str(error)


def test_flipped_bits_in_the_header_are_found(grown: Path) -> None:
    file = grown / "manifest.json"
    whole = file.read_bytes()
    chance = random.Random(1)
    for at in chance.sample(range(len(whole)), 60):
        content = whole[:at] + bytes([whole[at] ^ 1 << chance.randrange(8)]) + whole[at + 1 :]
        overwrite(file, content)
        assert _is_intact(grown) == _is_same(content, whole), at


def _is_same(content: bytes, whole: bytes) -> bool:
    try:
        return bool(json.loads(content.decode()) == json.loads(whole.decode()))
    except ValueError:
        return False


GROUPED = {"strategy": "BalancedGroupKFold", "columns": {"key": "id", "target": "y", "group": "site"}}
DRAWN = {"strategy": "Bootstrap", "columns": {"key": "id", "target": "y"}, "params": {"n_splits": 7}}
PAIRED = {"strategy": "ForwardChaining", "columns": {"key": "id", "target": "y", "time": "when"}}


def test_manifests_under_other_secrets_or_names_cannot_be_matched(monkeypatch: pytest.MonkeyPatch) -> None:
    made = []
    for secret, name in (("one", "a"), ("two", "a"), ("two", "b")):
        monkeypatch.setenv("EVENFOLD_KEY_SECRET", secret)
        made.append(decide(GROUPED | {"key_encoding": "hmac", "name": name}, hourly()))
    assert not any(diff(a, b).compared for a, b in combinations(made, 2))
    monkeypatch.delenv("EVENFOLD_KEY_SECRET")
    assert diff(made[1], made[1]).compared


def test_a_manifest_does_not_differ_from_itself() -> None:
    made = diff(split(hourly()), split(hourly().sample(frac=1, random_state=0)))
    assert (made.same, made.compared, made.n_moved, made.n_added, made.n_removed) == (True, True, 0, 0, 0)
    assert made.changes == []


def test_rows_are_told_by_fold_and_by_class() -> None:
    a, b = split(hourly(300)), split(hourly(400).iloc[50:], seed=1)
    made = diff(a, b, hourly(400))
    folds = {name: pd.Series(m.codes, index=m.keys.column(0).to_pylist()) for name, m in (("a", a), ("b", b))}
    both = pd.concat(folds, axis=1, join="inner").astype(int)
    both["y"] = hourly().set_index("id")["y"]
    moved = both[both.a != both.b]
    assert (made.n_moved, made.n_added, made.n_removed) == (len(moved), 100, 50)
    found = {(each.of, each.to): each.classes for each in made.moved}
    wanted = moved.groupby(["a", "b"])["y"].value_counts()
    assert found == {
        (f"fold {one}", f"fold {two}"): wanted[one, two].to_dict() for one, two in moved.set_index(["a", "b"]).index
    }
    assert sum(each.rows for each in made.added) == 100
    assert {each.of for each in made.added} == {None}
    classes = pd.DataFrame([each.classes for each in made.removed]).sum()
    assert classes.to_dict() == hourly(50)["y"].value_counts().to_dict()


def test_what_differs_in_the_specification_is_told_by_its_path() -> None:
    a = split(hourly(), seed=1)
    b = split(hourly().assign(y="one"), params={"n_splits": 4}, columns={"key": "id"}, strategy="KFold")
    paths = {change.path: (change.a, change.b) for change in diff(a, b).changes}
    assert paths.pop("fingerprint")
    assert paths == {
        "seed": (1, 0),
        "strategy": ("StratifiedKFold", "KFold"),
        "params.n_splits": (None, 4),
        "columns.target": ("y", None),
        "types.y": ("text", None),
    }


def test_an_extension_moves_nothing_adds_and_removes() -> None:
    a = split(hourly(300))
    made = diff(a, extend(a, hourly(400).iloc[10:]).manifest, hourly(400))
    assert (made.n_moved, made.n_added, made.n_removed) == (0, 100, 10)


def test_quarantine_moves_nothing_and_is_told() -> None:
    a = decide(GROUPED, hourly())
    other = int(a.group_table.column("group")[int(np.flatnonzero(a.group_table["fold"].to_numpy() != a.codes[0])[0])])
    made = diff(a, extend(a, hourly().assign(site=hourly()["site"].replace(other, 0))).manifest)
    assert made.n_moved == 0
    assert "16 rows quarantined; their folds are kept." in made.sentences


@pytest.mark.parametrize("spec", [DRAWN, PAIRED], ids=["draws", "pairs"])
def test_of_draws_and_pairs_the_sides_are_compared(spec: dict[str, Any]) -> None:
    a, b = decide(spec, hourly()), decide(spec, hourly().iloc[:-30])
    made = diff(a, b, hourly())
    assert made.n_removed == 30
    for each in made.moved:
        i = int(str(each.of).removeprefix("split "))
        sides = []
        for manifest in (a, b):
            train, test = manifest.pair(i)
            counts = np.bincount(train, minlength=manifest.n)
            counts[test] = -1
            sides.append(pd.Series(counts, index=manifest.keys.column(0).to_pylist()))
        ours, theirs = sides[0].align(sides[1], join="inner")
        assert each.rows == sum(each.classes.values()) == (ours != theirs).sum() > 0
    assert made.n_moved >= max(each.rows for each in made.moved)
    assert diff(a, a).moved == []
