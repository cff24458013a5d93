"""Pseudonymous keys: no original key leaves the building, and a wrong secret is said."""

import hashlib
import hmac
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from evenfold.flows import evaluate
from evenfold.manifests import decide, read_manifest, write_manifest
from evenfold.splitters import SplitError
from evenfold.tasks import Home

SPEC = {"name": "people", "columns": {"key": "person", "target": "y"}, "key_encoding": "hmac"}


def table(n: int = 300) -> pd.DataFrame:
    rng = np.random.default_rng(1)
    x = rng.normal(size=n)
    return pd.DataFrame(
        {"person": [f"person-{i:06d}@example.org" for i in range(n)], "x": x, "y": x + rng.normal(size=n)}
    )


@pytest.fixture(autouse=True)
def secret(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EVENFOLD_KEY_SECRET", "a secret of the tests")


@pytest.mark.parametrize("bits", [64, 128])
def test_keys_are_what_hmac_says(bits: int) -> None:
    manifest = decide(SPEC | {"key_encoding": {"bits": bits}}, table())
    assert manifest.keys.column_names == ["row_key"]
    message = b'["person-000007@example.org"]'
    digest = hmac.new(b"a secret of the tests", message, hashlib.sha256).digest()
    wanted = int.from_bytes(digest[:8], "big", signed=True) if bits == 64 else digest[:16].hex()
    assert wanted in manifest.keys.column("row_key").to_pylist()


def test_no_artifact_holds_an_original_key(home: Home, tmp_path: Path) -> None:
    n, path = 90, tmp_path / "rows.parquet"
    table(n).assign(number=np.arange(n) + 7_777_000_001).to_parquet(path)
    needles = [b"person-0000", b"7777000", *(int(7_777_000_001 + i).to_bytes(8, "little") for i in range(n))]
    spec = SPEC | {"columns": {"key": ["person", "number"], "target": "y"}, "params": {"n_splits": 2}}
    evaluate(path, spec=spec, model={"estimator": "sklearn.linear_model:Ridge"}, engine="plain")
    written = [file for file in home.path.rglob("*") if file.is_file() and file.suffix != ".lock"]
    assert any(file.name == "predictions.parquet" for file in written)
    for file in written:
        content = file.read_bytes()
        if file.suffix == ".parquet":
            content += pd.read_parquet(file).to_csv().encode()
        assert not any(needle in content for needle in needles), file


def test_a_wrong_secret_is_a_clear_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Not 300 unknown rows."""
    manifest = read_manifest(write_manifest(decide(SPEC, table()), tmp_path))
    assert len(list(manifest.as_cv(table().sample(frac=1)).split())) == 5
    monkeypatch.setenv("EVENFOLD_KEY_SECRET", "another")
    with pytest.raises(SplitError, match="EVENFOLD_KEY_SECRET is not the one that the manifest's keys were made with"):
        manifest.as_cv(table())
    monkeypatch.delenv("EVENFOLD_KEY_SECRET")
    with pytest.raises(SplitError, match="EVENFOLD_KEY_SECRET, and it is not set"):
        decide(SPEC, table())


def test_the_secret_is_part_of_the_plan_and_not_in_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = decide(SPEC, table())
    folder = write_manifest(first, tmp_path)
    assert b"a secret of the tests" not in b"".join(file.read_bytes() for file in folder.iterdir())
    monkeypatch.setenv("EVENFOLD_KEY_SECRET", "another")
    assert decide(SPEC, table()).plan_id != first.plan_id


@pytest.mark.parametrize("variable", ["MLFLOW_TRACKING_PASSWORD", "EVENFOLD_KEY_SECRETS", "EVENFOLD_KEY_SECRET_a\n"])
def test_no_variable_of_something_else_is_a_secret(variable: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(variable, "hunter2")
    with pytest.raises(SplitError, match="may hold a secret of something else; write EVENFOLD_KEY_SECRET or "):
        decide(SPEC | {"key_encoding": {"secret": variable}}, table())
    monkeypatch.setenv("EVENFOLD_KEY_SECRET_PEOPLE", "a secret of the tests")
    named = decide(SPEC | {"key_encoding": {"secret": "EVENFOLD_KEY_SECRET_PEOPLE"}}, table())
    assert named.keys == decide(SPEC, table()).keys


def test_the_published_check_is_slow_to_guess_by_and_of_one_name() -> None:
    made = decide(SPEC, table())
    salt = b"evenfold key check 2/people"
    check = hashlib.scrypt(b"a secret of the tests", salt=salt, n=32768, r=8, p=1, maxmem=1 << 26, dklen=16).hex()
    assert made.types["row_key"] == f"hmac-sha256-64:2-{check}"
    others = decide(SPEC | {"name": "others"}, table())
    assert (others.keys, others.split_id) == (made.keys, made.split_id)
    assert others.types["row_key"] != made.types["row_key"]
