"""A manifest is written whole and once, and what lies there already is left alone."""

import json
import os
import resource
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from evenfold.manifests import decide, extend, read_manifest, verify, write_manifest
from evenfold.manifests.store.stored import aside
from evenfold.splitters import SplitError
from tables import table

SORTED = {"columns": {"key": "id", "target": "number"}, "name": "sorted"}


def test_the_same_decision_is_written_once(tmp_path: Path) -> None:
    manifest = decide(SORTED, table())
    folder = write_manifest(manifest, tmp_path)
    before = {path: (path.read_bytes(), path.stat().st_mtime_ns) for path in folder.iterdir()}
    assert write_manifest(manifest, tmp_path) == folder
    assert {path: (path.read_bytes(), path.stat().st_mtime_ns) for path in folder.iterdir()} == before
    assert [path.name for path in folder.parent.iterdir()] == ["1.0"]


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ({"seed": 1}, "already holds another decision"),
        ({"columns": {"key": "id", "target": "east"}}, r"already holds the same folds, decided of other .* \(plan_id"),
    ],
)
def test_another_decision_under_the_same_version_is_refused(more: dict[str, Any], message: str, tmp_path: Path) -> None:
    plain = {"name": "plain", "strategy": "KFold", "columns": {"key": "id", "target": "number"}}
    folder = write_manifest(decide(plain, table()), tmp_path)
    other = decide(plain | more, table())
    assert (other.split_id == read_manifest(folder).split_id) == ("columns" in more)
    with pytest.raises(SplitError, match=message):
        write_manifest(other, tmp_path)
    assert [path.name for path in folder.parent.iterdir()] == ["1.0"]
    assert write_manifest(replace(other, version="2.0"), tmp_path).name == "2.0"


def test_a_folder_of_something_else_is_refused(tmp_path: Path) -> None:
    (tmp_path / "sorted" / "1.0").mkdir(parents=True)
    (tmp_path / "sorted" / "1.0" / "notes.txt").write_text("mine")
    with pytest.raises(SplitError, match=r"1\.0 holds no manifest.json"):
        write_manifest(decide(SORTED, table()), tmp_path)
    assert [path.name for path in (tmp_path / "sorted").rglob("*")] == ["1.0", "notes.txt"]


