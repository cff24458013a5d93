"""Memory: how much is free, what a table would take of it, and what is said of one that takes more."""

from __future__ import annotations

import os
import re
from collections.abc import Collection
from pathlib import Path
from typing import Any

from evenfold.manifests.tables.canonical import amount
from evenfold.manifests.tables.read import source_of
from evenfold.splitters import SplitError

# What deciding takes in memory, measured at 10 million rows, as a multiple of the columns that are read.
TIMES_THE_COLUMNS = 6
TIMES_THE_TABLE = 4  # as it is read, in key order, as a frame, and as an array


class NoRoomError(SplitError):
    """A table takes more memory than there is."""


def bytes_of_memory(memory: str | int | None) -> int:
    """Return ``memory`` ("2GB", "500 MB", bytes) as bytes; a quarter of what is free where it is None."""
    if memory is None:
        return free_memory() // 4
    size = re.fullmatch(r"\s*([0-9]+\.?[0-9]*|\.[0-9]+)\s*([kMGT]?)i?B?\s*", str(memory), re.IGNORECASE)
    if not size:
        raise SplitError(f"memory={memory!r}; write a size such as '2GB'.")
    powers = {"": 0, "k": 1, "m": 2, "g": 3, "t": 4}
    return int(float(size[1]) * 1024 ** powers[size[2].lower()])


def room_of(memory: str | int | None) -> int:
    """Return how many bytes may be held at once: ``memory``, or all that is free where it is None."""
    return free_memory() if memory is None else bytes_of_memory(memory)


def free_memory() -> int:
    """Return how many bytes of memory this process may still take: of the machine, or of its control group."""
    try:
        lines = Path("/proc/meminfo").read_text().splitlines()
        free = [int(next(line for line in lines if line.startswith("MemAvailable")).split()[1]) * 1024]
    except (OSError, StopIteration):
        free = [int(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")) // 2]
    for limit, used in (
        ("memory.max", "memory.current"),
        ("memory/memory.limit_in_bytes", "memory/memory.usage_in_bytes"),
    ):
        try:
            root = Path("/sys/fs/cgroup")
            free.append(int((root / limit).read_text()) - int((root / used).read_text()))
        except (OSError, ValueError):  # no such group, or no limit
            continue
    return max(min(free), 0)


def fits_in_memory(data: Any, columns: Collection[str] | None = None, memory: str | int | None = None) -> bool:
    """Return whether ``columns`` of data (all where None) can be worked on within ``memory``, none of them on disk.

    False where only a reader to the end would know how many rows there are.
    """
    source = source_of(data)
    rows, each = source.about_rows, source.bytes_a_row(columns or source.names)
    return rows is not None and rows * each * TIMES_THE_COLUMNS <= bytes_of_memory(memory)


def require_rows(
    n: int, bytes_a_row: int, what: str, memory: str | int | None = None, of: str = "rows", instead: str = ""
) -> None:
    """Raise NoRoomError where what is held of ``n`` rows takes more than ``memory`` (all that is free where None).

    Or of as many of something else that there is one of a row at most. ``instead``: what takes less, for the sentence.
    """
    limit = room_of(memory)
    if n * bytes_a_row > limit:
        size, allowed = (f"{size / 2**30:.3g} GB" for size in (n * bytes_a_row, limit))
        raise NoRoomError(
            f"{what} looks at {n:,} {of} at once, which takes about {size}, and {allowed} are "
            f"{'free' if memory is None else 'allowed'}; allow more memory{instead}."
        )


def require_room(data: Any, memory: str | int | None = None, columns: Collection[str] | None = None) -> None:
    """Raise NoRoomError where ``columns`` of ``data`` would take more than ``memory`` (all that is free) in a model.

    All columns where None are named. The rows of CSV are judged by the length of its first lines, compressed or not; a
    table of which only a reader to the end would know them, such as a lazy frame, is not judged.
    """
    source = source_of(data)
    names = [name for name in source.names if columns is None or name in columns]
    if (rows := source.about_rows) is not None:
        fewer = ", or pass a table with fewer rows" + (", or name fewer features" if columns is None else "")
        each = source.bytes_a_row(names) * TIMES_THE_TABLE
        require_rows(rows, each, f"a model of {amount(len(names), 'column')}", memory, instead=fewer)
