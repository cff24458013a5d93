"""Tasks are sent to other processes."""

import importlib

import cloudpickle
from prefect import Task

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
