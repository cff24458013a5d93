"""Dask as an engine: whatever client is current, or threads where there is none."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, TypeVar

from evenfold.manifests.tables.addresses import Source
from evenfold.splitters import SplitError

from .partitioned import Partitioned

T = TypeVar("T")
R = TypeVar("R")


class Dask(Partitioned):
    """Partitions of a Dask DataFrame, or row groups of files, on the workers of the current client."""

    def __init__(self) -> None:
        try:
            import dask.dataframe
        except ImportError as error:
            raise SplitError(f"engine='dask' needs Dask ({error}); install evenfold[dask].") from None
        self._dask: Any = dask

    def parts(self, source: Source) -> list[Any]:
        """Return the partitions of a Dask DataFrame, which its workers compute, or the row groups of files."""
        if hasattr(source.native, "to_delayed"):
            return list(source.native.to_delayed())
        return super().parts(source)

    def map(self, function: Callable[[T], R], parts: Iterable[T]) -> Iterator[R]:
        """Yield ``function`` of each part; the cluster works on all at once, and rows stay on its disks."""
        # Not pure: a task writes files, so one with equal arguments must not be taken for it.
        tasks = [self._dask.delayed(function, pure=False)(part) for part in parts]
        return iter(self._dask.compute(*tasks))
