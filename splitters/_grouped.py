"""What strategies that pack whole groups have in common."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import fields
from typing import Any, Literal

import numpy as np

from ._base import LabelSplitter, check_count
from ._bounds import PackReport, report_on
from ._cost import Aim, FloatArray, is_weight
from ._errors import SplitError
from ._pack import Effort, pack_to
from ._published import Published
from ._random import PACKING, IntArray, Stream
from ._rows import Needs, Rows
from ._table import table_to_pack

Optimiser = Literal["evenfold", "published"] | Mapping[str, Any]
STARTS = ("greedy", "random", "zero")


class GroupPacker(LabelSplitter):
    """A strategy that packs groups into bins of given shares, by rows and by classes at once."""

    needs = Needs(y="any", groups=True)
    size_weight: float | Literal["relative"]
    effort: Effort
    optimiser: Optimiser

    @abstractmethod
    def _shares(self) -> FloatArray:
        """Return the share of the rows that each bin should have."""

    def report(self, X: Any = None, y: Any = None, groups: Any = None) -> PackReport:
        """Return how even the split of these rows is, and how even any split of them could be.

        ``X`` may be checked rows. As long as splitting, and up to a few seconds for a proof where groups are few.
        """
        rows = X if isinstance(X, Rows) else self.rows(X, y, groups)
        aim = self._aim(rows)
        return report_on(aim, self._bins(aim, self._stream(PACKING)), self._stream(PACKING, 1))

    def judge(self, rows: Rows, labels: IntArray) -> PackReport:
        """Return the same report on labels that are decided already, one per row; every group has one label."""
        assert rows.groups is not None
        bin_of = {code: number for number, code in enumerate(self.part_codes().values())}
        bins = np.zeros(rows.n_groups, dtype=np.int64)
        bins[rows.groups] = [bin_of[code] for code in labels.tolist()] if bin_of else labels
        return report_on(self._aim(rows), bins, self._stream(PACKING, 1))

    def _aim(self, rows: Rows) -> Aim:
        sizes, table, weights = table_to_pack(rows)
        return Aim.of(table, self._shares(), sizes=sizes, weights=weights, size_weight=self.size_weight)

    def _bins(self, aim: Aim, stream: Stream) -> IntArray:
        """Return the bin of each group."""
        if self.optimiser == "evenfold":
            return pack_to(aim, stream, self.effort)
        given = {} if isinstance(self.optimiser, str) else {**self.optimiser}
        given.pop("name", None)
        return Published(**given).pack(aim, stream)

    def _bins_of_rows(self, rows: Rows) -> IntArray:
        assert rows.groups is not None
        return self._bins(self._aim(rows), self._stream(PACKING))[rows.groups]

    def _check_packing(self, rows: Rows, name: str, n_bins: int) -> None:
        """Raise SplitError where there are too few groups for ``n_bins``, or a parameter is none."""
        check_effort(self.effort)
        check_size_weight(self.size_weight)
        check_optimiser(self.optimiser)
        if rows.n_groups < 2:
            raise SplitError(f"all {rows.n:,} rows are one group; use KFold, or a finer group column.")
        if n_bins > rows.n_groups:
            raise SplitError(f"{name} with {rows.n_groups} groups; choose {_range(rows.n_groups)}.")


def check_effort(effort: Any) -> None:
    """Raise SplitError unless ``effort`` is a number of rounds or "max"."""
    if effort != "max":
        check_count("effort", effort, least=1)


def check_size_weight(size_weight: Any) -> None:
    """Raise SplitError unless ``size_weight`` is "relative" or a number of at least 0."""
    if size_weight != "relative" and not is_weight(size_weight):
        raise SplitError(f"size_weight={size_weight!r}; choose 'relative', or a number of at least 0, such as 1.0.")


def check_optimiser(optimiser: Any) -> None:
    """Raise SplitError unless ``optimiser`` is a name, or the published one with its parameters."""
    if optimiser in ("evenfold", "published"):
        return
    known = {"name", *(field.name for field in fields(Published))}
    if not isinstance(optimiser, Mapping) or optimiser.get("name") != "published" or not set(optimiser) <= known:
        raise SplitError(
            f"optimiser={optimiser!r}; choose 'evenfold', 'published', or the latter with its parameters, "
            "such as {'name': 'published', 'start': 'random', 'min_cost': 1e-7, 'max_retries': 500}."
        )
    if optimiser.get("start", "greedy") not in STARTS:
        raise SplitError(f"start={optimiser['start']!r}; choose 'greedy', 'random' or 'zero'.")
    if not is_weight(optimiser.get("min_cost", 0.0)):
        raise SplitError(f"min_cost={optimiser['min_cost']!r}; choose a number of at least 0, such as 1e-5.")
    check_count("max_retries", optimiser.get("max_retries", 0), least=0)


def _range(most: int) -> str:
    return "2" if most == 2 else f"2 or {most}" if most == 3 else f"2 to {most}"


def equal_shares(n: int) -> FloatArray:
    """Return ``n`` equal shares."""
    return np.full(n, 1.0 / n)
