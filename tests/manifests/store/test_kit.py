"""The conformance kit: our reader and one that shares no code with it come to the same verdict on every folder."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path

import pytest
from evenfold.manifests import read_manifest
from evenfold.splitters import SplitError

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
    "unlisted": r"does not list assignments-0001\.parquet",
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
    with pytest.raises(SplitError, match=SENTENCES[EXPECTED[name]["because"]]):
        read_manifest(KIT / name)


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
