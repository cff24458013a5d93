"""A strategy, and its three shapes. Everything that is not the algorithm is done here, once."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from math import fsum, gcd
from typing import Any, ClassVar, Literal, TypeVar

import numpy as np
from evenfold.splitters.kernels import DRAWS, LABELS, IntArray, Stream, rows_of_share
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, clone

from .errors import SplitError
from .numbers import check_count, is_real, is_whole, label_type, plain_numbers
from .rows import Needs, Rows

Pair = tuple[IntArray, IntArray]
Kind = Literal["labels", "draws", "pairs"]
ONE_OF: dict[str, str] = {"labels": "fold", "draws": "draw", "pairs": "split"}  # what people call one of its splits
ROLES = "key", "time", "label_end", "fixed", "coordinates"
T = TypeVar("T")


class _Refined:
    def __init__(self, declared: Any, of: Callable[[Any], Any]) -> None:
        self.declared, self.of = declared, of

    # A property, asked of the class, would answer with itself.
    def __get__(self, instance: Any, owner: type) -> Any:
        return self.declared if instance is None else self.of(instance)


def refines(declared: Any) -> Callable[[Callable[[Any], Any]], Any]:
    """Make a method a trait that parameters refine: the class answers ``declared``, an instance what it returns."""
    return lambda of: _Refined(declared, of)


def follows(inner: str, *traits: str, version: int = 1) -> Callable[[type[T]], type[T]]:
    """Make an instance's ``traits`` those of the strategy that ``inner()`` returns; the class keeps its own.

    Where the version is among them, it is one's own ``version`` before that of the strategy.
    """

    def of(trait: str) -> Callable[[Any], Any]:
        def theirs(self: Any) -> Any:
            value = getattr(getattr(self, inner)(), trait)
            return f"{version}/{value}" if trait == "version" else value

        return theirs

    def delegating(cls: type[T]) -> type[T]:
        for trait in traits:
            setattr(cls, trait, _Refined(getattr(cls, trait), of(trait)))
        return cls

    return delegating


class Splitter(BaseEstimator, ABC):  # type: ignore[misc]
    """A strategy: its parameters, and its traits, which the class declares and downstream asks for instead of names.

    ``needs`` and ``promises``; ``version`` of the algorithm; ``portable``: the same on every machine.
    ``grows``: new rows can join later without moving one (``evenfold.manifests.extend``).
    ``shares_out``: every fold or part has a share of the rows, to which its balance can be held.
    ``by_group_table``: all rows of a group get one label, which follows from the table of groups and classes alone.
    ``by_position``: its parameters name rows by their position, so it splits all the rows they were made for or none.
    A trait that depends on parameters is a method below ``@refines(what the class says)``.

    Speaks scikit-learn's protocol (``split``, ``get_n_splits``, ``get_params``, ``clone``). Like scikit-learn's
    splitters a bare strategy is positional: it sees rows by position, never by index label.
    ``split`` is pure: it changes neither its arguments nor the strategy nor the global random state.
    """

    kind: ClassVar[Kind]
    needs: Needs = Needs()
    promises: frozenset[str] = frozenset()
    version: str | int = 1
    portable: bool = True
    grows: bool = False
    shares_out: bool = False
    by_group_table: bool = False
    by_position: bool = False

    def __setattr__(self, name: str, value: Any) -> None:
        # Every parameter passes here: none is a number of NumPy's, which no arithmetic below nor JSON takes for one.
        super().__setattr__(name, plain_numbers(value))

    def split(self, X: Any = None, y: Any = None, groups: Any = None, **roles: Any) -> Iterator[Pair]:
        """Return the (train, test) pairs of row positions, two int64 arrays each; SplitError comes before the first.

        ``roles`` are the columns that scikit-learn has no place for: ``key``, ``time``, ``label_end``, ``fixed``,
        ``coordinates``.
        Raises SplitError at once, before the first pair is asked for.
        """
        return self.pairs(self.rows(X, y, groups, **roles))

    def get_metadata_routing(self) -> Any:
        """Return scikit-learn's request of metadata: the columns that ``needs`` declares, unless others were set."""
        request = super().get_metadata_routing()
        for name in ("groups", *ROLES):
            if getattr(self.needs, name) and request.split.requests.get(name) is None:
                request.split.add_request(param=name, alias=True)
        return request

    def rows(self, X: Any = None, y: Any = None, groups: Any = None, **roles: Any) -> Rows:
        """Return the rows as this strategy may see them, checked against its needs and parameters."""
        rows = self.prepared(Rows.of(X, y, groups, needs=self.needs, asked_by=type(self).__name__, **roles))
        self.check(rows)
        return rows

    def prepared(self, rows: Rows) -> Rows:
        """Return the rows after the strategy's own preparation, such as blocks of the map as groups."""
        return rows

    def check(self, rows: Rows) -> None:
        """Raise SplitError where the seed or the parameters do not fit the rows, before anything random happens."""
        seed = getattr(self, "random_state", 0)
        if not is_whole(seed) or seed < 0:
            raise SplitError(
                f"random_state={seed!r} cannot be repeated by anybody else; pass an integer of at least 0, such as 0."
            )
        self._check(rows)

    @abstractmethod
    def pairs(self, rows: Rows) -> Iterator[Pair]:
        """Yield the (train, test) pairs of checked rows."""

    def part_codes(self) -> dict[str, int]:
        """Return the code of each named part; none where there are folds, draws or pairs, which have no names."""
        return {}

    def trainable(self, rows: Rows, train: IntArray, test: IntArray) -> IntArray:
        """Return those of ``train`` that may be learnt from where ``test`` is tested: all, unless time parts them."""
        return train

    def get_n_splits(self, X: Any = None, y: Any = None, groups: Any = None, **roles: Any) -> int:
        """Return how many pairs ``split`` yields: ``n_splits``, where there is such a parameter, or as rows say."""
        n_splits = getattr(self, "n_splits", None)
        return self._n_pairs(self.rows(X, y, groups, **roles)) if n_splits is None else int(n_splits)

    def _n_pairs(self, rows: Rows) -> int:
        """Return how many pairs ``pairs`` yields of checked rows; as long as splitting, where nothing else tells."""
        return sum(1 for _ in self.pairs(rows))

    def _check(self, rows: Rows) -> None:
        """Raise SplitError where the parameters do not fit the rows; called before any random number is drawn."""

    def _stream(self, *path: int) -> Stream:
        return Stream(int(getattr(self, "random_state", 0)), *path)


