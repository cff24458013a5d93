"""Ray, started for the flow: the same folds and scores as in threads."""

import os
from collections.abc import Callable, Iterator
from importlib.metadata import version
from pathlib import Path

import pytest
from servers import prefect_server
from test_runners import run, same

pytestmark = pytest.mark.soak


@pytest.fixture(scope="module")
def api(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with prefect_server(tmp_path_factory.mktemp("server")) as url:
        yield url


def test_ray_gives_what_threads_give(api: str, tmp_path: Path, found: Callable[..., None]) -> None:
    """Fits happen in Ray's workers, the folds are the same to the bit and the scores to 1e-12."""
    pytest.importorskip("prefect_ray", reason="evenfold[ray] is not installed; make soak leaves it out, it is large")
    threads, in_threads = run(tmp_path, "threads", api)
    told, pids = run(tmp_path, "ray", api)
    same(threads, told)
    assert in_threads == {str(threads["pid"])}
    assert pids
    assert not pids & {str(told["pid"]), str(os.getpid())}
    found(ray=version("ray"), prefect_ray=version("prefect-ray"), workers=len(pids))
