"""The rule by which a candidate's recipe replaces the champion's; its error over a year of looks is known."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date, timedelta
from functools import lru_cache, partial
from math import isclose, isfinite, pi, sqrt
from typing import Annotated, Literal

import numpy as np
import pandas as pd
from evenfold.estimates.comparison import Comparison, p_of
from evenfold.estimates.intervals.methods import corrected_resampled_t, scatter
from evenfold.estimates.metrics.record import Floats
from pydantic import Field
from scipy import stats
from scipy.optimize import bisect
from scipy.special import ndtr

ROLES = "the champion", "the candidate"  # the names of the two in a comparison
# The chance, over any twelve months of one name, that a recipe that is no better is promoted.
YEARLY = 0.10
YEAR = timedelta(days=365)
RULE = (
    "The champion's recipe stays unless the candidate is shown to be better: the lower end of the difference, at the "
    "level that is left of a yearly chance of {budget:.0%} of promoting one that is no better, must lie above "
    "{least:g}. Each comparison spends a fifth of what the last twelve months have left (a 24th of the whole, where "
    "that is more), so that looking every month does not add up; looks at the same two recipes while rows are added "
    "are one experiment, whose later looks do not pay again for what the earlier ones have seen. Where there are rows "
    "that the champion has not seen, the winner is refitted and becomes the champion."
)
# The grid on which the distribution of a look's statistic is followed, in standard errors.
LEAST = -6.0
GRID, STEP = np.linspace(LEAST, 9.0, 501, retstep=True)
Positive = Annotated[float, Field(ge=0, allow_inf_nan=False)]  # what is read back from a record is held to it
OTHER_WEIGHTS = (
    "Scores of draws are not tested where their weights differ ({} of the champion, {} of the candidate), which makes "
    "two metrics; compare recipes with the same weights, or split into folds, which are scored alike."
)


@dataclass(frozen=True)
class EarlierLook:
    """An earlier comparison of a name, and the error that it spent; ``pair`` names its two recipes.

    ``information``: 1/se^2; ``bound``: how many standard errors above 0 the difference had to be; None without.
    """

    day: date
    error: float
    pair: str = ""
    information: float | None = None
    bound: float | None = None
    promoted: bool = False

    @classmethod
    def of(cls, decision: Decision, day: date) -> EarlierLook:
        """Return a decision as the next ones look back at it."""
        promoted = decision.winner == "candidate"
        return cls(day, decision.spent, decision.pair, decision.information, decision.bound, promoted)


def to_spend(earlier: Sequence[EarlierLook], today: date) -> float:
    """Return the one-sided error that a comparison may have today: a fifth of what the last twelve months left.

    At least ``YEARLY``/24, at most half of what is left: those of any twelve months add up to at most ``YEARLY``.
    """
    left = max(YEARLY - sum(look.error for look in earlier if today - look.day < YEAR), 0.0)
    return min(max(left / 5, YEARLY / 24), left / 2)


def same_pair(earlier: Sequence[EarlierLook], pair: str) -> list[EarlierLook]:
    """Return the looks at the same two recipes, since the last one that promoted the candidate."""
    looks: list[EarlierLook] = []
    for look in earlier:
        if pair and look.pair == pair:
            looks = [] if look.promoted else [*looks, look]
    return looks


def bound_of(error: float, information: float, earlier: Sequence[EarlierLook] = ()) -> float:
    """Return how many standard errors above 0 a look must show, so that its chance to be the first is ``error``.

    The chance is that of this look to cross its bound, and of no ``earlier`` one at the same two recipes, where there
    is no difference. Looks correlate by the root of the smaller information over the larger. Source: Lan and DeMets
    (1983), Discrete sequential boundaries for clinical trials, by the recursion of Armitage, McPherson and Rowe (1969).
    Looks without information are left out. O(looks x 501^2).
    """
    looks = [(look.information, look.bound) for look in earlier
             if look.information and isfinite(look.information) and look.bound is not None]  # fmt: skip
    if not looks:
        return float(stats.norm.isf(error))
    mass, (correlation, spread) = _density(tuple(looks)) * STEP, _likeness(looks[-1][0], information)

    def too_much(bound: float) -> float:
        return float(mass @ ndtr((correlation * GRID - bound) / spread)) - error

    alone = float(stats.norm.isf(error))  # what a look that has none before it asks for, which is never too little
    if too_much(0.0) <= 0:  # the earlier looks have spent half of all chances: what is worse is not promoted even so
        return 0.0
    return alone if too_much(alone) >= 0 else float(bisect(too_much, 0.0, alone))


@lru_cache(maxsize=64)
def _density(looks: tuple[tuple[float, float], ...]) -> Floats:
    """Return the density of the last look's statistic below its bound, and of no look before above its own."""
    information, bound = looks[-1]
    if len(looks) == 1:
        density = np.asarray(stats.norm.pdf(GRID), dtype=np.float64)
    else:
        correlation, spread = _likeness(looks[-2][0], information)
        kernel = np.exp(-0.5 * np.square((GRID[:, None] - correlation * GRID[None, :]) / spread))
        density = kernel @ _density(looks[:-1]) * (STEP / spread / sqrt(2 * pi))
    # Of the point that stands for both sides of the bound, the share below it.
    below: Floats = np.clip((bound - GRID) / STEP + 0.5, 0, 1)
    return density * below


