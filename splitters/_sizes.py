"""How many rows the two sides of a draw get."""

from __future__ import annotations

from math import ceil, floor

from ._base import is_real, is_whole
from ._errors import SplitError

Size = float | int | None


def sizes_of(n: int, test_size: Size, train_size: Size, default: float) -> tuple[int, int]:
    """Return (train rows, test rows) of ``n``: shares below 1, or whole numbers of rows.

    As in scikit-learn a share of test rows is rounded up and one of train rows down, and what is not given is what
    the other leaves; where neither is given, test gets the share ``default``. Raises SplitError where a side stays
    empty or both together are more than n.
    """
    if test_size is None and train_size is None:
        test_size = default
    n_test = None if test_size is None else _rows("test_size", test_size, n, up=True)
    n_train = None if train_size is None else _rows("train_size", train_size, n, up=False)
    n_test = n - (n_train or 0) if n_test is None else n_test
    n_train = n - n_test if n_train is None else n_train
    if n_train < 1 or n_test < 1 or n_train + n_test > n:
        raise SplitError(
            f"test_size={test_size} and train_size={train_size} make {n_train:,} train and {n_test:,} test rows "
            f"of {n:,}; choose sizes that leave each side a row and are no more than all."
        )
    return n_train, n_test


def _rows(name: str, size: float | int, n: int, up: bool) -> int:
    if is_whole(size):
        return int(size)
    if is_real(size) and 0 < size < 1:
        rows = float(size) * n  # 0.1 x 30 is a little above 3 in floats; that is no fourth row
        return ceil(rows - 1e-9) if up else floor(rows + 1e-9)
    raise SplitError(f"{name}={size!r}; choose a share above 0 and below 1, or a whole number of rows.")
