"""A strategy, its three shapes, and the one that a name stands for: all that is not the algorithm is done here."""

from __future__ import annotations

import inspect
import sys
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache, partial
from typing import Any, ClassVar, Literal, TypeVar

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator

from .errors import SplitError, meant
from .kernels import codes_of, shares_of_parts
from .naming import code_of, import_path, params_of
from .numbers import DRAWS, LABELS, IntArray, Stream, check_count, digest_json, is_whole, label_type, plain_numbers
from .rows import ROLES, Needs, Rows, require_apart
from .untrusted import Role, refusal, resolve

Pair = tuple[IntArray, IntArray]
Kind = Literal["labels", "draws", "pairs"]
ONE_OF: dict[str, str] = {"labels": "fold", "draws": "draw", "pairs": "split"}  # what people call one of its splits
LOCKED, EXCLUDED = -2, -3  # labels of rows that are on neither side of any split
T = TypeVar("T")


class refines:
    """Make a method a trait that parameters refine: the class answers ``declared``, an instance what it returns."""

    def __init__(self, declared: Any) -> None:
        self.declared = declared

    def __call__(self, of: Callable[[Any], Any]) -> Any:
        """Take the method."""
        self.of = of
        return self

    def __get__(self, instance: Any, owner: type) -> Any:  # a property, asked of the class, would return itself
        return self.declared if instance is None else self.of(instance)


def follows(*traits: str, version: int = 1) -> Callable[[type[T]], type[T]]:
    """Make an instance's ``traits`` and methods those of the one that ``inner()`` returns; the class keeps its own.

    Where the version is among them, it is one's own ``version`` before that of the strategy.
    """

    def theirs(trait: str, strategy: Any) -> Any:
        value = getattr(strategy.inner(), trait)
        return f"{version}/{value}" if trait == "version" else value

    def delegating(cls: type[T]) -> type[T]:
        for trait in traits:
            setattr(cls, trait, refines(getattr(cls, trait, None))(partial(theirs, trait)))
        return cls

    return delegating