def _likeness(before: float, information: float) -> tuple[float, float]:
    """Return how a look's statistic correlates with that of the look before, and its spread where that is known."""
    less, more = sorted((before, information))  # information may fall as well: rows are deleted
    correlation = sqrt(less / more)
    # A kernel narrower than two points falls between them; a wider one takes looks for less alike, and asks for more.
    return correlation, max(sqrt(1 - correlation**2), 2 * STEP)


@dataclass(frozen=True)
class Decision:
    """The outcome of a comparison of recipes.

    ``winner``: whose recipe is refitted. ``promote``: whether the refitted model becomes the champion.
    ``difference``: the candidate's score minus the champion's (higher is better), None without a comparison;
    ``low``, ``high``: its two-sided interval at ``level``. ``spent``: the one-sided error used up: (1 - level) / 2,
    less for a later look at the same two recipes, named by ``pair``. ``information``, ``bound``: see ``EarlierLook``.
    ``margin``: how much worse a candidate may be. ``champion``: the version compared with, None without. ``runs``: the
    recorded evaluations, the champion's first. ``answer``: who said yes to what could not be decided, and why.
    """

    winner: Literal["candidate", "champion"]
    promote: bool
    why: str
    metric: str
    difference: float | None = None
    low: float | None = None
    high: float | None = None
    p: float | None = None
    words: str = ""
    rule: str = ""
    level: Annotated[float, Field(ge=0, le=1)] | None = None
    spent: Annotated[float, Field(ge=0, le=YEARLY)] = 0.0
    margin: Positive = 0.0
    pair: str = ""
    information: Positive | None = None
    bound: Annotated[float, Field(allow_inf_nan=False)] | None = None
    champion: str | None = None
    runs: tuple[str, str] | None = None
    answer: str = ""

    def apart(self, again: Decision) -> list[str]:
        """Return what it and the same decided ``again`` differ in, numbers by more than their last digits."""
        apart = []
        for field in ("winner", "promote", "metric", "difference", "low", "high", "spent"):
            was, now = getattr(self, field), getattr(again, field)
            numbers = isinstance(was, float) and isinstance(now, float)
            if not (isclose(was, now, rel_tol=1e-9, abs_tol=1e-12) if numbers else was == now):
                apart.append(f"{field} {was} then and {now} now")
        return apart


def without_champion(metric: str, why: str) -> Decision:
    """Return the decision where there is no champion."""
    return Decision("candidate", True, why, metric)


