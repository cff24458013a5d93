"""Two machines without a folder in common share splits and scores through an S3-compatible server on loopback."""

import json
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from servers import ROOT, answers, environment, free_port, prefect_server, started, wait_until
from test_resume import CLI, N_SPLITS, data, evaluate

__all__ = ["data"]
pytestmark = pytest.mark.soak


@pytest.fixture(scope="module")
def bucket(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    pytest.importorskip("moto", reason="make soak installs moto")
    s3fs = pytest.importorskip("s3fs", reason="make soak installs evenfold[s3]")
    folder, port = tmp_path_factory.mktemp("bucket"), free_port()
    url = f"http://127.0.0.1:{port}"
    keys = {"AWS_ACCESS_KEY_ID": "loopback", "AWS_SECRET_ACCESS_KEY": "loopback", "AWS_DEFAULT_REGION": "us-east-1"}
    server = [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)]
    with started(server, environment(folder), folder / "moto.log"), prefect_server(folder) as api:
        wait_until(lambda: answers(f"{url}/moto-api/"), "moto's server", 60)
        s3fs.S3FileSystem(key="loopback", secret="loopback", endpoint_url=url).mkdir("models")
        more = {"AWS_ENDPOINT_URL": url, "EVENFOLD_RESULTS": "s3://models/evenfold", "PREFECT_API_URL": api}
        more["EVENFOLD_SIGNING_KEY"] = "loopback" * 4
        yield environment(folder, {**keys, **more})


def machine(bucket: dict[str, str], place: Path) -> dict[str, str]:
    return {**bucket, "EVENFOLD_HOME": str(place), "PREFECT_HOME": str(place / "prefect")}


def told(command: list[str], env: dict[str, str]) -> Any:
    done = subprocess.run(command, env=env, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_what_one_machine_computed_another_fetches(bucket: dict[str, str], data: Path, tmp_path: Path) -> None:
    """No path is shared: split and folds of the second machine are the first one's; a lost object is made again."""
    import s3fs

    one, other = machine(bucket, tmp_path / "one"), machine(bucket, tmp_path / "other")
    first = told(evaluate(data), one)
    assert first["n_cached"] == 0
    second = told(evaluate(data), other)
    assert second["cached"]
    assert second["n_cached"] == N_SPLITS
    assert second["split"]["split_id"] == first["split"]["split_id"]
    assert Path(second["split"]["uri"]).is_relative_to(tmp_path / "other")
    assert [each["test"] for each in second["scores"]] == [each["test"] for each in first["scores"]]
    store = s3fs.S3FileSystem(key="loopback", secret="loopback", endpoint_url=bucket["AWS_ENDPOINT_URL"])
    store.rm(store.find("models/evenfold/files")[0])
    third = told(evaluate(data), machine(bucket, tmp_path / "third"))
    assert third["n_cached"] == N_SPLITS - 1
    assert len(store.find("models/evenfold/files")) == N_SPLITS
    refreshed = told([*evaluate(data), "--refresh"], machine(bucket, tmp_path / "fourth"))
    assert refreshed["n_cached"] == 0


def test_one_name_of_two_decisions_gets_two_versions(bucket: dict[str, str], data: Path, tmp_path: Path) -> None:
    """Two machines decide other splits of one name at once: neither is lost or damaged, and each is found by all."""
    columns = ["--target", "y", "--key", "id", "--name", "twice", "--strategy", "KFold", "--json"]
    outcomes: dict[int, Any] = {}

    def split(seed: int) -> None:
        command = [*CLI, "split", str(data), *columns, "--seed", str(seed)]
        outcomes[seed] = told(command, machine(bucket, tmp_path / str(seed)))["split"]

    both = [threading.Thread(target=split, args=(seed,)) for seed in (1, 2)]
    for each in both:
        each.start()
    for each in both:
        each.join()
    assert {each["version"] for each in outcomes.values()} == {"1.0", "2.0"}
    for seed in (1, 2):
        command = [*CLI, "split", str(data), *columns, "--seed", str(seed)]
        again = told(command, machine(bucket, tmp_path / f"again {seed}"))
        assert (again["split"]["split_id"], again["split"]["version"]) == (
            outcomes[seed]["split_id"],
            outcomes[seed]["version"],
        )
        assert again["cached"]