class Splitter(BaseEstimator, ABC):  # type: ignore[misc]
    """A strategy: its parameters, and its traits, which the class declares and downstream asks for instead of names.

    ``needs`` and ``promises``; ``version`` of the algorithm; ``portable``: the same on every machine.
    ``grows``: new rows can join later without moving one (``evenfold.manifests.extend``).
    ``shares_out``: every fold or part has a share of the rows, to which its balance can be held.
    ``by_group_table``: all rows of a group get one label, which follows from the table of groups and classes alone.
    ``by_position``: its parameters name rows by their position, so it splits all the rows they were made for or none.
    ``parts``: the share of each named part, None where there are folds, draws or pairs, which have no names.
    A trait that depends on parameters is a method below ``@refines(what the class says)``.

    Speaks scikit-learn's protocol: a bare strategy sees rows by position, never by index label, and ``split`` changes
    neither its arguments nor the strategy nor the global random state.
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
    parts: Mapping[str, float] | None = None

    def __setattr__(self, name: str, value: Any) -> None:
        # Every parameter passes here: none is a number of NumPy's, which no arithmetic below nor JSON takes for one.
        super().__setattr__(name, plain_numbers(value))

    def split(self, X: Any = None, y: Any = None, groups: Any = None, **roles: Any) -> Iterator[Pair]:
        """Return the (train, test) pairs of row positions, two int64 arrays each.

        ``roles`` are the columns that scikit-learn has no place for: ``key``, ``time``, ``label_end``, ``fixed``,
        ``coordinates``. Raises SplitError at once, before the first pair is asked for.
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
        """Return the rows as this strategy may see them, checked against its needs and parameters.

        An ``X`` that is ``Rows`` has been checked already, and stays as it is.
        """
        if isinstance(X, Rows):
            return X
        rows = self.prepared(Rows.of(X, y, groups, needs=self.needs, asked_by=type(self).__name__, **roles))
        self.check(rows)
        return rows

    def prepared(self, rows: Rows) -> Rows:
        """Return the rows after the strategy's own preparation, such as blocks of the map as groups."""
        return rows

    def check(self, rows: Rows) -> None:
        """Raise SplitError where the seed, groups or parameters do not fit the rows, before anything random happens."""
        seed = getattr(self, "random_state", 0)
        if not is_whole(seed) or seed < 0:
            raise SplitError(
                f"random_state={seed!r} cannot be repeated by anybody else; pass an integer of at least 0, such as 0."
            )
        if self.needs.groups is True and "groups_whole" in self.promises:
            if rows.entities is not None:
                require_apart(rows.entities, int(rows.group_sizes.max()), rows.n)
            if rows.n_groups < 2:
                raise SplitError(f"all {rows.n:,} rows are one group; use KFold, or a finer group column.")
        self._check(rows)

    @abstractmethod
    def pairs(self, rows: Rows) -> Iterator[Pair]:
        """Yield the (train, test) pairs of checked rows."""

    def part_codes(self) -> dict[str, int]:
        """Return the code of each named part; SplitError where ``parts`` holds something else than shares by name."""
        if not isinstance(self.parts, Mapping | None):
            raise SplitError(
                f"parts={self.parts!r}; name two or more with their shares, such as {{'train': 0.8, 'test': 0.2}}, or "
                "give a parameter of your own that means something else another name."
            )
        return codes_of(self.parts) if self.parts else {}

    def trainable(self, rows: Rows, train: IntArray, test: IntArray) -> IntArray:
        """Return those of ``train`` that may be learnt from where ``test`` is tested: all, unless time parts them."""
        return train

    def get_n_splits(self, X: Any = None, y: Any = None, groups: Any = None, **roles: Any) -> int:
        """Return how many pairs ``split`` yields; rows are looked at where the parameters alone do not tell."""
        return self._n_pairs() or self._n_pairs(self.rows(X, y, groups, **roles))

    def _n_pairs(self, rows: Rows | None = None) -> int:
        """Return how many pairs ``pairs`` yields of checked rows; without, of any rows, 0 where it depends on them."""
        n_splits = getattr(self, "n_splits", None)
        if n_splits is not None:
            return int(n_splits)
        return 0 if rows is None else sum(1 for _ in self.pairs(rows))

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
    takes_best = True  # where few ways are good, the best one; a repeat takes another one

    @abstractmethod
    def labels(self, rows: Rows, stream: Stream) -> NDArray[Any]:
        """Return the fold of each row, integers of 0..n_splits-1."""

    def bin_shares(self) -> NDArray[np.float64]:
        """Return the share of the rows that each fold, or each part in the given order, should have."""
        if self.parts:
            return np.array([*shares_of_parts(self.parts).values()])
        return np.full(self.n_splits, 1.0 / self.n_splits)

    def assign(self, X: Any = None, y: Any = None, groups: Any = None, **roles: Any) -> NDArray[Any]:
        """Return the fold of each row: int16, or int32 where there are more than 32,767 folds."""
        labels = self.labels(self.rows(X, y, groups, **roles), self._stream(LABELS))
        return labels.astype(label_type(int(labels.max()) + 1), copy=False)

    def pairs(self, rows: Rows) -> Iterator[Pair]:
        """Yield each fold's (rest, fold), or each part's (train, part); O(n) memory a pair, positions ascending."""
        labels, parts = self.assign(rows), self.part_codes()
        n_folds = self._n_pairs() * len(labels) // labels.size  # of one repeat; 0 where the rows decide it
        return pairs_of_labels(labels, codes_tested(labels, parts, n_folds), parts=bool(parts))

    def _n_pairs(self, rows: Rows | None = None) -> int:
        number = sum(code >= 0 for code in self.part_codes().values()) or getattr(self, "n_splits", 0)
        return int(number) if number or rows is None else int(self.assign(rows).max()) + 1

    def _check(self, rows: Rows) -> None:
        if hasattr(self, "n_splits"):  # else as many as rows or groups make
            check_count("n_splits", self.n_splits, least=2, most=rows.n, among=f"{rows.n:,} rows")


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
        """Return the (train, test) rows that a draw of ``n`` is to have, None where no size is asked for; or raise."""
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

    def _check(self, rows: Rows) -> None:
        check_count("n_splits", self.n_splits, least=1)
        if rows.n < 2:
            raise SplitError(f"a draw needs a row on each side, and there is {rows.n} row; pass at least 2 rows.")
        self.sizes(rows.n)


