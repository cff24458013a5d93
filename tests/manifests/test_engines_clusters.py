"""The same folds and identities on a cluster: Dask with two processes, Spark on this machine."""

import importlib.util
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from evenfold.manifests import decide
from evenfold.manifests.store.stored import describe
from evenfold.splitters import SplitError
from tables import TYPES, table

HAS_SPARK = importlib.util.find_spec("pyspark") is not None and shutil.which("java") is not None
DASK = pytest.mark.skipif(importlib.util.find_spec("distributed") is None, reason="needs evenfold[dask]")
SPARK = pytest.mark.skipif(not HAS_SPARK, reason="needs evenfold[spark] and a JRE")
SPECS: list[dict[str, Any]] = [
    {"columns": {"key": "id", "group": "group", "target": "number"}, "types": TYPES},
    {"columns": {"key": ["when", "text"], "target": "label"}, "types": TYPES, "holdout": 0.2},
    {"columns": {"key": "text", "group": "group", "stratify": ["flag", "label"]}, "types": TYPES},
]


def rows(n: int = 400) -> pd.DataFrame:
    """Return rows with accents in their keys, groups of very different sizes, and times."""
    frame = table(n)
    words = np.array(["clé", "Ω", "e\u0301\u0327", "日本", "Z"])
    skewed = np.minimum(np.random.default_rng(0).zipf(1.3, n), 40)
    return frame.assign(text=[f"{words[i % 5]} {i}" for i in range(n)], group=[f"{words[g % 5]} {g}" for g in skewed])


@pytest.fixture
def files(tmp_path: Path) -> str:
    """Return three files of several row groups each."""
    (tmp_path / "data").mkdir()
    for number, part in enumerate(np.array_split(np.arange(400), 3)):
        pq.write_table(
            pa.Table.from_pandas(rows().iloc[part]), tmp_path / "data" / f"{number}.parquet", row_group_size=50
        )
    return str(tmp_path / "data")


@pytest.fixture(scope="module")
def dask_client() -> Iterator[Any]:
    """Start two worker processes on loopback, which share what one process has imported."""
    import dask
    from distributed import Client, LocalCluster
    from distributed.utils import get_mp_context

    with dask.config.set({"distributed.worker.multiprocessing-method": "forkserver"}):
        get_mp_context().set_forkserver_preload(["distributed", "evenfold.manifests.spill"])
    with (
        dask.config.set({"distributed.worker.multiprocessing-method": "forkserver"}),
        LocalCluster(n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None) as cluster,
        Client(cluster) as client,
    ):
        yield client


def assert_decided_alike(spec: dict[str, Any], engine: Any, folder: Path, **data: Any) -> None:
    manifest = decide(spec, rows())
    for name, table_ in data.items():
        stored = decide(spec, table_, engine=engine, to=folder / name)
        assert stored.header == describe(manifest) | {"files": stored.header["files"]}
        assert stored.rows.group_table == manifest.group_table


@DASK
@pytest.mark.parametrize("spec", SPECS)
def test_dask_decides_the_same(spec: dict[str, Any], dask_client: Any, files: str, tmp_path: Path) -> None:
    import dask.dataframe as dd

    frame = dd.from_pandas(rows().sample(frac=1, random_state=2), npartitions=5, sort=False)
    assert_decided_alike(spec, "dask", tmp_path, files=files, frame=frame)


@pytest.fixture(scope="module")
def spark() -> Iterator[Any]:
    """Start Spark in this process's Java, as one who never said which Python its workers are."""
    from pyspark.sql import SparkSession

    settings = {"spark.ui.enabled": "false", "spark.driver.memory": "1g", "spark.sql.session.timeZone": "Asia/Tokyo"}
    builder = SparkSession.builder.master("local[2]")
    for name, value in settings.items():
        builder = builder.config(name, value)
    session = builder.getOrCreate()
    yield session
    session.stop()


@SPARK
@pytest.mark.parametrize("spec", SPECS)
def test_spark_decides_the_same(spec: dict[str, Any], spark: Any, files: str, tmp_path: Path) -> None:
    # A session takes times without a zone for its own; with one they are the same instants everywhere.
    aware = rows().assign(when=rows()["when"].dt.tz_localize("UTC"))
    frame = spark.createDataFrame(pa.Table.from_pandas(aware))
    assert_decided_alike(spec, "spark", tmp_path, files=files, frame=frame)


@DASK
def test_rows_on_a_cluster_need_a_key(files: str, tmp_path: Path) -> None:
    with pytest.raises(SplitError, match="name a key column"):
        decide({"columns": {"target": "number"}}, files, engine="dask", to=tmp_path)
    with pytest.raises(SplitError, match="Dask reads Parquet files"):
        decide({"columns": {"key": "id"}}, rows(), engine="dask", to=tmp_path)
