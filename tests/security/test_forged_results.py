"""A forged file among shared results runs nothing: it is dropped, and the result is computed again."""

from __future__ import annotations

import base64
import hashlib
import io
import json
import pickle
import zipfile
from pathlib import Path
from typing import Any

import fsspec
import pytest
from evenfold.estimates import EvaluationError
from evenfold.tasks import Home
from evenfold.tasks.outcomes import RunRef
from evenfold.tasks.results.bucket import Bucket
from evenfold.tasks.results.trusted import ForgedResultError, ResultFolder, check_record, check_result
from evenfold.tasks.steps.step import keep, ready
from prefect._internal.result_records import ResultRecord
from prefect.serializers import JSONSerializer

KEY = "score/forged"


class Touch:
    """What a pickle may do."""

    def __init__(self, mark: Path) -> None:
        self.mark = mark

    def __reduce__(self) -> Any:
        return Path.touch, (self.mark,)


def record(result: Any, **serializer: Any) -> bytes:
    written = JSONSerializer().model_dump(mode="json") | serializer
    metadata = {"storage_key": KEY, "expiration": None, "serializer": written, "prefect_version": "3.8.8"}
    text = result if isinstance(result, str) else json.dumps(result)
    return json.dumps({"metadata": metadata | {"storage_block_id": None}, "result": text}).encode()


def forgeries(mark: Path) -> dict[str, bytes]:
    touch = {"__class__": "os.system", "data": {"command": f"touch {mark}"}}
    pickled = base64.encodebytes(pickle.dumps(Touch(mark))).decode()
    pickles = {"type": "pickle", "picklelib": "pickle"}
    return {
        "a function for a class": record(touch),
        "deep inside": record({"__class__": "evenfold.tasks.outcomes.RunRef", "data": {"run_id": [touch]}}),
        "a pickle": json.dumps(
            json.loads(record(pickled)) | {"metadata": json.loads(record(""))["metadata"] | {"serializer": pickles}}
        ).encode(),
        "a decoder of its own": record({"command": f"touch {mark}"}, object_decoder="subprocess.Popen"),
        "a library of its own": record("{}", jsonlib="pickle"),
        "an exception": record({"__exc_type__": "builtins.SystemExit", "message": "1"}),
        "a module that is imported": record({"__class__": "this.s", "data": 1}),
        "a class of ours that is no result": record({"__class__": "evenfold.tasks.outcomes.Path", "data": "/etc"}),
        "no JSON": b"\x80\x04.",
        "very deep": record("[" * 100_000),
        "no text": json.dumps({"metadata": json.loads(record(""))["metadata"], "result": {"a": 1}}).encode(),
    }


@pytest.mark.parametrize("name", forgeries(Path("unused")))
def test_a_forged_result_runs_nothing(name: str, home: Home, tmp_path: Path) -> None:
    """It is dropped as a damaged one is, before Prefect makes objects of it, and Prefect's own reading meets it too."""
    import sys

    mark = tmp_path / "mark"
    path = home.results / KEY
    path.parent.mkdir(parents=True)
    path.write_bytes(forgeries(mark)[name])
    before = "this" in sys.modules
    with pytest.raises(ForgedResultError):
        check_record(path.read_bytes())
    with pytest.raises(ForgedResultError):
        ResultFolder(basepath=str(home.results)).read_path(KEY)
    assert ready(KEY) is None
    assert not path.exists()
    assert not mark.exists()
    assert before == ("this" in sys.modules)


def test_the_attack_is_real(tmp_path: Path) -> None:
    """Where nobody looks first, Prefect does what such a file says; should it stop to, this test says so."""
    mark = tmp_path / "mark"
    ResultRecord.deserialize(forgeries(mark)["a pickle"])
    assert mark.exists()


def test_what_our_tasks_keep_is_read_again(home: Home) -> None:
    """The check lets through what it is for."""
    kept = RunRef(run_id="one", url="http://127.0.0.1")
    keep(KEY, kept)
    assert ready(KEY) == kept
    check_result(JSONSerializer().dumps(kept))
    assert ResultFolder(basepath=str(home.results)).read_path(KEY)


@pytest.mark.parametrize(
    "named",
    [
        {"path": "{outside}/victim"},
        {"path": "../victim"},
        {"path": "scores/../../victim"},
        {"path": "splits/flights/1.0/manifest.json"},
        {"path": 7},
        {"uri": "../../splits"},
        {"uri": "splits/flights/.."},
        {"uri": "1.0"},
        {"uri": "{outside}/splits/1.0"},
        {"uri": ["splits"]},
    ],
    ids=str,
)
def test_a_forged_result_of_a_bucket_writes_nothing_outside_of_the_results(named: Any, tmp_path: Path) -> None:
    """Neither a file that it names nor a split."""
    store, url = fsspec.filesystem("memory"), f"memory://{tmp_path.name}"
    digest = hashlib.sha256(b"evil").hexdigest()
    named = {
        name: str(value).format(outside=tmp_path) if isinstance(value, str) else value for name, value in named.items()
    }
    place = f"/{tmp_path.name}"
    store.pipe_file(f"{place}/files/{digest}", b"evil")
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        archive.writestr("manifest.json", "evil")
    for split in ("splits/flights/..", "splits/../splits", "splits/splits/1.0"):
        store.pipe_file(f"{place}/{split}.zip", packed.getvalue())
    result = {
        "__class__": "evenfold.tasks.outcomes.RunRef",
        "data": {"run_id": "one", "url": named | {"sha256": digest}},
    }
    store.pipe_file(f"{place}/results/{KEY}.json", json.dumps(result).encode())
    mirror = tmp_path / "home" / "mirror"
    assert Bucket(url, mirror).result(KEY) is None
    assert [path.name for path in tmp_path.rglob("*") if path.is_file()] == [".creates-only"]


def test_a_file_of_a_bucket_with_other_bytes_is_not_written(tmp_path: Path) -> None:
    """They are compared with the digest that the result names first."""
    store, digest = fsspec.filesystem("memory"), hashlib.sha256(b"right").hexdigest()
    store.pipe_file(f"/{tmp_path.name}/files/{digest}", b"wrong")
    result = {"__class__": "evenfold.tasks.outcomes.RunRef", "data": {"path": "scores/a", "sha256": digest}}
    store.pipe_file(f"/{tmp_path.name}/results/{KEY}.json", json.dumps(result).encode())
    assert Bucket(f"memory://{tmp_path.name}", tmp_path / "mirror").result(KEY) is None
    assert not (tmp_path / "mirror" / "scores").exists()


def test_a_split_of_a_bucket_that_is_no_zip_file_is_said(tmp_path: Path) -> None:
    fsspec.filesystem("memory").pipe_file(f"/{tmp_path.name}/splits/flights/1.0.zip", b"cut short")
    with pytest.raises(EvaluationError, match=r"cannot be read: flights 1\.0 is no ZIP file; delete it there"):
        Bucket(f"memory://{tmp_path.name}", tmp_path / "mirror").fetch_splits("flights")
    assert not list((tmp_path / "mirror").glob("splits/flights/*"))
