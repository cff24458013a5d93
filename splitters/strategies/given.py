"""Folds that follow from elsewhere: given labels and pairs, the splitter of another library, and the hash of a key."""

from __future__ import annotations

import copy
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import accumulate
from math import ceil
from typing import Any

import numpy as np
from evenfold.splitters.base import LabelSplitter, Pair, PairSplitter, refines
from evenfold.splitters.errors import SplitError, amount, cause_of, reason_of
from evenfold.splitters.kernels import bounded, key_hashes
from evenfold.splitters.naming import distribution_of
from evenfold.splitters.numbers import IntArray, Stream, present
from evenfold.splitters.rows import Needs, Rows, whole_numbers
from evenfold.splitters.untrusted import SPLITTER, check_params, refusal, resolve
from numpy.typing import NDArray

from .parts import PartSplitter, check_parts


class Predefined(LabelSplitter):
    """Folds as given: a column of whole numbers, 0..k-1 for the fold in which a row is tested.

    -1 is never tested (always trained on, as in scikit-learn's PredefinedSplit), -2 is locked and -3 excluded: both
    are in neither side of any pair. ``folds`` holds the labels; without it they are the rows' ``fixed`` column.

    Promises: the labels are the given ones. A missing label, a fold number that is skipped and a fold with nothing to
    train on are SplitErrors. O(n) for the labels, O(n) for each pair.
    """

    promises = frozenset({"disjoint", "as_given", "tested_once_at_most"})
    version = 2  # of a column: the target and the group are read, which new rows are dealt by

    def __init__(self, folds: Any = None) -> None:
        self.folds = folds

    @refines(LabelSplitter.by_position)
    def by_position(self) -> bool:
        """Return whether ``folds`` holds the labels, and not a column of the rows."""
        return self.folds is not None

    @refines(Needs(y="any", groups="optional", fixed=True))
    def needs(self) -> Needs:
        """The rows' fixed column, and what new rows are dealt by; nothing where ``folds`` holds the labels."""
        return Needs(y="any", groups="optional", fixed=True) if self.folds is None else Needs(y="ignored")

    def labels(self, rows: Rows, stream: Stream) -> IntArray:
        return self._given(rows.fixed)

    def _n_pairs(self, rows: Rows | None = None) -> int:
        fixed = None if rows is None else rows.fixed
        return 0 if self.folds is None and fixed is None else int(self._given(fixed).max()) + 1

    def _given(self, fixed: IntArray | None) -> IntArray:
        if isinstance(self.folds, str):
            raise SplitError(
                f"folds is {self.folds!r}, and takes labels; a column of them is named columns: {{fold: {self.folds}}} "
                f"(fold={self.folds!r}, --fold {self.folds}), and folds left out."
            )
        return whole_numbers(self.folds, "folds") if fixed is None else fixed

    def _check(self, rows: Rows) -> None:
        codes = self._given(rows.fixed)
        if codes.size != rows.n:
            raise SplitError(f"folds has {codes.size:,} labels for {rows.n:,} rows; pass one label per row.")
        if codes.min() < -3 or codes.max() < 0:
            raise SplitError(
                f"labels run from {codes.min()} to {codes.max()}; choose 0 and above for the fold that tests a row, "
                "-1 for never tested, -2 for locked, -3 for excluded."
            )
        skipped = np.setdiff1d(np.arange(min(int(codes.max()), rows.n + 1)), codes)
        if skipped.size:
            raise SplitError(f"no row has label {skipped[0]}, and labels go up to {codes.max()}; number them 0, 1, ...")
        if codes.max() == 0 and not (codes == -1).any():
            raise SplitError("every row is in fold 0, so there is nothing to train on; give some rows label -1 or 1.")


def valid_pair(train: Any, test: Any, n: int, whose: str) -> Pair:
    """Return (train, test) as int64 positions of 0..n-1; masks become positions.

    Raises SplitError that says what is wrong with ``whose``: shared rows, or positions that are none.
    """
    pair = _positions(train, n, whose), _positions(test, n, whose)
    shared = np.intersect1d(*pair)
    if shared.size:
        raise SplitError(f"{whose} put {shared.size:,} rows in both train and test; it cannot be used.")
    return pair


