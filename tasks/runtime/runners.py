"""Where the tasks of a flow run: threads, processes, Dask or Ray, as a setting says."""

from __future__ import annotations

import ctypes
import os
import signal
import sys
from collections.abc import Callable
from typing import Any

from evenfold.splitters import SplitError
from evenfold.tasks.runtime.home import Settings


def task_runner() -> Any:
    """Return the Prefect task runner that the setting asks for.

    Threads and processes run ``EVENFOLD_WORKERS`` tasks at once. ``EVENFOLD_RUNNER_ADDRESS`` names a running Dask
    scheduler (tcp://host:8786) or Ray cluster (ray://host:10001); without it both start one of their own for the
    flow. Workers on other machines need evenfold installed and ``EVENFOLD_HOME`` or ``EVENFOLD_RESULTS`` on a path
    that all of them see.
    """
    settings = Settings.here()
    return _RUNNERS[settings.runner](settings)


def _threads(settings: Settings) -> Any:
    from prefect.task_runners import ThreadPoolTaskRunner

    return ThreadPoolTaskRunner(max_workers=settings.n_workers)


def begin_in_pool(parent: int) -> None:
    """Begin a worker of a pool: on Linux it is killed when its parent ends."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG
        if os.getppid() != parent:
            os._exit(1)


def _processes(settings: Settings) -> Any:
    from prefect.context import SettingsContext, get_settings_context
    from prefect.task_runners import ProcessPoolTaskRunner

    of_flow = get_settings_context()

    def as_in_the_flow() -> Any:
        """Begin the thread that sends on what workers tell; by itself it would start a server, which stays."""
        SettingsContext(profile=of_flow.profile, settings=of_flow.settings).__enter__()
        return lambda message_type, message_payload: (message_type, message_payload)

    return ProcessPoolTaskRunner(settings.n_workers, [as_in_the_flow], begin_in_pool, (os.getpid(),))


def _dask(settings: Settings) -> Any:
    try:
        from prefect_dask import DaskTaskRunner
    except ModuleNotFoundError as error:
        raise _extra_missing("dask", error) from None
    runner: Any = DaskTaskRunner
    alone = {"n_workers": settings.n_workers, "threads_per_worker": 1, "dashboard_address": None}
    return runner(address=settings.runner_address) if settings.runner_address else runner(cluster_kwargs=alone)


def _ray(settings: Settings) -> Any:
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    try:
        from prefect_ray import RayTaskRunner
    except ModuleNotFoundError as error:
        raise _extra_missing("ray", error) from None
    runner: Any = RayTaskRunner
    alone = {"num_cpus": settings.n_workers, "include_dashboard": False}
    return runner(address=settings.runner_address) if settings.runner_address else runner(init_kwargs=alone)


_RUNNERS: dict[str, Callable[[Settings], Any]] = {
    "threads": _threads, "processes": _processes, "dask": _dask, "ray": _ray
}  # fmt: skip


def _extra_missing(name: str, error: ModuleNotFoundError) -> SplitError:
    return SplitError(f"EVENFOLD_RUNNER is {name!r} and {error.name} is not installed; pip install 'evenfold[{name}]'.")
