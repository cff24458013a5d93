"""How far the target of folds is from that of all rows, beside what random folds would give."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import log, sqrt

from evenfold.manifests.figures import BalanceReport, RowsBalance, points
from scipy.special import ndtri

MISSED = 0.05  # the share of random sets that may lie outside


def random_share(share: float, rows: float, of: int, sets: int = 1) -> float:
    """Return how far from a class share ``sets`` random sets of ``rows`` of ``of`` rows all stay, in 95 % of cases.

    By a normal law, drawn without replacement; several sets by Bonferroni's bound. At most the share's distance
    from 0 or 1.
    """
    spread = sqrt(share * (1 - share) / max(rows, 1.0) * max(1 - rows / of, 0.0))
    return min(float(ndtri(1 - MISSED / (2 * sets))) * spread, max(share, 1 - share))


def random_distance(rows: float, of: int, sets: int = 1) -> float:
    """Return the Kolmogorov-Smirnov distance from all rows that ``sets`` random sets all keep, in 95 % of cases.

    By the two-sided bound 2 exp(-2 rows d^2) of Kolmogorov's law, drawn without replacement; at most 1.
    """
    return min(sqrt(log(2 * sets / MISSED) / 2 * max(1.0 - rows / of, 0.0) / max(rows, 1.0)), 1.0)


@dataclass(frozen=True)
class TargetGap:
    """How far the target of folds and parts is from that of all rows (0 to 1), beside random ones of their sizes.

    ``worst`` is of the set that is furthest off for its size, ``random`` the bound for 95 % of random sets of that
    size; ``largest`` and ``largest_random`` are those of the set with the largest gap, which may be small.
    """

    worst: float
    random: float
    largest: float
    largest_random: float

    @property
    def within(self) -> bool:
        """Whether each set is no further off than random sets of its size."""
        return self.worst <= self.random

    @property
    def bound(self) -> str:
        """In words what random sets stay within that are as large as the one of the largest gap; then of the worst."""
        worst = f", and {points(self.random)} for the set that is {points(self.worst)} off"
        return points(self.largest_random) + ("" if self.worst == self.largest else worst)


def target_gap(balance: BalanceReport, of: Sequence[RowsBalance] | None = None) -> TargetGap | None:
    """Return the gap of class shares, or of the distribution of a number; None without a target.

    ``of``: the sets it is about, by default every fold and part.
    """
    places, n = [place for place in (balance.measured if of is None else of) if place.rows], balance.n_rows
    gaps = [(place.ks, random_distance(place.rows, n, len(places))) for place in places if place.ks is not None]
    if not gaps and balance.shares is not None:
        shares = balance.shares
        sets = len(places) * max(len(shares) - 1, 1)  # of two classes one says it all
        off = [[abs(a - b) for a, b in zip(place.shares or shares, shares, strict=True)] for place in places]
        limits = [max(random_share(share, place.rows, n, sets) for share in shares) for place in places]
        gaps = [(max(each), limit) for each, limit in zip(off, limits, strict=True)]
    if not gaps:
        return None
    worst, random = max(gaps, key=lambda gap: (gap[0] / max(gap[1], 1e-12), gap[0]))
    return TargetGap(worst, random, *max(gaps))
