"""The bootstrap of whole groups: patients are drawn, and all their rows come along."""

from __future__ import annotations

import numpy as np

from ._errors import SplitError
from ._random import IntArray, Stream
from ._rows import Needs, Rows
from .bootstrap import Bootstrap


class GroupBootstrap(Bootstrap):
    """Resamples of as many groups as there are, with replacement; the groups left out are the test set.

    Promises: every row of a group is drawn equally often; test is every row that train lacks, so no group is on both
    sides; resample i does not depend on ``n_splits``. Train has as many *groups* as there are, not as many rows.
    A draw that leaves no group out is drawn again.

    O(n) a resample. Source: Davison and Hinkley (1997), Bootstrap methods and their application, section 3.8.
    """

    needs = Needs(y="ignored", groups=True)
    promises = (Bootstrap.promises - {"n_draws"}) | {"groups_whole", "draws_groups"}

    def prepare(self, rows: Rows) -> IntArray:
        """Return the group of each row."""
        assert rows.groups is not None
        return rows.groups

    def counts(self, groups: IntArray, stream: Stream) -> IntArray:
        """Return how often each row is drawn: as often as its group."""
        n_groups = int(groups.max()) + 1
        drawn = np.bincount(stream.below(n_groups, n_groups), minlength=n_groups)
        return self.counts(groups, stream) if drawn.all() else drawn[groups]

    def _check(self, rows: Rows) -> None:
        super()._check(rows)
        if rows.n_groups < 2:
            raise SplitError(f"all {rows.n:,} rows are one group; use Bootstrap, or a finer group column.")
