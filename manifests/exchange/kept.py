"""What leaves for other tools: the rows of a manifest that were not deleted, their keys and their folds."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa
from evenfold.manifests.manifest import DELETED, Manifest
from evenfold.manifests.membership import Labels, Pairs
from evenfold.manifests.tables.canonical import amount, listed, verb
from evenfold.manifests.tables.read import read_table
from evenfold.splitters import SplitError
from numpy.typing import NDArray

FOLDS = "fold"  # the column of exports
Ranks = NDArray[np.int64]


def require_data(data: Any, to: str) -> None:
    """Raise SplitError where no data say in what order rows stand: their positions would be those of no frame."""
    if data is None:
        raise SplitError(
            f"{to} tells rows by their position, so the frame whose order they stand in is needed; give data (--data "
            "FILE), or export to csv, which names rows by their key."
        )


def in_order_of(manifest: Manifest, data: Any, folds: NDArray[Any]) -> NDArray[Any]:
    """Return the folds of the rows that are kept in the order of the rows of ``data``, which must be those."""
    lookup = manifest.lookup(data)
    positions, waiting = lookup.exact_rows()[kept_rows(manifest)], int(np.count_nonzero(lookup.waits))
    if waiting:
        wait = f"{amount(waiting, 'row')} of the data {verb(waiting, 'waits for its', 'wait for their')} target"
        raise SplitError(f"{wait} and {verb(waiting, 'has', 'have')} no fold; leave them out of the data.")
    back = lookup.rank.size - folds.size  # every row is known, so what is left are deleted rows that are back
    if back:
        are = verb(back, "is", "are")
        raise SplitError(f"{amount(back, 'row')} of the data {are} deleted in the manifest; extend it.")
    in_order = np.empty_like(folds)
    in_order[positions] = folds
    return in_order


def folds_of_kept(manifest: Manifest, repeat: int, to: str, least: int) -> NDArray[Any]:
    """Return the fold of every row that is kept; SplitError where a code is below ``least``."""
    labels = labels_of(manifest, to)
    manifest.split_number(0, repeat)
    folds = labels.column(repeat)[kept_rows(manifest)]
    unfit = folds[folds < least]
    if unfit.size:
        which = listed(f"{labels.code_name(code)} ({code})" for code in np.unique(unfit)[::-1].tolist())
        raise SplitError(
            f"{to} has no word for {amount(unfit.size, 'row')} {which}; it would train on or test them. Export to csv, "
            "and pass on the rows with a fold of 0 or more."
        )
    return np.asarray(folds)


def sides(manifest: Manifest, data: Any = None) -> Iterator[tuple[Ranks, Ranks, Ranks]]:
    """Yield the ranks that each split trains on, tests, and sets apart to calibrate by.

    None are set apart without such a share, or without the ``data`` whose groups, classes and times say which.
    """
    apart = data is not None and manifest.spec.calibration is not None
    cv = manifest.as_cv(read_table(data, types=manifest.spec.types), calibration=True) if apart else None
    for i, (train, test) in enumerate(map(manifest.in_use.pair, range(manifest.n_splits))):
        left, held_out = (train, train[:0]) if cv is None or cv.parted is None else cv.parted(i, train)
        yield left, test, held_out


def labels_of(manifest: Manifest, to: str) -> Labels:
    """Return the folds in use; SplitError where the manifest holds none."""
    if isinstance(manifest.in_use, Labels):
        return manifest.in_use
    remedy = "export to nnunet" if isinstance(manifest.in_use, Pairs) else "use a split into folds"
    title = f"{manifest.name} {manifest.version}"
    raise SplitError(f"{to} takes one fold a row, and {title} holds {manifest.kind}; {remedy}.")


def kept_rows(manifest: Manifest) -> NDArray[np.int64]:
    """Return the ranks of the rows that were not deleted."""
    return np.flatnonzero(manifest.status != DELETED)


def kept_keys(manifest: Manifest) -> pa.Table:
    """Return the keys of those rows; the position, as ``row``, where there is no key."""
    keys = manifest.keys if manifest.keys is not None else pa.table({"row": np.arange(manifest.n)})
    return keys.take(pa.array(kept_rows(manifest)))