def _positions(places: Any, n: int, whose: str) -> IntArray:
    positions = np.asarray(places)
    if positions.dtype.kind == "b":
        if positions.size != n:
            raise SplitError(f"{whose} has a mask of {positions.size:,} values for {n:,} rows; pass one value per row.")
        positions = np.flatnonzero(positions)
    if positions.size and positions.dtype.kind not in "iu":
        raise SplitError(f"{whose} holds {positions.dtype} values, and no positions; it cannot be used.")
    outside = positions[(positions < 0) | (positions >= n)]
    if outside.size:
        what = f"{whose} names {amount(outside.size, 'row')} that the data lack (position {outside[0]:,} of {n:,} rows)"
        raise SplitError(f"{what}; pass the data whose rows they are, in their order.")
    return positions.astype(np.int64)


class PredefinedPairs(PairSplitter):
    """(train, test) pairs as given, each side a list of positions or a mask of booleans.

    For splits that no column of labels can say: a row that is trained on in some pairs only, or tested twice.

    Promises: both sides hold rows and share none; anything else is a SplitError. O(size of the pairs).
    """

    needs = Needs(y="ignored")
    by_position = True

    def __init__(self, given_pairs: Sequence[tuple[Any, Any]]) -> None:
        self.given_pairs = given_pairs

    def pairs(self, rows: Rows) -> Iterator[Pair]:
        return (valid_pair(*pair, rows.n, f"pair {i}") for i, pair in enumerate(self.given_pairs))

    def _n_pairs(self, rows: Rows | None = None) -> int:
        return len(self.given_pairs)

    def _check(self, rows: Rows) -> None:
        try:
            pairs = list(self.pairs(rows)) if self._n_pairs() else []
        except TypeError:  # also of an iterator, which has no length and would yield its pairs only once
            pairs = []
        if not pairs:
            raise SplitError("given_pairs holds no pairs of (train, test) positions; pass at least one.")
        for i, (train, test) in enumerate(pairs):
            if not (train.size and test.size):
                raise SplitError(f"pair {i} has {train.size:,} rows to train on and {test.size:,} to test; give both.")


class FromSklearn(PairSplitter):
    """The pairs of a scikit-learn-compatible splitter, theirs or a third party's.

    ``splitter`` is an instance, a class, or an import path such as ``sklearn.model_selection:TimeSeriesSplit`` with
    JSON ``params``. Where it can be seeded and is not, it gets ``random_state``. It sees y and groups as codes by
    first appearance (numbers as they are) and no features.

    Promises: no row is in both sides of a pair; a splitter that breaks this is a SplitError. As its code may change,
    the version names the installed distribution, pairs are stored and never made anew, and machines may differ.
    """

    portable = False

    def __init__(self, splitter: Any, params: Mapping[str, Any] | None = None, *, random_state: int = 0) -> None:
        self.splitter, self.params, self.random_state = splitter, params, random_state

    @refines(Needs(y="any", groups="optional"))
    def needs(self) -> Needs:
        """The target, and groups where scikit-learn does not say that the splitter leaves them unused."""
        routing = getattr(self.wrapped(), "get_metadata_routing", None)
        takes_groups = routing is None or "groups" in routing().split.requests
        return Needs(y="any", groups="optional" if takes_groups else False)

    @refines(PairSplitter.version)
    def version(self) -> str | int:
        """The installed distribution that the pairs come from, as ``name==version``."""
        return distribution_of(type(self.wrapped()))

    @refines(PairSplitter.by_position)
    def by_position(self) -> bool:
        """True of a splitter that holds folds or pairs given to scikit-learn, or that takes positions for times."""
        from sklearn.model_selection import PredefinedSplit, TimeSeriesSplit, check_cv  # which no other strategy needs

        return isinstance(self.wrapped(), (PredefinedSplit, TimeSeriesSplit, type(check_cv([]))))

    def wrapped(self) -> Any:
        """Return the splitter itself, seeded; raises SplitError where it does not import or is none."""
        if isinstance(self.splitter, str):
            check_params(self.splitter, self.params or {})
        # A copy, for a generator of random numbers that it holds goes on with each use.
        wrapped = resolve(self.splitter, SPLITTER) if isinstance(self.splitter, str) else copy.deepcopy(self.splitter)
        if isinstance(wrapped, type):
            try:
                wrapped = wrapped(**(self.params or {}))
            except (TypeError, ValueError) as error:
                what = f"{wrapped.__name__} does not accept its parameters ({refusal(error)})"
                raise SplitError(f"{what}; correct params.") from None
        if not callable(getattr(wrapped, "split", None)):
            raise SplitError(
                f"{self.splitter!r} has no split method; write params: {{splitter: sklearn.model_selection:KFold, "
                "params: {n_splits: 3}}, or pass a splitter."
            )
        params = wrapped.get_params() if hasattr(wrapped, "get_params") else vars(wrapped)
        if "random_state" in params and params["random_state"] is None and params.get("shuffle", True):
            wrapped = copy.copy(wrapped)
            wrapped.random_state = int(self.random_state)
        return wrapped

    def pairs(self, rows: Rows) -> Iterator[Pair]:
        return self.wrapped_pairs(rows.n, np.zeros((rows.n, 1)), rows.y, rows.groups)

    def wrapped_pairs(self, n: int, X: Any, y: Any, groups: Any) -> Iterator[Pair]:
        """Yield the wrapped splitter's pairs of ``n`` rows as it sees them, checked; SplitError where it refuses."""
        try:
            for train, test in self.wrapped().split(X, y, groups if self.needs.groups else None):
                yield valid_pair(train, test, n, "the wrapped splitter")
        except SplitError:
            raise
        except Exception as error:  # what a wrapped splitter raises is its own affair; here it refuses the rows
            raise SplitError(
                f"{self.splitter!r} cannot split these rows ({reason_of(error)}); change its params."
            ) from cause_of(error)

    def get_n_splits(self, X: Any = None, y: Any = None, groups: Any = None, **roles: Any) -> int:
        return int(self.wrapped().get_n_splits(X, y, groups))

    def _check(self, rows: Rows) -> None:
        next(self.pairs(rows), None)


