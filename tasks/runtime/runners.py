"""Where the tasks of a flow run: threads, processes, Dask or Ray, as a setting says."""

from __future__ import annotations

import ctypes
import os
import signal
import sys
from typing import Any

from evenfold.splitters import SplitError
from evenfold.tasks.runtime.home import Settings


def task_runner() -> Any:
    """Return the Prefect task runner that the setting asks for.

    Threads and processes run ``EVENFOLD_WORKERS`` tasks at once. ``EVENFOLD_RUNNER_ADDRESS`` names a Dask scheduler
    (tcp://host:8786) or Ray cluster (ray://host:10001); without it both start their own. Workers elsewhere need
    evenfold, and ``EVENFOLD_HOME`` or ``EVENFOLD_RESULTS`` on a path that all of them see.
    """
    settings = Settings.here()
    n_workers, address, runner = settings.n_workers, settings.runner_address, settings.runner
    if runner == "threads":
        from prefect.task_runners import ThreadPoolTaskRunner

        return ThreadPoolTaskRunner(max_workers=n_workers)
    if runner == "processes":
        return _processes(n_workers)
    cluster: Any
    try:
        if runner == "dask":
            import prefect_dask

            alone = {"n_workers": n_workers, "threads_per_worker": 1, "dashboard_address": None}
            cluster = prefect_dask.DaskTaskRunner
            return cluster(address=address) if address else cluster(cluster_kwargs=alone)
        os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
        import prefect_ray
    except ModuleNotFoundError as error:
        package = f"pip install 'evenfold[{runner}]'"
        raise SplitError(f"EVENFOLD_RUNNER is {runner!r} and {error.name} is not installed; {package}.") from None
    alone, cluster = {"num_cpus": n_workers, "include_dashboard": False}, prefect_ray.RayTaskRunner
    return cluster(address=address) if address else cluster(init_kwargs=alone)


def begin_in_pool(parent: int) -> None:
    """Begin a worker of a pool: on Linux it is killed when its parent ends."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG
        if os.getppid() != parent:
            os._exit(1)


def _processes(n_workers: int) -> Any:
    from prefect.context import SettingsContext, get_settings_context
    from prefect.task_runners import ProcessPoolTaskRunner

    of_flow = get_settings_context()

    def as_in_the_flow() -> Any:
        """Begin the thread that sends on what workers tell; by itself it would start a server, which stays."""
        SettingsContext(profile=of_flow.profile, settings=of_flow.settings).__enter__()
        return lambda message_type, message_payload: (message_type, message_payload)

    return ProcessPoolTaskRunner(n_workers, [as_in_the_flow], begin_in_pool, (os.getpid(),))
