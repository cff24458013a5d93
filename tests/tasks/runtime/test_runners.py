"""Tasks are sent to other processes."""

import importlib
from concurrent.futures import ThreadPoolExecutor

import cloudpickle
import pytest
from evenfold.tasks.runtime.runners import task_runner
from prefect import Task
from prefect.settings import PREFECT_API_URL, temporary_settings

from evenfold import tasks


def test_every_task_reaches_a_worker_by_pickle() -> None:
    """As it is, with other options, and the bare function by value, as Dask and Ray take what a user wraps."""
    rooms = [importlib.import_module(f"evenfold.tasks.{name}") for name in ("fits", "scores", "splits")]
    steps = dict(pair for room in rooms for pair in vars(room).items())
    steps |= {name: getattr(tasks, name) for name in tasks.__all__}
    for name, step in steps.items():
        if not isinstance(step, Task):
            continue
        for sent in (step, step.with_options(retries=7, tags={"nightly"})):
            came = cloudpickle.loads(cloudpickle.dumps(sent))
            assert (type(came), came.fn) == (Task, step.fn)
            for what in ("name", "retries", "tags", "cache_policy"):
                assert getattr(came, what) == getattr(sent, what), (name, what)
        assert cloudpickle.loads(cloudpickle.dumps(step.fn)).__wrapped__.__qualname__ == name


def test_what_sends_on_for_a_pool_knows_the_server_of_its_flow(monkeypatch: pytest.MonkeyPatch) -> None:
    """That thread of Prefect's started a server of its own, which stayed: a command whose output is read hung."""
    monkeypatch.setenv("EVENFOLD_RUNNER", "processes")
    monkeypatch.delenv("PREFECT_API_URL", raising=False)
    with temporary_settings({PREFECT_API_URL: "http://127.0.0.1:1/api"}):
        runner = task_runner().duplicate()  # as a flow begins it
    (begin,) = runner.subprocess_message_processor_factories

    def sent_on() -> tuple[object, str | None]:
        return begin()("log", {"message": "fitted"}), PREFECT_API_URL.value()

    with ThreadPoolExecutor(1) as thread:
        assert thread.submit(sent_on).result() == (("log", {"message": "fitted"}), "http://127.0.0.1:1/api")