class PairSplitter(Splitter):
    """A strategy whose (train, test) pairs follow no label and no draw: they are stored as they are.

    Promises: no row is in both sides of a pair.
    """

    kind = "pairs"
    promises = frozenset({"disjoint"})

    def _require_training(self, rows: Rows, remedy: str) -> None:
        """Raise SplitError, which ends in the remedy, where a split leaves out all that it does not test."""
        for split, (train, test) in enumerate(self.pairs(rows)):
            if not train.size:
                raise SplitError(
                    f"split {split} has nothing to train on: none of the {rows.n - test.size:,} rows that it does not "
                    f"test may be learnt from; {remedy}."
                )


def codes_tested(labels: NDArray[Any], parts: Mapping[str, int], n_folds: int = 0) -> Sequence[int]:
    """Return the codes that are tested: of parts those of 0 and above, else every fold, ``n_folds`` at least."""
    return [code for code in parts.values() if code >= 0] or range(max(int(labels.max()) + 1, n_folds))


def pairs_of_labels(labels: NDArray[Any], tested: Sequence[int], *, parts: bool = False) -> Iterator[Pair]:
    """Yield (train, rows of the label) for each ``tested`` label, positions ascending, O(n) a pair.

    ``labels`` has one value per row, or a column per repeat, which follow one another. Train is every other row of
    label -1 and above; where labels are ``parts``, it is the rows of label -1 alone.
    """
    for column in labels.reshape(labels.shape[0], -1).T:
        for label in tested:
            # LOCKED and EXCLUDED, below -1, are on neither side.
            train = column == -1 if parts else (column >= -1) & (column != label)
            yield np.flatnonzero(train), np.flatnonzero(column == label)


@cache
def all_strategies() -> dict[str, type[Splitter]]:
    """Return every exported strategy by its name."""
    things = inspect.getmembers(sys.modules["evenfold.splitters"], inspect.isclass)
    return {name: thing for name, thing in things if issubclass(thing, Splitter) and not inspect.isabstract(thing)}


def strategy_of(value: Any, random_state: int = 0) -> Splitter:
    """Return the strategy that ``value`` is or names.

    A name comes as ``{"strategy": "KFold", "params": {"n_splits": 5}}``; a strategy of your own is named by its
    import path, ``package.module:Name``. One whose parameters hold no random_state takes this one. Raises SplitError
    that names the nearest strategies, and for a parameter that it does not have or cannot do without.
    """
    if isinstance(value, Splitter):
        return value
    if not isinstance(value, Mapping) or "strategy" not in value or set(value) - {"strategy", "params"}:
        such = "KFold(5), or {'strategy': 'KFold', 'params': {'n_splits': 5}}"
        raise SplitError(f"{value!r} is not a strategy; pass one, such as {such}.")
    name, params, strategies = str(value["strategy"]), value.get("params") or {}, all_strategies()
    if ":" not in name and name not in strategies:
        hint = meant(name, strategies) or f"choose {', '.join(strategies)}."
        raise SplitError(f"there is no strategy {name!r}; {hint}")
    strategy: type[Splitter] = resolve(name, STRATEGY) if ":" in name else strategies[name]
    parameters = parameters_of(strategy)
    for each in params:
        if each not in parameters:
            hint = meant(each, parameters, most=1) or f"it has {', '.join(sorted({*parameters} - {'random_state'}))}."
            raise SplitError(f"{strategy.__name__} has no parameter {each!r}; {hint}")
    params = ({"random_state": random_state} if "random_state" in parameters else {}) | dict(params)
    needed = [each for each, default in parameters.items() if default is inspect.Parameter.empty]
    missing = sorted({*needed} - {*params})
    if missing:
        names, them = " and ".join(missing), "it" if len(missing) == 1 else "them"
        cure = f"write params: {{{missing[0]}: ...}}, or --param {missing[0]}=..."
        raise SplitError(f"{strategy.__name__} needs {names}, and nothing is given for {them}; {cure}")
    try:
        return strategy(**params)
    except TypeError as error:
        raise SplitError(f"{strategy.__name__} cannot be made: {refusal(error)}.") from None


