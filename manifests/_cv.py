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

    def __init__(self, manifest: Manifest, positions: NDArray[np.int64]) -> None:
        self.manifest = manifest
        self.positions = positions
        self.n_rows = int(positions.max(initial=-1)) + 1

    def split(self, X: Any = None, y: Any = None, groups: Any = None) -> Iterator[Pair]:
        """Yield (train, test) positions; SplitError where X or y has another number of rows than the frame."""
        for name, given in (("X", X), ("y", y)):
            rows = self.n_rows if given is None else _length(given)
            if rows != self.n_rows:
                raise SplitError(
                    f"{name} has {rows:,} rows and the manifest was joined to {self.n_rows:,}; "
                    "call as_cv with the frame that X comes from."
                )
        return ((self.positions[train], self.positions[test]) for train, test in self.manifest.pairs())

    def get_n_splits(self, X: Any = None, y: Any = None, groups: Any = None) -> int:
        """Return the number of splits."""
        return self.manifest.n_splits


def _length(values: Any) -> int:
    shape = getattr(values, "shape", None)  # sparse matrices have a shape and no len
    return int(shape[0]) if shape else len(values)
