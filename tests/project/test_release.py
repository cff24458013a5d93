"""What a user keeps of a release stays readable: each later version opens the home that 0.1.0 left.

``.venv/bin/python tests/project/test_release.py`` writes the home of this version, once, when it is released.
"""

import json
import os
import shutil
import sys
import tarfile
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest
from filelock import FileLock

sys.path.insert(0, str(Path(__file__).parents[1]))
from golden_requests import TREE, rows

GOLDEN = Path(__file__).parents[1] / "golden"
# MLflow's store names files by their absolute paths, and what is signed covers them: a home is opened where it was.
PLACE = Path("/tmp/evenfold-of-a-release")
REQUEST: dict[str, Any] = {
    **{"group": "site", "key": "id", "target": "y", "name": "monthly", "n_splits": 3, "model": TREE},
    **{"exclude": ["late"], "gates": False, "engine": "plain"},
}


@pytest.fixture(params=sorted(path.name for path in GOLDEN.glob("home-*.tar.xz")))
def release(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    with FileLock(f"{PLACE}.lock"):
        shutil.rmtree(PLACE, ignore_errors=True)
        with tarfile.open(GOLDEN / request.param) as archive:
            archive.extractall(PLACE, **({"filter": "data"} if hasattr(tarfile, "data_filter") else {}))  # of 3.11.4
        monkeypatch.setenv("EVENFOLD_HOME", str(PLACE))
        yield PLACE
        shutil.rmtree(PLACE)


def test_the_home_of_a_release_is_read_and_goes_on(release: Path) -> None:
    """Its split is whole and the same, its champion predicts as it did, and the next month grows and follows both."""
    from evenfold.flows.later import predict_later

    import evenfold

    then = json.loads((release / "then.json").read_text())
    assert evenfold.verify(release / "splits" / "monthly" / "1.0").intact
    assert evenfold.load_split("monthly@1.0").split_id == then["split_id"]
    predictions = predict_later("models:/monthly@champion", rows(40, 200))["prediction"]
    assert predictions.tolist() == then["predictions"]
    grown = evenfold.retrain(rows(240), **REQUEST)
    assert [grown.split.version, grown.champion.version, grown.registered.version] == ["1.1", "1", "2"]
    before, after = (evenfold.load_split(f"monthly@{version}") for version in ("1.0", "1.1"))
    assert after.fold_of(rows(240))[:200].tolist() == before.fold_of(rows(200)).tolist()


def _write() -> None:
    from evenfold.flows.later import predict_later

    import evenfold

    os.environ["EVENFOLD_HOME"] = str(PLACE)
    first = evenfold.retrain(rows(200), **REQUEST)
    predictions = predict_later("models:/monthly@champion", rows(40, 200))["prediction"].tolist()
    (PLACE / "then.json").write_text(json.dumps({"split_id": first.split.split_id, "predictions": predictions}))
    with tarfile.open(GOLDEN / f"home-{version('evenfold')}.tar.xz", "w:xz") as archive:
        archive.add(PLACE, ".", filter=lambda each: None if "/locks/" in each.name else each)
    shutil.rmtree(PLACE)


if __name__ == "__main__":
    _write()