class LabelSplitter(Splitter):
    """A strategy that gives each row one label: the fold in which it is tested.

    Promises: test sets are disjoint and together hold every row once; each train set is the rest.
    """

    kind = "labels"
    promises = frozenset({"disjoint", "exhaustive", "trains_on_rest"})
    grows = True
    shares_out = True
    n_splits: int

    @abstractmethod
    def labels(self, rows: Rows, stream: Stream) -> NDArray[Any]:
        """Return the fold of each row, integers of 0..n_splits-1."""

    def assign(self, X: Any = None, y: Any = None, groups: Any = None, **roles: Any) -> NDArray[Any]:
        """Return the fold of each row: int16, or int32 where there are more than 32,767 folds.

        The cheap way to a split: one small integer a row instead of n_splits lists of positions.
        """
        return self.decide(self.rows(X, y, groups, **roles))

    def another(self, seed: int) -> LabelSplitter:
        """Return the strategy by another seed, for a repeat: free to decide otherwise where one way is the best."""
        other: LabelSplitter = clone(self).set_params(random_state=seed)
        return other

    def decide(self, rows: Rows) -> NDArray[Any]:
        """Return the fold of each checked row, as ``assign`` does."""
        labels = self.labels(rows, self._stream(LABELS))
        return labels.astype(label_type(self._n_splits(rows)), copy=False)

    def pairs(self, rows: Rows) -> Iterator[Pair]:
        """Yield each fold's (rest, fold), or each part's (train, part); O(n) memory a pair, positions ascending."""
        parts = self.part_codes()
        tested = [code for code in parts.values() if code >= 0] if parts else range(self._n_splits(rows))
        return pairs_of_labels(self.decide(rows), tested, parts=bool(parts))

    def get_n_splits(self, X: Any = None, y: Any = None, groups: Any = None, **roles: Any) -> int:
        """Return the number of folds, or of parts that ``split`` tests on."""
        return self._n_tested_parts() or super().get_n_splits(X, y, groups, **roles)

    def _n_splits(self, rows: Rows) -> int:
        return int(self.n_splits)

    def _n_pairs(self, rows: Rows) -> int:
        return self._n_tested_parts() or self._n_splits(rows)

    def _n_tested_parts(self) -> int:
        return sum(code >= 0 for code in self.part_codes().values())

    def _check(self, rows: Rows) -> None:
        check_count("n_splits", self.n_splits, least=2)
        if self.n_splits > rows.n:
            raise SplitError(f"n_splits={self.n_splits} with {rows.n:,} rows; choose 2 to {rows.n:,}.")