def same_recipe(metric: str, newer: bool) -> Decision:
    """Return the decision where candidate and champion are one recipe."""
    why = "the recipe is the champion's, refitted on newer rows" if newer else "recipe and rows are the champion's"
    return Decision("champion", newer, why, metric)


@dataclass(frozen=True)
class Contrast:
    """The candidate's score minus the champion's with its standard error and degrees of freedom (None: unknown)."""

    difference: float
    se: float | None = None
    df: float = 1.0
    words: str = ""

    @classmethod
    def of(cls, comparison: Comparison) -> Contrast:
        """Return the difference of a comparison of the champion, which comes first, with the candidate."""
        se, df = comparison.se or (None, 1.0)
        return cls(comparison.difference, se, df, comparison.words)


def decide(
    metric: str, compared: Contrast, newer: bool, *, error: float = YEARLY / 2, margin: float = 0.0, pair: str = "",
    earlier: Sequence[EarlierLook] = (),
) -> Decision:  # fmt: skip
    """Return the decision by RULE; ``error``: see ``to_spend``; ``margin``: how much worse a candidate may be.

    ``pair`` names the two recipes; the ``earlier`` looks at them decide at which level this one is made.
    """
    information = 1 / compared.se**2 if compared.se else None
    bound = None if information is None or error <= 0 else bound_of(error, information, same_pair(earlier, pair))
    nominal = error if bound is None else float(stats.norm.sf(bound))
    low = high = None
    p = None if compared.se is None else p_of(compared.difference, compared.se, compared.df)
    if compared.se is not None and nominal > 0:
        half = float(stats.t.isf(nominal, compared.df)) * compared.se
        low, high = compared.difference - half, compared.difference + half
    decided = partial(
        Decision, metric=metric, difference=compared.difference, low=low, high=high, p=p, words=compared.words,
        rule=RULE.format(budget=YEARLY, least=0.0 - margin), level=1 - 2 * nominal, spent=error, margin=margin,
        pair=pair, information=information, bound=bound,
    )  # fmt: skip
    if low is not None and low > -margin:
        why = "the candidate is better" if low > 0 else f"the candidate is not worse by more than {margin:g}"
        return decided("candidate", True, why)
    why = f"the candidate may be worse by more than {margin:g}" if margin else "the candidate is not shown to be better"
    why = "the candidate is worse" if high is not None and high < 0 else why
    refitted = "; the champion's recipe is refitted on newer rows" if newer else ""
    return decided("champion", newer, f"{why}{refitted}")


def compare_draws(
    champion: pd.DataFrame, candidate: pd.DataFrame, metric: str, *, n_rows: int | None = None,
    weights: tuple[str | None, str | None] = (None, None),
) -> Contrast:  # fmt: skip
    """Return how much better the candidate is than the champion, from tables of their scores on the same draws.

    ``n_rows``: for draws with replacement, the rows drawn from, of which models have seen n_rows - n_test. There is no
    standard error where the columns of ``weights`` differ, nor where each draw shows the same difference.
    """
    both = champion.merge(candidate, on="draw", suffixes=("_a", "_b"))
    differences = (both[f"{metric}_b"] - both[f"{metric}_a"]).dropna()
    words = ""
    if weights[0] != weights[1]:
        words = OTHER_WEIGHTS.format(*(name or "no weights" for name in weights))
    elif len(differences) > 1 and not scatter(differences.to_numpy()):
        words = f"Each of {len(differences)} draws shows the same difference, which says nothing of others."
    if words or len(differences) < 2:
        return Contrast(float(differences.mean()), words=words)
    n_test = both["n_test_a"].to_numpy(dtype=float)
    trained = both["n_train_a"].to_numpy(dtype=float) if n_rows is None else n_rows - n_test
    test = corrected_resampled_t(differences, float(trained.mean()), float(n_test.mean()))
    return Contrast(test.mean, test.se, test.df)
