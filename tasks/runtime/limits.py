"""Runners of fits, threads, processes, Dask or Ray; and what each fit is limited to."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Iterator
from contextvars import ContextVar
from typing import Any

from evenfold.estimates.models.limits import begin_worker, sharing
from evenfold.splitters import SplitError
from evenfold.splitters.process import cores, overlapping

from .home import Settings

ALONE: ContextVar[bool] = ContextVar("evenfold_alone", default=False)


@contextlib.contextmanager
def limited(cells: int) -> Iterator[None]:
    """Let a fit to a table of ``cells`` use its share of the threads and one BLAS thread in the block, ``unlogged``.

    All fits at once use each core once that ``OMP_NUM_THREADS``, ``LOKY_MAX_CPU_COUNT``, the processor's affinity and
    the container's quota leave.
    """
    share = cores() if ALONE.get() else max(1, cores() // Settings.here().n_workers)
    setting = os.environ.get("OMP_NUM_THREADS", "").partition(",")[0]
    share = min(share, int(setting)) if setting.isdecimal() and int(setting) else share
    with sharing(cells, share), unlogged():
        yield


@overlapping
def unlogged() -> Iterator[None]:
    """Keep fits of ours out of MLflow's autologging, which is off in the whole process until all blocks end."""
    autologging: Any = sys.modules.get("mlflow.utils.autologging_utils")
    # In the settings of each library: to leave MLflow's own block would turn all on inside one of the user's.
    settings = [] if autologging is None else list(autologging.AUTOLOGGING_INTEGRATIONS.values())
    on = [each for each in settings if not each.get("disable", True)]
    for each in on:
        each["disable"] = True
    try:
        yield
    finally:
        for each in on:
            each["disable"] = False


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
    alone: dict[str, Any]
    try:
        if runner == "dask":
            import dask
            from prefect_dask import DaskTaskRunner as Cluster

            dask.config.set({"distributed.worker.daemon": False})  # a daemon may not start what a time limit kills
            alone = {"cluster_kwargs": {"n_workers": n_workers, "threads_per_worker": 1, "dashboard_address": None}}
        else:
            os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
            from prefect_ray import RayTaskRunner as Cluster

            alone = {"init_kwargs": {"num_cpus": n_workers, "include_dashboard": False}}
    except ModuleNotFoundError as error:
        package = f"pip install 'evenfold[{runner}]'"
        raise SplitError(f"EVENFOLD_RUNNER is {runner!r} and {error.name} is not installed; {package}.") from None
    return Cluster(address=address) if address else Cluster(**alone)


def _processes(n_workers: int) -> Any:
    from prefect.context import SettingsContext, get_settings_context
    from prefect.task_runners import ProcessPoolTaskRunner

    of_flow = get_settings_context()

    def as_in_the_flow() -> Any:
        """Begin the thread that sends on what workers tell; by itself it would start a server, which stays."""
        SettingsContext(profile=of_flow.profile, settings=of_flow.settings).__enter__()
        return lambda message_type, message_payload: (message_type, message_payload)

    return ProcessPoolTaskRunner(n_workers, [as_in_the_flow], begin_worker, (os.getpid(),))
