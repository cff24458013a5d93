"""A frame that a task is given becomes a file, by its content."""

from pathlib import Path
from typing import Any

import pytest
from evenfold.flows import evaluate
from evenfold.splitters import SplitError
from evenfold.tasks import Home, split
from prefect import flow
from prefect.filesystems import LocalFileSystem
from small import small

FOLDS: dict[str, Any] = {"key": "id", "strategy": "KFold", "n_splits": 3}


def test_a_frame_that_was_changed_is_another(prefect_home: Home) -> None:
    @flow
    def mine() -> set[str]:
        frame = small(60)
        first = split(frame, target="y", **FOLDS)
        frame["a"] = 0.0
        return {first.data, split(frame, target="y", **FOLDS).data}

    assert len(mine()) == 2


def test_a_frame_stays_where_results_lie_in_a_storage_of_the_users(prefect_home: Home, tmp_path: Path) -> None:
    LocalFileSystem(basepath=str(tmp_path / "mine")).save("mine", overwrite=True)  # type: ignore[unused-coroutine]
    elsewhere = split.with_options(result_storage=LocalFileSystem.load("mine"))

    @flow
    def mine() -> Any:
        return elsewhere(small(60), target="y", **FOLDS)

    assert [Path(mine().data).exists() for _ in "ab"] == [True, True]


@pytest.mark.parametrize("asked", [{"target": "nosuch"}, {"taget": "y"}, {"target": "y", "strategy": "Nope"}])
def test_a_refused_request_leaves_nothing_of_a_frame(home: Home, asked: dict[str, Any]) -> None:
    for refusing in (split.fn, evaluate):
        with pytest.raises(SplitError):
            refusing(small(60), **{"engine": "plain"} if refusing is evaluate else {}, **asked)
        assert not list(home.path.rglob("*.parquet"))
