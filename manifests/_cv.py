"""A manifest bound to the rows of one frame, as scikit-learn wants it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np
from evenfold.splitters import Pair, SplitError
from numpy.typing import NDArray

if TYPE_CHECKING:
    from ._manifest import Manifest


class ManifestCV:
    """The splits of a manifest as positions of one frame's rows: ``split`` and ``get_n_splits``."""

    def __init__(self, manifest: Manifest, positions: NDArray[np.int64], index: Any = None) -> None:
        self.manifest = manifest
        self.index = index
        self.positions = positions
        self.n_rows = int(positions.max(initial=-1)) + 1

    def split(self, X: Any = None, y: Any = None, groups: Any = None) -> Iterator[Pair]:
        """Yield (train, test) positions; SplitError where X or y has another number or order of rows than the frame.

        The order can be seen where the frame and X (or y) both have a pandas index without repeats.
        """
        for name, given in (("X", X), ("y", y)):
            rows = self.n_rows if given is None else _length(given)
            if rows != self.n_rows:
                raise SplitError(
                    f"{name} has {rows:,} rows and the manifest was joined to {self.n_rows:,}; "
                    "call as_cv with the frame that X comes from."
                )
            self._require_order(name, getattr(given, "index", None))
        return ((self.positions[train], self.positions[test]) for train, test in self.manifest.pairs())

    def _require_order(self, name: str, index: Any) -> None:
        """Raise SplitError where the index holds the frame's labels in another order: rows would be in wrong folds."""
        if self.index is None or not hasattr(index, "get_indexer") or index.equals(self.index) or not index.is_unique:
            return
        place = index.get_indexer(self.index)
        if (place < 0).any():
            return  # other labels, as after reset_index, say nothing of the order
        moved = int(np.count_nonzero(place != np.arange(len(place))))
        raise SplitError(
            f"{moved:,} rows of {name} stand elsewhere than in the frame that the manifest was joined to; "
            "call as_cv with the frame that X comes from, in the order of X."
        )

    def get_n_splits(self, X: Any = None, y: Any = None, groups: Any = None) -> int:
        """Return the number of splits."""
        return self.manifest.n_splits


def _length(values: Any) -> int:
    shape = getattr(values, "shape", None)  # sparse matrices have a shape and no len
    return int(shape[0]) if shape else len(values)