class DrawSplitter(Splitter):
    """A strategy that draws each (train, test) anew from a stream of its own.

    Promises: no row is in both sides of a pair; split i does not depend on how many are asked for.
    """

    kind = "draws"
    promises = frozenset({"disjoint", "appendable"})
    n_splits: int

    def prepare(self, rows: Rows) -> Any:
        """Return what all draws of ``rows`` share, made once; ``draw`` gets it in place of the rows."""
        return rows

    def sizes(self, n: int) -> tuple[int, int] | None:
        """Return the (train rows, test rows) that a draw of ``n`` rows is to have; None where no size is asked for."""
        return None

    @abstractmethod
    def draw(self, rows: Any, stream: Stream) -> Pair:
        """Return one (train, test) from ``stream``; ``rows`` is what ``prepare`` returned."""

    def pairs(self, rows: Rows) -> Iterator[Pair]:
        """Yield the draws one by one; memory does not grow with their number."""
        prepared = self.prepare(rows)
        return (self.draw(prepared, self._stream(DRAWS, i)) for i in range(self.n_splits))

    def pair(self, rows: Rows, i: int) -> Pair:
        """Return draw ``i`` alone, in the time of one draw."""
        return self.draw(self.prepare(rows), self._stream(DRAWS, i))

    def _n_pairs(self, rows: Rows) -> int:
        return int(self.n_splits)

    def _check(self, rows: Rows) -> None:
        check_count("n_splits", self.n_splits, least=1)
        if rows.n < 2:
            raise SplitError(f"a draw needs a row on each side, and there is {rows.n} row; pass at least 2 rows.")


class PairSplitter(Splitter):
    """A strategy whose (train, test) pairs follow no label and no draw: they are stored as they are.

    Promises: no row is in both sides of a pair.
    """

    kind = "pairs"
    promises = frozenset({"disjoint"})


def pairs_of_labels(labels: NDArray[Any], tested: Sequence[int], *, parts: bool = False) -> Iterator[Pair]:
    """Yield (train, rows of the label) for each ``tested`` label, positions ascending, O(n) a pair.

    ``labels`` has one value per row, or a column per repeat: then the repeats follow one another.
    Train is every other row of label -1 and above; where labels are ``parts``, it is the rows of label -1 alone.
    """
    for column in labels.reshape(labels.shape[0], -1).T:
        for label in tested:
            # -2 is locked and -3 left out: such rows are on neither side.
            train = column == -1 if parts else (column >= -1) & (column != label)
            yield np.flatnonzero(train), np.flatnonzero(column == label)


# A splitter's default; read, never written.
TRAIN_AND_TEST: Mapping[str, float] = {"train": 0.8, "test": 0.2}


class PartSplitter(LabelSplitter):
    """A strategy that gives each row one of the named ``parts``: shares that sum to 1, or whole numbers of folds.

    ``{"train": 89, "test": 11}`` are 89 and 11 folds of a hundred, merged (``shares_of_parts``).

    Codes: train -1, validation 0, test -2, further parts 1, 2, ... in the given order; with no more than train and
    test, test is 0. Where none is called train, the one with the largest share is trained on (``trained_part``).
    ``assign`` returns the codes; ``split`` yields (train, part) for each part of code 0 and above, so a test part that
    stands beside a validation part is kept for the end.

    Promises: no row is in both sides of a pair; every row is in one part. Not that every row is tested.
    """

    promises = frozenset({"disjoint", "parts"})
    parts: Mapping[str, float]

    def part_codes(self) -> dict[str, int]:
        """Return the code of each part, in the given order."""
        return codes_of(self.parts)

    def _n_splits(self, rows: Rows) -> int:
        return self.get_n_splits()

    def _check(self, rows: Rows) -> None:
        check_parts(self.parts, rows.n)


