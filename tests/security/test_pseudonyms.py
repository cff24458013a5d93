"""Nothing that names a patient leaves: every byte that a split, audit, evaluation and retraining write is read."""

import io
import logging
import struct
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest
from evenfold.manifests import audit, decide, extend, read_manifest, verify, write_manifest
from evenfold.splitters import SplitError
from evenfold.tasks import Home

from evenfold import flows

N = 240
RIDGE = {"estimator": "sklearn.linear_model:Ridge", "metrics": ["r2"], "features": ["x", "z"]}


def patients(n: int, kind: str) -> pd.DataFrame:
    """Return visits of patients whose names would be known anywhere, as text or as numbers, or the visits alone."""
    rng = np.random.default_rng(3)
    x, z = rng.normal(size=(2, N))
    of, ward = np.arange(N) // 4, np.arange(N) % 3
    named: Any = [f"Quixote-{i:05d}" for i in of] if kind != "numbers" else 7_310_000_000 + 7919 * of
    visits: Any = [f"Dulcinea {i:06d}" for i in range(N)] if kind == "text" else 8_420_000_000 + 6007 * np.arange(N)
    wards = [f"Rocinante-{i}" for i in ward]
    frame = pd.DataFrame({"visit": visits, "patient": named, "ward": wards, "x": x, "z": z})
    frame["y"] = x - z + rng.normal(size=N)
    frame["sick"] = np.where(frame["y"] > 0, "yes", "no")
    return frame.head(n)


def values_of(frame: pd.DataFrame, columns: list[str]) -> set[Any]:
    return {value for name in columns for value in frame[name].tolist()}


class Search:
    """Looks for values as text, as numbers and as bytes in whatever was written."""

    def __init__(self, values: set[Any]) -> None:
        self.values = values
        texts = {str(value) for value in values}
        needles = [(text[:4].encode(code), text.encode(code)) for text in texts for code in ("utf-8", "utf-16-le")]
        numbers = [value for value in values if isinstance(value, int)]
        needles += [(struct.pack("<q", value)[3:], struct.pack("<q", value)) for value in numbers]
        needles += [(struct.pack(">q", value)[:5], struct.pack(">q", value)) for value in numbers]
        # Where none of the few parts stands that the needles share, none of the needles does.
        self.needles: dict[bytes, list[bytes]] = {}
        for part, needle in needles:
            self.needles.setdefault(part, []).append(needle)
        self.texts = texts

    def of_bytes(self, content: bytes, name: str) -> list[str]:
        near = [needle for part, needles in self.needles.items() if part in content for needle in needles]
        found = [f"{name}: {needle!r}" for needle in near if needle in content][:3]
        if content[:4] == b"PAR1":
            table = pq.read_table(io.BytesIO(content))
            found += self.of_bytes(str(table.schema.metadata).encode(), f"{name} metadata")
            for column in table.column_names:
                cells = set(table.column(column).to_pylist()) if table.num_rows else set()
                both = cells & self.values | {cell for cell in cells if str(cell) in self.texts}
                found += [f"{name}[{column}]: {next(iter(both))!r}"] if both else []
        if content[:2] == b"PK":
            with zipfile.ZipFile(io.BytesIO(content)) as archive:
                for entry in archive.namelist():
                    found += self.of_bytes(archive.read(entry), f"{name}!{entry}")
        return found

    def below(self, *folders: Path) -> list[str]:
        files = [file for folder in folders for file in sorted(folder.rglob("*")) if file.is_file()]
        assert files
        return [told for file in files for told in self.of_bytes(file.read_bytes(), str(file))]


