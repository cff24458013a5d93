"""Threads and memory of a fit."""

from __future__ import annotations

import sys
from contextlib import AbstractContextManager
from functools import lru_cache
from typing import Any

from threadpoolctl import ThreadpoolController


@lru_cache(maxsize=1)
def _pools() -> ThreadpoolController:
    return ThreadpoolController()  # looking for the loaded libraries takes milliseconds, and draws are many


def limited(threads: int) -> AbstractContextManager[Any]:
    """Return a context in which a fit uses ``threads`` OpenMP threads and one BLAS thread.

    Parallel fits with a full set of threads each would wait for one another; and one BLAS thread gives the same
    rounding whatever else runs.
    """
    limits: AbstractContextManager[Any] = _pools().limit(limits={"openmp": threads, "blas": 1})
    return limits


def peak_memory() -> float:
    """Return the most memory that this process has held so far, in MB; 0 where the system does not say."""
    try:
        import resource
    except ModuleNotFoundError:  # Windows
        return 0.0
    return round(
        resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / (1024 if sys.platform != "darwin" else 1024**2), 1
    )