class HashSplit(LabelSplitter):
    """Folds, or parts of given shares, that follow from the key alone.

    u = (first 13 hexadecimal digits of SHA-256(salt + "|" + key)) / 2^52, and the fold is floor(u x n_splits),
    computed in whole numbers. With ``parts`` (then ``n_splits`` is not read) a row is in the first part whose
    cumulative share is above u. The same folds in SQL, here DuckDB's with salt 'trial' and five folds::

        (('0x' || left(sha256('trial' || '|' || id), 13))::HUGEINT * 5) >> 52

    Promises: every row has one label, which depends on its key and on nothing else, so rows may come, go and change
    order and none moves. Sizes are as even as chance makes them: a share s of n rows is off by about
    sqrt(n s (1 - s)) rows. To keep groups whole, pass the group as the key. An empty fold is a SplitError.

    O(n), about a microsecond a row.
    """

    needs = Needs(y="ignored", key=True)

    def __init__(self, n_splits: int = 5, *, parts: Mapping[str, float] | None = None, salt: str = "") -> None:
        self.n_splits, self.parts, self.salt = n_splits, parts, salt

    @refines(LabelSplitter.promises | {"by_key_alone"})
    def promises(self) -> frozenset[str]:
        return (PartSplitter if self.parts else LabelSplitter).promises | {"by_key_alone"}

    def labels(self, rows: Rows, stream: Stream) -> NDArray[Any]:
        return self.labels_of(rows.key)

    def labels_of(self, key: Any) -> NDArray[Any]:
        """Return the fold or part of each key alone: for rows that arrive one by one, and never an empty-fold error."""
        key = present(key, "key")
        if not self.parts:
            return bounded(key_hashes(key, self.salt), self.n_splits)
        return np.array(list(self.part_codes().values()))[share_of_key(key, self.bin_shares().tolist(), self.salt)]

    def _check(self, rows: Rows) -> None:
        if self.parts:
            check_parts(self.parts, rows.n)
        else:
            super()._check(rows)
        if not isinstance(self.salt, str):
            raise SplitError(f"salt={self.salt!r}; choose a text.")
        if rows.key is None or self.fills(rows.n):  # no key is at hand where the parameters alone are checked
            return
        n_labels, n_filled = len(self.parts or ()) or self.n_splits, np.unique(self.labels_of(rows.key)).size
        if n_filled < n_labels:
            what = f"the hashes of these {rows.n:,} keys leave {n_labels - n_filled} of {n_labels} labels without rows"
            raise SplitError(f"{what}; pass more rows, choose fewer folds or another salt, or use KFold.")

    def fills(self, n: int) -> bool:
        """Return whether ``n`` keys leave any one label without rows once in e^64 times at most, whatever they are."""
        return bool(n * self.bin_shares().min() > 64)


def share_of_key(key: Any, shares: Iterable[float], salt: str) -> NDArray[np.int64]:
    """Return the number of the share, of those that sum to 1, into which each key falls."""
    # A share times 2^52 is exact, so comparing whole numbers here is comparing u with the share elsewhere.
    # The last edge is left out: shares may add up to a little less than 1, and the last part ends where u does.
    edges = [ceil(share * 2.0**52) for share in accumulate(shares)][:-1]
    return np.searchsorted(np.array(edges, dtype=np.uint64), key_hashes(key, salt) >> np.uint64(12), side="right")