def trained_part(parts: Mapping[str, float]) -> str:
    """Return the part that is trained on: train, or the largest of those that are not called validation or test.

    Raises SplitError where two are the largest, or all are called validation and test.
    """
    if "train" in parts:
        return "train"
    able = {name: share for name, share in parts.items() if name not in ("validation", "test")}
    largest = [name for name, share in able.items() if share == max(able.values())]
    if len(largest) != 1:
        why = f"{' and '.join(map(repr, largest))} are as large" if largest else "each is for judging by its name"
        raise SplitError(f"parts={dict(parts)!r} do not say which is trained on ({why}); call that one 'train'.")
    return largest[0]


def codes_of(parts: Mapping[str, float]) -> dict[str, int]:
    """Return the code of each part: the trained one -1, validation 0, test -2 (0 beside that alone), others 1, …"""
    train = trained_part(parts)
    codes = {train: -1, "validation": 0, "test": 0 if len(parts) == 2 else -2}
    others = [name for name in parts if name not in codes]
    return {name: codes[name] if name in codes else 1 + others.index(name) for name in parts}


def shares_of_parts(parts: Mapping[str, float]) -> dict[str, float]:
    """Return the share of each part: as it is given, or its part of all where whole numbers count folds to merge."""
    whole = fsum(parts.values()) if merged_folds(parts) else 1.0
    return {name: share / whole for name, share in parts.items()}


def merged_folds(parts: Mapping[str, float]) -> int:
    """Return how many folds are merged to parts, by the least whole numbers of the same shares; 0 for fractions."""
    counts = [int(count) for count in parts.values() if is_whole(count) and count >= 1]
    return sum(counts) // gcd(*counts) if len(counts) == len(parts) else 0


def part_sizes(parts: Mapping[str, float], n: int) -> IntArray:
    """Return how many of ``n`` rows each part gets: within 1 of share x n, n in all, rounded by ``rows_of_share``.

    Parts that are not trained on are served by their remainders, equal ones in the given order. Elementwise
    arithmetic, so the same on every machine.
    """
    trained = list(parts).index(trained_part(parts))
    shares = np.array(list(parts.values()), dtype=np.float64) / fsum(parts.values())
    tested = rows_of_share(fsum(np.delete(shares, trained)), n)
    sizes: IntArray = np.floor(shares * n + 1e-9).astype(np.int64)
    rest = shares * n - sizes
    rest[trained], sizes[trained] = -1.0, n - tested
    sizes[np.argsort(-rest, kind="stable")[: n - int(sizes.sum())]] += 1
    return sizes


def check_parts(parts: Any, n: int) -> None:
    """Raise SplitError unless ``parts`` are shares above 0 that sum to 1, one to train on, each worth a row of n.

    Whole numbers of folds are shares of their sum.
    """
    if not isinstance(parts, Mapping) or len(parts) < 2:
        raise SplitError(f"parts={parts!r}; name two or more with their shares, such as {_EXAMPLE}.")
    parts = shares_of_parts(parts) if merged_folds(parts) else parts
    unfit = {name: share for name, share in parts.items() if not (is_real(share) and 0 < share < 1)}
    if unfit:
        raise SplitError(f"parts={parts!r}: {unfit!r} is not a share; choose numbers above 0 and below 1.")
    total = fsum(parts.values())
    if abs(total - 1.0) > 1e-9:
        raise SplitError(f"parts={parts!r} sum to {total:.10g}; choose shares that sum to 1, such as {_EXAMPLE}.")
    trained_part(parts)
    name, least = min(parts.items(), key=lambda item: item[1])
    if least * n < 1.0 - 1e-9:
        raise SplitError(
            f"part {name!r} would get {least * n:.2g} of {n:,} rows; choose a share of at least {1 / n:.2g}, "
            f"or pass at least {int(np.ceil(1 / least)):,} rows."
        )


_EXAMPLE = "{'train': 0.8, 'test': 0.2}"
