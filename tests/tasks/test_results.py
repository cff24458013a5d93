"""The storage that machines share: a bucket that keeps results, and one that would lose them."""

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from unittest.mock import patch

import fsspec
import pandas as pd
import pytest
from evenfold.estimates import EvaluationError
from evenfold.manifests import decide, write_manifest
from evenfold.manifests.store.bucket import Bucket
from evenfold.splitters import SplitError
from evenfold.tasks import Home, extend, split
from evenfold.tasks.outcomes import KeptFile
from evenfold.tasks.references import manifest_folder
from evenfold.tasks.store import bucket_of
from small import evaluated, small


@pytest.fixture
def bucket(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """A bucket in this process's memory, which refuses to put an object twice as S3 does."""
    store = fsspec.filesystem("memory")
    monkeypatch.setenv("EVENFOLD_RESULTS", "memory://models/evenfold")
    yield store
    store.store.clear()


def test_a_machine_fetches_what_another_computed(bucket: Any, home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    """With nothing in its own mirror it fits nothing; with an object that is gone it computes that one again."""
    monkeypatch.setenv("EVENFOLD_SIGNING_KEY", "loopback" * 4)
    data, other, third = (home.path.with_name(name) for name in ("small.parquet", "other", "third"))
    small().to_parquet(data)
    shutil.copytree(shutil.copytree(home.path, other), third)  # MLflow's store is made, which takes longer than fits
    first = evaluated(data)
    assert (first.cached, first.n_cached) == (False, 0)
    monkeypatch.setenv("EVENFOLD_HOME", str(other))
    second = evaluated(data)
    assert (second.cached, second.n_cached) == (True, 3)
    assert second.estimates == first.estimates
    assert Path(second.split.uri).is_relative_to(other)
    bucket.rm(bucket.find("models/evenfold/files")[0])
    monkeypatch.setenv("EVENFOLD_HOME", str(third))
    assert evaluated(data).n_cached == 2


def test_a_bucket_that_overwrites_is_refused(bucket: Any, home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two machines could decide one version differently; the sentence says so, and what would work."""

    def overwrites(path: str, value: bytes, mode: str = "overwrite", **_: Any) -> None:
        bucket.store[path] = value

    monkeypatch.setenv("EVENFOLD_RESULTS", "memory://models/another")
    monkeypatch.setattr(type(bucket), "pipe_file", staticmethod(overwrites))
    with pytest.raises(SplitError, match=r"overwrites an object that is there already, .* refuses, or a folder"):
        bucket_of(home)


def test_a_version_is_not_offered_for_the_same_folds_of_another_target(bucket: Any, tmp_path: Path) -> None:
    """Another machine that asked for the other target would be told that its decision is the one in the bucket."""
    data = pd.DataFrame({"id": range(20), "a": [0, 1] * 10, "b": [0] * 10 + [1] * 10})
    offered = []
    for target in ("a", "b"):
        mirror = tmp_path / target
        plain = {"name": "two", "strategy": "KFold", "columns": {"key": "id", "target": target}}
        folder = write_manifest(decide(plain, data), mirror / "splits")
        offered.append(Bucket("memory://models/targets", mirror).offer_split(folder))
    assert offered == [True, False]


@pytest.mark.usefixtures("home")
def test_what_an_outage_kept_from_the_bucket_does_not_stay_here_alone(bucket: Any) -> None:
    """The next try makes it again and offers it: else no other machine would ever see it."""
    rows, spec = small(), {"name": "given", "columns": {"key": "id"}, "strategy": "KFold"}
    first = split.fn(rows.iloc[:50], key="id", strategy="KFold", name="grows")
    tries: list[Callable[[], Any]] = [
        lambda: extend.fn(first, rows),
        lambda: split.fn(rows, spec, name="other"),
        lambda: manifest_folder(decide(spec, rows)),
    ]
    for make in tries:
        outage = patch.object(type(bucket), "pipe_file", side_effect=ConnectionError)
        with outage, pytest.raises(EvaluationError, match="cannot be used"):
            make()
        make()
    names = [name.rpartition("splits/")[2] for name in bucket.find("models/evenfold/splits")]
    assert sorted(names) == ["given/1.0.zip", "grows/1.0.zip", "grows/1.1.zip", "other/1.0.zip"]


@pytest.mark.usefixtures("bucket")
def test_of_two_that_fetch_one_split_the_second_takes_what_is_there(home: Home) -> None:
    """Another process finishes while this one still downloads; on POSIX its folder is then "not empty"."""
    evaluated(small(), name="raced")
    shutil.rmtree(home.shared / "splits")

    class Late(Bucket):
        def _get(self, name: str) -> bytes | None:
            content = super()._get(name)
            Bucket(self.url, self.here).fetch_splits("raced")
            return content

    Late("memory://models/evenfold", home.shared).fetch_splits("raced")
    assert [path.name for path in (home.shared / "splits" / "raced").iterdir()] == ["1.0"]


def test_a_home_that_was_moved_keeps_its_fits(home: Home, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Results name their files below it, and those of earlier versions by a whole path."""
    before = evaluated(small())
    monkeypatch.setenv("EVENFOLD_HOME", str(home.path.rename(tmp_path / "moved")))
    assert evaluated(small()).n_cached == before.n_fits == 3
    file = KeptFile.model_validate({"path": f"/elsewhere/.evenfold/scores/{'a' * 64}.parquet", "sha256": "0"})
    assert file.path == tmp_path / "moved" / "scores" / f"{'a' * 64}.parquet"
