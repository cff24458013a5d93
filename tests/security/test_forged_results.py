"""A forged file among shared results runs nothing, and the result is computed again."""

import hashlib
import json
import re
from pathlib import Path

import fsspec
import pytest
from evenfold.tasks import Home
from evenfold.tasks.outcomes import FitResult, SplitAudit
from evenfold.tasks.runtime.signing import sign
from evenfold.tasks.store import _warn_unsigned, kept, ready

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


@pytest.fixture
def place(home: Home, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """Share results in a bucket of this test's own; return its folder."""
    monkeypatch.setenv("EVENFOLD_RESULTS", f"memory://{tmp_path.name}")
    return f"/{tmp_path.name}"


def put(place: str, name: object, held: bytes, digest: str) -> None:
    """Put a fit whose predictions are called so, and have these bytes."""
    store = fsspec.filesystem("memory")
    fit = {"key": "f" * 64, "split_id": "0", "fingerprint": "0", "model": {}, "i": 0}
    fit |= {"predictions": {"name": name, "sha256": digest}}
    store.pipe_file(f"{place}/results/{KEY}.json", packed("FitResult", fit))
    store.pipe_file(f"{place}/files/{digest}", held)


NAMES = ["{outside}/victim", "../victim", "scores/../../victim", "splits/flights/1.0/manifest.json", "scores/a", 7]


@pytest.mark.parametrize("name", NAMES)
def test_a_forged_result_of_a_bucket_writes_nothing_but_results(
    name: object, place: str, home: Home, tmp_path: Path
) -> None:
    def lying() -> set[Path]:
        return {path for folder in (tmp_path, home.path) for path in folder.rglob("*") if path.is_file()}

    before = lying()
    name = name.format(outside=tmp_path) if isinstance(name, str) else name
    put(place, name, b"evil", hashlib.sha256(b"evil").hexdigest())
    assert ready(KEY) is None
    assert {path.name for path in lying() - before if path.suffix != ".lock"} == {".creates-only", "signing.key"}


def test_a_file_of_a_bucket_is_fetched_where_it_is_what_was_signed(place: str, home: Home) -> None:
    name, digest = f"scores/{'a' * 64}.parquet", hashlib.sha256(b"right").hexdigest()
    put(place, name, b"wrong", digest)
    assert ready(KEY) is None
    assert not home.scores.exists()
    put(place, name, b"right", digest)
    assert isinstance(fit := ready(KEY), FitResult)
    assert (fit.predictions.path, fit.predictions.path.read_bytes()) == (home.shared / name, b"right")