@cache
def parameters_of(strategy: type[Splitter]) -> dict[str, Any]:
    """Return the default of each parameter of a strategy, ``inspect.Parameter.empty`` where it has none."""
    parameters = inspect.signature(strategy).parameters.values()
    return {each.name: each.default for each in parameters if each.kind is not each.VAR_KEYWORD}


STRATEGY = Role(
    "a strategy", (),
    "subclass LabelSplitter, DrawSplitter or PairSplitter; a splitter of scikit-learn's kind goes into FromSklearn, "
    "params: {splitter: package.module:Name} (--strategy FromSklearn --param splitter=package.module:Name)",
    base=Splitter,
)  # fmt: skip


def strategy_recipe(value: Any) -> dict[str, Any]:
    """Return ``{"strategy": name, "params": {...}}`` of a strategy, a splitter of scikit-learn's kind, or pairs.

    What names one already stays as it is. Raises SplitError for anything else, and for what no recipe can hold.
    """
    if isinstance(value, (str, Mapping)):
        return {"strategy": value} if isinstance(value, str) else dict(value)
    kind = value if isinstance(value, type) else type(value)
    own = issubclass(kind, Splitter)
    if own or hasattr(kind, "split"):
        params = {} if value is kind else params_of(value, strategy_recipe)
        name = kind.__name__ if all_strategies().get(kind.__name__) is kind else import_path(kind)
        if own:
            return {"strategy": name, "params": params}
        return {"strategy": "FromSklearn", "params": {"splitter": name} | ({"params": params} if params else {})}
    try:
        pairs = [[np.asarray(side) for side in pair] for pair in value]
    except (TypeError, ValueError):
        raise SplitError(
            f"{value!r} is no strategy; pass one, its name, or pairs of (train, test) positions."
        ) from None
    positions = [[(np.flatnonzero(side) if side.dtype == bool else side).tolist() for side in pair] for pair in pairs]
    return {"strategy": "PredefinedPairs", "params": {"given_pairs": positions}}


def strategy_code(name: str | None, params: Mapping[str, Any]) -> str:
    """Return ``+`` and a digest of the user's own code behind a strategy, empty where there is none."""
    code = modules_of_strategy(name, params)
    return f"+{digest_json(code)[:16]}" if code else ""


def modules_of_strategy(name: str | None, params: Mapping[str, Any]) -> dict[str, str]:
    """Return the digests of the user's own modules behind a strategy, what it wraps and those in its parameters."""
    paths: list[str] = []
    strategies: list[tuple[str, Any]] = [(str(name), params)]
    for strategy, of in strategies:  # which those in their parameters join
        if not isinstance(of, Mapping):
            continue
        paths += [strategy] if ":" in strategy else []
        paths += [of["splitter"]] if isinstance(of.get("splitter"), str) else []
        parts = [part for part in of.values() if isinstance(part, Mapping)]
        strategies += [(str(part.get("strategy")), part.get("params", {})) for part in parts]
    return code_of(*paths) if paths else {}
