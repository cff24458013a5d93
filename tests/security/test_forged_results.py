"""A forged file among shared results runs nothing, and the result is computed again."""

import hashlib
import io
import json
import re
import zipfile
from pathlib import Path
from typing import Any

import fsspec
import pytest
from evenfold.tasks import Home
from evenfold.tasks.outcomes import SplitAudit
from evenfold.tasks.runtime.signing import sign
from evenfold.tasks.store import Bucket, _warn_unsigned, kept, ready

KEY = "score/forged"
AUDIT = SplitAudit(
    name="x", version="1.0", split_id="0", n_rows=2, features=[], off=[], failed=[], findings=[], passed={},
    not_asked={},
)  # fmt: skip


def packed(kind: str, result: object, key: str = KEY) -> bytes:
    text = result if isinstance(result, bytes) else json.dumps(result).encode()
    claim = {"key": key, "kind": kind, "sha256": hashlib.sha256(text).hexdigest()}
    return f"{kind} {claim['sha256']} {sign('result', claim)}\n".encode() + text


def by_another(team: str) -> bytes:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("EVENFOLD_SIGNING_KEY", team)
        return packed("SplitAudit", AUDIT.model_dump(mode="json"))


def forgeries(mark: Path) -> dict[str, bytes]:
    touch = {"__class__": "os.system", "data": {"command": f"touch {mark}"}}
    whole = packed("SplitAudit", AUDIT.model_dump(mode="json"))
    return {
        "a function for a kind": packed("os.system", {"command": f"touch {mark}"}),
        "a class of ours that is no result": packed("Path", "/etc"),
        "a record of Prefect's": json.dumps({"metadata": {"serializer": {"type": "pickle"}}, "result": touch}).encode(),
        "a class inside": packed("SplitAudit", touch),
        "very deep": packed("SplitAudit", b"[" * 100_000),
        "a digit was changed": whole.replace(b'"n_rows": 2', b'"n_rows": 3'),
        "cut short": whole[:-9],
        "no text": b"\x80\x04.",
        "empty": b"",
        "not signed": re.sub(rb" \w+\n", b"\n", whole),
        "of another key": by_another("k" * 32),
        "of another result": packed("SplitAudit", AUDIT.model_dump(mode="json"), "score/other"),
    }


def test_a_forged_result_runs_nothing_and_is_made_anew(
    home: Home, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    mark, path = tmp_path / "mark", home.results / KEY
    path.parent.mkdir(parents=True)
    for name, content in forgeries(mark).items():
        _warn_unsigned.cache_clear()
        caplog.clear()
        path.write_bytes(content)
        assert (name, ready(KEY), ready(KEY)) == (name, None, None)
        assert (name, len(caplog.messages)) == (name, name in ("not signed", "of another key", "of another result"))
        assert [kept(KEY, lambda: AUDIT) for _ in "ab"] == [(AUDIT, False), (AUDIT, True)]
    assert not mark.exists()


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
def test_a_forged_result_of_a_bucket_writes_nothing_outside_of_the_results(
    named: Any, home: Home, tmp_path: Path
) -> None:
    store, url = fsspec.filesystem("memory"), f"memory://{tmp_path.name}"
    digest = hashlib.sha256(b"evil").hexdigest()
    named = {
        name: str(value).format(outside=tmp_path) if isinstance(value, str) else value for name, value in named.items()
    }
    place = f"/{tmp_path.name}"
    store.pipe_file(f"{place}/files/{digest}", b"evil")
    zipped = io.BytesIO()
    with zipfile.ZipFile(zipped, "w") as archive:
        archive.writestr("manifest.json", "evil")
    for split in ("splits/flights/..", "splits/../splits", "splits/splits/1.0"):
        store.pipe_file(f"{place}/{split}.zip", zipped.getvalue())
    result = {"predictions": named | {"sha256": digest}}
    store.pipe_file(f"{place}/results/{KEY}.json", packed("FitResult", result))
    mirror = tmp_path / "mirrors" / "mirror"
    assert Bucket(url, mirror).result(KEY) is None
    files = [path for path in tmp_path.rglob("*") if path.is_file() and not path.is_relative_to(home.path)]
    assert [path.name for path in files] == [".creates-only"]


def test_a_file_of_a_bucket_with_other_bytes_is_not_written(home: Home, tmp_path: Path) -> None:
    store, digest = fsspec.filesystem("memory"), hashlib.sha256(b"right").hexdigest()
    store.pipe_file(f"/{tmp_path.name}/files/{digest}", b"wrong")
    result = {"predictions": {"path": "scores/a", "sha256": digest}}
    store.pipe_file(f"/{tmp_path.name}/results/{KEY}.json", packed("FitResult", result))
    assert Bucket(f"memory://{tmp_path.name}", tmp_path / "mirror").result(KEY) is None
    assert not (tmp_path / "mirror" / "scores").exists()
