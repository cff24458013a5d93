"""The figures of how even a split is: each is defined here, and shown wherever a report is."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypedDict

from evenfold.manifests.fields import Strict
from evenfold.splitters.errors import Displayed, named_apart
from evenfold.splitters.packing.report import PackReport


class Figures(TypedDict, total=False):
    """The distribution of a column over all rows, or those of a fold or part: fields of the two models below."""

    classes: list[str]
    groups: int
    shares: list[float]
    mean: float | None
    sd: float | None
    ks: float | None
    wasserstein: float | None


# Those that are one number: the page has a column of each, and MLflow a series, whose steps are the folds.
NUMBERS = ("groups", "mean", "sd", "ks", "wasserstein")
MOST_SHARES = 10  # classes of which MLflow shows the share of each fold and part


class RowsBalance(Strict):
    """A set of rows: how many, and how their target is distributed.

    ``wanted``: the rows that it was to have, where rows were shared out; they need not be whole. ``ks`` is the largest
    difference between its cumulative distribution and that of all rows (0..1); ``wasserstein`` the area between the
    two, in units of the target. ``shares`` are of each class. One row has no ``sd``; none has no figures.
    """

    rows: int
    wanted: float | None = None
    groups: int | None = None
    shares: list[float] | None = None
    mean: float | None = None
    sd: float | None = None
    ks: float | None = None
    wasserstein: float | None = None

    def rows_of(self, number: int) -> int:
        """Return how many rows are of a class: none where there is no row."""
        return round(self.shares[number] * self.rows) if self.shares else 0


class FoldBalance(RowsBalance):
    """The test rows of one split, or of a part by its ``name``; of a draw also those trained on, and asked to be."""

    split: int
    name: str | None = None
    train: int | None = None
    wanted_train: float | None = None


class PartBalance(RowsBalance):
    """The rows of a part that no split tests: train, or what is locked away."""

    name: str


class AttributeBalance(Strict):
    """The shares of the levels of a column that decides nothing, over all rows in use and in each measured place.

    ``worst`` is the largest difference between the two.
    """

    levels: list[str]
    shares: list[float]
    places: list[list[float]]
    worst: float


class BalanceReport(Displayed, Strict):
    """The balance of a manifest: every fold and part, and the worst of each figure as one number.

    All rows are those in use. ``folds`` are the test rows of each split, of draws the first 200 (``n_measured`` says
    how many); ``parts`` those that no split tests. ``strata``: of each column to stratify by, the largest difference of
    a fold's or part's share of a class (of its cumulative distribution, for numbers) from that of all rows;
    ``attributes`` are the columns to balance on, which decide nothing. ``worst`` holds the ``FIGURES`` that these come
    to, ``reachable`` what no split of the same rows can be below in them, where that is known; ``reach`` how even whole
    groups are and could be. ``picks``: the shares of the measured draws that test the least and the most often tested
    group. ``n_folds`` is of folds that are to be of one size, ``largest_group`` of groups that are kept whole.
    """

    split_id: str
    target: str | None
    n_rows: int
    n_splits: int
    n_measured: int
    classes: list[str] | None = None
    shares: list[float] | None = None
    mean: float | None = None
    sd: float | None = None
    n_folds: int | None = None
    largest_group: int | None = None
    strata: dict[str, float] = {}
    attributes: dict[str, AttributeBalance] = {}
    picks: tuple[float, float] | None = None
    folds: list[FoldBalance]
    parts: list[PartBalance] = []
    worst: dict[str, float] = {}
    reachable: dict[str, float] = {}
    reach: PackReport | None = None

    @property
    def measured(self) -> list[RowsBalance]:
        """Every fold and part."""
        return [*self.folds, *self.parts]

    @property
    def summary(self) -> str:
        """Rows, splits and the worst of each figure, in one line."""
        figures = ", ".join(f"{figure.name} {figure.form(value)}" for figure, value, _ in self.shown())
        return f"BalanceReport of {self.n_rows:,} rows in {self.n_splits:,} splits: {figures}"

    def shown(self) -> list[tuple[BalanceFigure, float, float | None]]:
        """Return each figure that there is with its value, and what no split can be below."""
        present = (figure for figure in FIGURES if figure.name in self.worst)
        return [(figure, self.worst[figure.name], self.reachable.get(figure.name)) for figure in present]

    def metrics(self, most_folds: int) -> dict[str, float | dict[int, float]]:
        """Return the figures as metrics of a run, their bounds, and what each part holds.

        Of whole groups also the terms of the cost and the gap to the best; of up to ``most_folds`` splits what each
        holds, a step each.
        """
        metrics: dict[str, float | dict[int, float]] = {}
        for figure, value, least in self.shown():
            metrics |= figure.metrics(value, least)
        classes = [f"balance/share{{}}/{name}" for name in named_apart(self.classes or ()).values()]

        def held(place: RowsBalance, **more: float | None) -> dict[str, float]:
            values = {f"balance/{name}{{}}": getattr(place, name) for name in ("rows", "wanted", *NUMBERS)} | more
            if len(classes) <= MOST_SHARES:
                values |= dict(zip(classes, place.shares or (), strict=False))
            return {name: float(value) for name, value in values.items() if value is not None}

        places: list[FoldBalance | PartBalance] = [*self.folds, *self.parts]
        for place in (each for each in places if each.name):
            metrics |= {name.format(f"_{place.name}"): value for name, value in held(place).items()}
        strata = named_apart(self.strata)
        metrics |= {f"balance/stratum_share/{strata[name]}": value for name, value in self.strata.items()}
        if self.reach is not None:
            terms = ("size_term", "class_term", "missing", "gap", "optimal")
            metrics |= {f"balance/cost_{name}": float(getattr(self.reach, name)) for name in terms}
        if self.picks is not None:
            metrics |= {"balance/least_picked": self.picks[0], "balance/most_picked": self.picks[1]}
        series = defaultdict[str, dict[int, float]](dict)
        for fold in self.folds if self.n_splits <= most_folds else ():
            trained = {"balance/rows_train": fold.train, "balance/wanted_train": fold.wanted_train}
            for name, rows in held(fold, **trained).items():
                series[name.format("")][fold.split] = rows
        return metrics | series


@dataclass(frozen=True)
class BalanceFigure:
    """One number of a balance report, the smaller the better, and all that is to be known to show it."""

    name: str
    title: str  # on pages
    value: Callable[[BalanceReport], float | None]  # None where the report says nothing
    form: Callable[[float], str] = lambda value: f"{value:.4g}"  # prints it with its unit
    least: Callable[[BalanceReport], float | None] = lambda _: None  # what no split of the same rows can be below
    metric: str = "worst_{name}"  # its name in MLflow, below ``balance/``

    def metrics(self, value: float, least: float | None) -> dict[str, float]:
        """Return the metrics by which a run shows the value, and what it could be at best."""
        bound = {} if least is None else {f"balance/least_{self.name}": least}
        return {f"balance/{self.metric.format(name=self.name)}": value} | bound


def points(share: float) -> str:
    """Return a difference of shares in percentage points: 24.9 % and 27.4 % are 2.5 points apart."""
    value = 100 * share
    digits = 1 if abs(value) >= 0.1 or value == 0 else 2
    return f"{value:.{digits}f} {'point' if f'{value:.{digits}f}' == '1.0' else 'points'}"


def _size(report: BalanceReport) -> float:
    mean = sum(fold.rows for fold in report.folds) / len(report.folds)
    wanted = [(place.rows, mean if place.wanted is None else place.wanted) for place in report.measured]
    wanted += [(fold.train or 0, fold.wanted_train) for fold in report.folds if fold.wanted_train is not None]
    return max(abs(rows - share) / max(share, 1e-9) for rows, share in wanted)


def _least_size(report: BalanceReport) -> float | None:
    """Return a bound: rows and groups are whole, and folds of equal shares cannot all be above their mean."""
    wanted = [place.wanted for place in report.measured if place.wanted]
    if len(wanted) < len(report.measured) or report.folds[0].train is not None:
        return None  # a draw leaves out the group that is too large for its side
    bounds = [min(share % 1, -share % 1) / share for share in wanted]
    bounds.append(((report.largest_group or 0) - max(wanted)) / max(wanted))
    if report.n_folds:
        n, k = round(wanted[0] * report.n_folds), report.n_folds
        # The largest relative deviation from equal sizes that no split of n rows can do without.
        bounds.append(max(n / k - n // k, -(-n // k) - n / k) / (n / k))
    return max(bounds)


def _class_share(report: BalanceReport) -> float | None:
    if report.shares is None:
        return None
    places = (zip(place.shares or report.shares, report.shares, strict=True) for place in report.measured)
    return max(abs(share - overall) for place in places for share, overall in place)


def _largest(report: BalanceReport, name: str) -> float | None:
    values = (getattr(place, name) for place in report.measured)
    return max((value for value in values if value is not None), default=None)


def _mean_in_sd(report: BalanceReport) -> float | None:
    if report.mean is None:
        return None
    means = [place.mean for place in report.measured if place.mean is not None]
    return max((abs(mean - report.mean) for mean in means), default=0.0) / (report.sd or 1.0)


FIGURES: tuple[BalanceFigure, ...] = (
    BalanceFigure(
        "size", "Largest deviation of a fold's or part's rows from what it was to have",
        _size, form="{:.2%}".format, least=_least_size,
    ),
    BalanceFigure(
        "class_share", "Largest deviation of a class share from its share of all rows", _class_share, form=points
    ),
    BalanceFigure(
        "ks",
        "Largest gap of a fold's or part's cumulative target distribution to that of all rows (Kolmogorov-Smirnov)",
        lambda report: _largest(report, "ks"), form=points,
    ),
    BalanceFigure(
        "wasserstein", "Largest Wasserstein distance of a fold's or part's target (in its unit)",
        lambda report: _largest(report, "wasserstein"),
    ),
    BalanceFigure(
        "mean_in_sd", "Largest deviation of a fold's or part's mean target (in standard deviations)",
        _mean_in_sd, form="{:.4f}".format,
    ),
    BalanceFigure(
        "stratum_share", "Largest deviation of a (cumulative) share of a column to stratify by",
        lambda report: max(report.strata.values(), default=None), form=points,
    ),
    BalanceFigure(
        "attribute_share", "Largest deviation of a share of a level of a column to balance on",
        lambda report: max((attribute.worst for attribute in report.attributes.values()), default=None), form=points,
    ),
    BalanceFigure(
        "picks", "Difference between the shares of draws that test the most and the least often tested group",
        lambda report: report.picks[1] - report.picks[0] if report.picks else None,
        form="{:.1%}".format, metric="spread_of_{name}",
    ),
    BalanceFigure(
        "cost", "Cost of the packing of whole groups, as the strategy weighs it",
        lambda report: report.reach.cost if report.reach else None, form="{:.3g}".format,
        least=lambda report: report.reach.lower_bound if report.reach else None, metric="{name}",
    ),
)  # fmt: skip
