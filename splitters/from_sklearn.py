"""Anybody's scikit-learn-compatible splitter, as one of ours."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from ._base import Pair, PairSplitter
from ._errors import SplitError
from ._given import valid_pair
from ._importing import distribution_of, import_named, refusal
from ._rows import Needs, Rows


class FromSklearn(PairSplitter):
    """The pairs of a scikit-learn-compatible splitter, theirs or a third party's.

    ``splitter`` is an instance, a class, or an import path such as ``sklearn.model_selection:TimeSeriesSplit`` with
    JSON ``params``. Where it can be seeded and is not, it gets ``random_state``. It sees y and groups as codes by
    first appearance (numbers as they are) and no features.

    Promises: positions are valid and no row is in both sides of a pair; a splitter that breaks this is a SplitError.
    Its code may change with its library, so the version names the installed distribution, the pairs are stored and
    never regenerated, and nothing is promised across machines.
    """

    needs = Needs(y="any", groups="optional")
    portable = False

    def __init__(self, splitter: Any, params: Mapping[str, Any] | None = None, *, random_state: int = 0) -> None:
        self.splitter = splitter
        self.params = params
        self.random_state = random_state

    @property
    def version(self) -> str:  # type: ignore[override]
        """The installed distribution that the pairs come from, as ``name==version``."""
        return distribution_of(type(self.wrapped()))

    def wrapped(self) -> Any:
        """Return the splitter itself, seeded; raises SplitError where it does not import or is none."""
        made = import_named(self.splitter) if isinstance(self.splitter, str) else self.splitter
        made = self._made(made) if isinstance(made, type) else made
        if not callable(getattr(made, "split", None)):
            raise SplitError(f"{self.splitter!r} has no split method; name a splitter such as sklearn's KFold.")
        return _seeded(made, int(self.random_state))

    def pairs(self, rows: Rows) -> Iterator[Pair]:
        """Yield the wrapped splitter's pairs as int64 positions, checked."""
        given = self._asked(rows)
        return (valid_pair(train, test, rows.n, "the wrapped splitter") for train, test in self.wrapped().split(*given))

    def get_n_splits(self, X: Any = None, y: Any = None, groups: Any = None, **roles: Any) -> int:
        """Return the wrapped splitter's own count."""
        return int(self.wrapped().get_n_splits(X, y, groups))

    def _asked(self, rows: Rows) -> tuple[Any, Any, Any]:
        return np.zeros((rows.n, 1)), rows.y, rows.groups

    def _made(self, maker: type) -> Any:
        try:
            return maker(**(self.params or {}))
        except (TypeError, ValueError) as error:
            why = refusal(error)
            raise SplitError(f"{maker.__name__} does not accept its parameters ({why}); correct params.") from None

    def _check(self, rows: Rows) -> None:
        try:
            next(iter(self.wrapped().split(*self._asked(rows))), None)
        except SplitError:
            raise
        except Exception as error:  # what a wrapped splitter raises is its own affair; here it refuses the rows
            raise SplitError(f"{self.splitter!r} cannot split these rows ({error}); change its params.") from error


def _seeded(made: Any, seed: int) -> Any:
    params = made.get_params() if hasattr(made, "get_params") else vars(made)
    unseeded = "random_state" in params and params["random_state"] is None and params.get("shuffle", True)
    if not unseeded:
        return made
    seeded = copy.copy(made)
    seeded.random_state = seed
    return seeded
