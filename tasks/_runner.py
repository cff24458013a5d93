"""What runs the tasks of a flow: threads, processes, Dask or Ray, by one setting."""

from __future__ import annotations

import os
from importlib import import_module
from typing import Any

from evenfold.splitters import SplitError

from ._home import default_workers

RUNNERS = ("threads", "processes", "dask", "ray")


def runner_name() -> str:
    """Return the setting ``EVENFOLD_RUNNER``, threads unless it says otherwise; SplitError for an unknown one."""
    name = os.environ.get("EVENFOLD_RUNNER") or "threads"
    if name not in RUNNERS:
        raise SplitError(f"EVENFOLD_RUNNER is {name!r}; choose {', '.join(RUNNERS[:-1])} or {RUNNERS[-1]}.")
    return name


def task_runner() -> Any:
    """Return the Prefect task runner that the setting asks for.

    Threads and processes run ``EVENFOLD_WORKERS`` tasks at once. ``EVENFOLD_RUNNER_ADDRESS`` names a running Dask
    scheduler (tcp://host:8786) or Ray cluster (ray://host:10001); without it both start one of their own for the
    flow. Workers on other machines need evenfold installed and ``EVENFOLD_HOME`` or ``EVENFOLD_RESULTS`` on a path
    that all of them see.
    """
    return _MADE[runner_name()](default_workers())


def _threads(workers: int) -> Any:
    from prefect.task_runners import ThreadPoolTaskRunner

    return ThreadPoolTaskRunner(max_workers=workers)


def _processes(workers: int) -> Any:
    from prefect.task_runners import ProcessPoolTaskRunner

    return ProcessPoolTaskRunner(max_workers=workers)


def _dask(workers: int) -> Any:
    made: Any = _extra("prefect_dask", "dask").DaskTaskRunner
    address = os.environ.get("EVENFOLD_RUNNER_ADDRESS")
    alone = {"n_workers": workers, "threads_per_worker": 1, "dashboard_address": None}
    return made(address=address) if address else made(cluster_kwargs=alone)


def _ray(workers: int) -> Any:
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    made: Any = _extra("prefect_ray", "ray").RayTaskRunner
    address = os.environ.get("EVENFOLD_RUNNER_ADDRESS")
    return made(address=address) if address else made(init_kwargs={"num_cpus": workers, "include_dashboard": False})


_MADE = {"threads": _threads, "processes": _processes, "dask": _dask, "ray": _ray}


def _extra(module: str, name: str) -> Any:
    try:
        return import_module(module)
    except ModuleNotFoundError as error:
        raise SplitError(
            f"EVENFOLD_RUNNER is {name!r} and {error.name} is not installed; pip install 'evenfold[{name}]'."
        ) from None