@contextmanager
def files_of_at_most(size: int) -> Iterator[None]:
    """Let the operating system refuse to write larger files, as a full disk does."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


@pytest.mark.parametrize("size", [0, 3000])
def test_a_disk_that_refuses_leaves_nothing_behind(size: int, tmp_path: Path) -> None:
    manifest = decide(SORTED, table(2000))
    with (
        files_of_at_most(size),
        pytest.raises(SplitError, match=r"cannot be written \(.*too large\); nothing was changed"),
    ):
        write_manifest(manifest, tmp_path)
    assert list(tmp_path.rglob("*")) == []
    assert write_manifest(manifest, tmp_path).exists()


def test_the_header_is_on_the_disk_before_the_folder_has_its_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced: list[tuple[str, bytes, bool]] = []
    to_disk = os.fsync

    def watched(file: int) -> None:
        path = Path(os.readlink(f"/proc/self/fd/{file}"))
        synced.append((path.name, path.read_bytes(), (tmp_path / "sorted" / "1.0").exists()))
        to_disk(file)

    monkeypatch.setattr(os, "fsync", watched)
    folder = write_manifest(decide(SORTED, table()), tmp_path)
    assert ("manifest.json", (folder / "manifest.json").read_bytes(), False) in synced


def test_what_another_machine_is_writing_is_left_alone(tmp_path: Path) -> None:
    here = os.uname().nodename
    names = [f".writing-{here}-{tail}" for tail in ("2-4194303-deadbeef", "4194303-deadbeef", f"{os.getpid()}-ab")]
    for name in names:
        (tmp_path / name).mkdir()
    with aside(tmp_path, ".writing", tmp_path):
        pass
    assert [name for name in names if (tmp_path / name).exists()] == [names[0], names[2]]


def test_a_version_is_whole_though_the_one_before_is_damaged(tmp_path: Path) -> None:
    frame = pd.DataFrame({"id": range(40), "y": [i % 2 for i in range(40)]})
    first = decide({"name": "grown", "columns": {"key": "id", "target": "y"}}, frame.head(30))
    before = write_manifest(first, tmp_path)
    rows = next(before.glob("assignments-*.parquet"))
    os.chmod(rows, 0o644)
    rows.write_bytes(rows.read_bytes()[:-9])
    grown = extend(first, frame).manifest
    assert read_manifest(write_manifest(grown, tmp_path)).split_id == grown.split_id


KIT = Path(__file__).parents[2] / "kit"
EXPECTED = json.loads((KIT / "expected.json").read_text(encoding="utf-8"))
GOOD = [name for name, expected in EXPECTED.items() if expected["verdict"] == "good"]
BROKEN = [name for name in EXPECTED if name not in GOOD]
# What our sentence says of each reason to refuse a folder.
SENTENCES = {
    "header": r"manifest\.json is damaged",
    "schema": "has schema 'evenfold-manifest/2'",
    "sha256": "is damaged: its SHA-256 is not",
    "missing": r"assignments-0000\.parquet is missing",
    "unlisted": r"assignments-0001\.parquet is not listed in manifest\.json",
    "path": r"is damaged \(its files\)",
    "copy": "does not fit the copy in assignments-0000",
    "split_id": "says it is .* and its rows are",
}


def test_the_kit_holds_what_it_says() -> None:
    folders = {
        f"{path.parent.name}/{path.name}" for verdict in ("good", "broken") for path in (KIT / verdict).iterdir()
    }
    assert folders == set(EXPECTED)
    manifests = [read_manifest(KIT / name) for name in GOOD]
    assert {manifest.kind for manifest in manifests} == {"labels", "draws", "pairs"}
    assert {EXPECTED[name]["because"] for name in BROKEN} == set(SENTENCES)
    grown = read_manifest(KIT / "good" / "grown")
    assert grown.generation == 2
    assert grown.status.any()


@pytest.mark.parametrize("name", GOOD)
def test_good_folders_are_read(name: str) -> None:
    manifest = read_manifest(KIT / name)
    splits = [manifest.in_use.digest(i) for i in range(manifest.n_splits)]
    assert {"verdict": "good", "split_id": manifest.split_id, "splits": splits} == EXPECTED[name]


@pytest.mark.parametrize("name", BROKEN)
def test_broken_folders_are_refused(name: str) -> None:
    because = EXPECTED[name]["because"]
    with pytest.raises(SplitError, match=SENTENCES[because]) as refused:
        read_manifest(KIT / name)
    if because not in ("schema", "sha256", "split_id"):  # of these verify says nothing, or which block differs
        assert [damage.message for damage in verify(KIT / name).damages] == [str(refused.value)]


def test_a_reader_without_our_code_agrees(tmp_path: Path) -> None:
    """150 lines of JavaScript with another library for Parquet recompute every split_id and every split."""
    npm, node = shutil.which("npm"), shutil.which("node")
    if npm is None or node is None:
        pytest.skip("there is no npm and node to run the JavaScript reader with")
    shutil.copy(KIT / "reader.mjs", tmp_path)
    assert len((tmp_path / "reader.mjs").read_text(encoding="utf-8").splitlines()) <= 150
    install = [npm, "install", "--prefix", str(tmp_path), "--no-save", "hyparquet@1", "hyparquet-compressors@1"]
    if subprocess.run(install, check=False, capture_output=True, timeout=300).returncode:
        pytest.skip("npm cannot install hyparquet here")
    command = [node, str(tmp_path / "reader.mjs"), *EXPECTED]
    done = subprocess.run(command, cwd=KIT, check=True, capture_output=True, timeout=300)
    assert json.loads(done.stdout) == EXPECTED