@pytest.fixture(autouse=True)
def secret(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EVENFOLD_KEY_SECRET", "a secret of the tests")


SPEC: dict[str, Any] = {
    "name": "visits",
    "columns": {"key": "visit", "target": "y", "group": "patient"},
    "strategy": "BalancedGroupKFold",
    "params": {"n_splits": 3},
    "key_encoding": "hmac",
}


@pytest.mark.parametrize("kind", ["text", "numbers"])
def test_the_search_finds_what_is_there_and_nothing_where_it_is_encoded(tmp_path: Path, kind: str) -> None:
    frame, search = patients(N, kind), Search(values_of(patients(N, kind), ["visit", "patient"]))
    folder = write_manifest(decide({**SPEC, "key_encoding": None}, frame), tmp_path / "plain")
    found = " ".join(search.below(folder))
    assert "assignments-0000.parquet[visit]" in found
    assert "groups-0000.parquet[group]" in found
    grown = extend(decide(SPEC, frame.head(160)), frame).manifest
    assert search.below(write_manifest(grown, tmp_path / "encoded")) == []
    written = decide(SPEC, frame, engine="duckdb", to=tmp_path / "out of core")
    assert written.split_id == decide(SPEC, frame).split_id
    assert search.below(tmp_path / "out of core") == []


def test_no_byte_names_a_patient(
    home: Home, tmp_path: Path, caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    """Split, audit, evaluate, extend, retrain: the home with its MLflow store, and what was logged and returned."""
    caplog.set_level(logging.DEBUG)
    outside, kind = tmp_path / "hospital", "visits in numbers"
    outside.mkdir()
    for n in (160, 200, N):
        patients(n, kind).to_parquet(outside / f"{n}.parquet")
    merged = patients(N, kind)
    rows = [5, 9, 13, 17, 21]  # of five patients, some of whom lie in other folds
    merged.loc[rows, "patient"] = merged.loc[[row + 80 for row in rows], "patient"].to_numpy()
    merged.to_parquet(outside / "merged.parquet")
    more: dict[str, Any] = {"engine": "plain", "gates": False}
    outcomes: list[Any] = [
        flows.retrain(str(outside / "160.parquet"), SPEC, RIDGE, **more),
        flows.retrain(str(outside / "200.parquet"), SPEC, RIDGE, **more),
        flows.evaluate(str(outside / "200.parquet"), SPEC, RIDGE, engine="plain", log_models="final"),
        flows.extend(home.splits / "visits" / "1.1", str(outside / "merged.parquet"), engine="plain"),
    ]
    assert outcomes[-1].quarantined > 0
    manifest = read_manifest(home.splits / "visits" / "1.2")
    random = decide({**SPEC, "strategy": "KFold", "columns": {"key": "visit", "target": "y"}}, merged)
    outcomes += [audit(manifest, merged, features=["x", "z"]), audit(random, merged, group="patient")]
    printed = capfd.readouterr()
    search = Search(values_of(merged, ["visit", "patient"]))
    for text in (*(each.model_dump_json() for each in outcomes), caplog.text, printed.out, printed.err):
        assert search.of_bytes(text.encode(), "text") == []
    assert search.below(home.path) == []
    assert manifest.types["patient"].startswith("hmac-sha256-64:")


@pytest.mark.parametrize("kind", ["text", "numbers"])
def test_groups_are_kept_whole_and_grow_under_pseudonyms(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    manifest = decide(SPEC, patients(160, kind))
    assert manifest.split_id == decide(SPEC, patients(160, kind).sample(frac=1, random_state=1)).split_id
    # Two of a known patient's visits come later.
    later = patients(N, kind)
    part = later.drop(index=[158, 159]).head(158)
    grown = extend(decide(SPEC, part), later)
    assert (grown.moved, grown.added) == (0, N - 158)
    folds = later.assign(fold=-1)
    for number, (_, test) in enumerate(grown.manifest.as_cv(later).split()):
        folds.loc[test, "fold"] = number
    assert (folds.groupby("patient")["fold"].nunique() == 1).all()
    monkeypatch.setenv("EVENFOLD_KEY_SECRET", "another")
    with pytest.raises(SplitError, match="is not the one that the manifest's keys were made with"):
        extend(manifest, later)
    monkeypatch.delenv("EVENFOLD_KEY_SECRET")
    with pytest.raises(SplitError, match="EVENFOLD_KEY_SECRET, and it is not set"):
        extend(manifest, later)


@pytest.mark.parametrize("engine", ["memory", "duckdb"])
def test_a_key_has_one_pseudonym_whatever_its_column_is_read_as(tmp_path: Path, engine: Any) -> None:
    """A whole number that comes as text or as a float later on is the row that it was, as it is without pseudonyms."""
    frame = patients(N, "numbers")
    decided = decide(SPEC, frame.head(200), engine=engine, to=tmp_path if engine == "duckdb" else None)
    manifest = read_manifest(decided.folder) if engine == "duckdb" else decided
    for kind in ("float64", "str"):
        later = frame.astype({"visit": kind, "patient": kind})
        grown = extend(manifest, later)
        assert (grown.added, grown.moved, grown.deleted) == (N - 200, 0, 0)
        assert len(list(manifest.as_cv(later.head(200)).split())) == manifest.n_splits
    with pytest.raises(SplitError, match="'visit'"):
        extend(manifest, frame.astype({"visit": "str"}).replace({"visit": {str(frame["visit"][7]): "seven"}}))


def test_a_stratified_column_is_encoded_on_request(tmp_path: Path) -> None:
    """Classes that name somebody: as even as before, and nowhere to be read; the target cannot be."""
    spec = {**SPEC, "columns": {**SPEC["columns"], "target": "sick", "stratify": "ward"}}
    frame = patients(N, "text")
    known = decide(spec, frame)
    assert "Rocinante" in str(known.state)
    encoding = {"encode": ["key", "group", "stratify"]}
    encoded = decide({**spec, "key_encoding": encoding}, frame)
    folder = write_manifest(encoded, tmp_path)
    read = read_manifest(folder)
    assert Search(values_of(frame, ["visit", "patient", "ward"])).below(folder) == []
    assert read.types["ward"].startswith("hmac-sha256-")
    assert extend(decide({**spec, "key_encoding": encoding}, frame.head(160)), frame).added
    assert "Rocinante" not in audit(read, frame).model_dump_json()
    with pytest.raises(SplitError, match="the target sick cannot be encoded"):
        decide({**spec, "columns": {**spec["columns"], "stratify": "sick"},
                "key_encoding": {"encode": ["stratify"]}}, frame)  # fmt: skip


def test_a_manifest_of_encoded_keys_alone_goes_on_with_plain_groups(tmp_path: Path) -> None:
    frame = patients(N, "text")
    old = decide({**SPEC, "key_encoding": {"encode": ["key"]}}, frame.head(160))
    folder = write_manifest(old, tmp_path)
    assert old.types["patient"] == "text"
    read = read_manifest(folder)
    assert read.plan_id == old.plan_id
    assert extend(read, frame).moved == 0
    assert verify(folder).intact
