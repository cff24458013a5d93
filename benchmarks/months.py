"""Broken months and good ones: what a champion that never saw them, and their rows alone, say of each.

``python -m benchmarks.months [years]`` writes how many good months a year are refused, and what becomes of each way in
which a month of the flights was broken and of the right month after it, to docs/results and docs/operations.md.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from evenfold.estimates import ModelSpec, Problem
from evenfold.estimates.intervals.months import Month, blocks, judge, month_of
from evenfold.manifests import Snapshot, check_arrival, decide, extend
from evenfold.manifests.growth.newcomers import TELLING
from evenfold.splitters import SplitError
from numpy.typing import NDArray
from scipy.special import expit
from scipy.stats import binomtest
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from .promotion import fits
from .written import write

ROOT = Path(__file__).parent.parent
YEARS, ROWS, KNOWN = 60, 300, 3
TRIED = (4, 8, 11)  # months that are broken
# How far months lie apart: of the slope, of the log of the noise. Flights have about .05 and .2.
RESTLESS = {"calm": (0.0, 0.0), "as flights": (0.05, 0.2), "restless": (0.1, 0.35)}
STRENGTH = {"good": 2.0, "weak": 0.2}
Frame = pd.DataFrame
Floats = NDArray[np.float64]


# ---------------------------------------------------------------- good years


def refused_in_a_year(seed: int, apart: tuple[float, float], strength: float, classes: int) -> list[str]:
    """Return the verdicts on 12 good months after 3 known ones, by a model refitted each month and by rows alone."""
    rng = np.random.default_rng([seed, classes])
    n = ROWS * (KNOWN + 12)
    month, day = np.arange(n) // ROWS, np.arange(n) // 10
    X = np.column_stack([rng.normal(size=(n, 4)), np.ones(n)])
    signal = X[:, :4].mean(axis=1) * strength * (1 + apart[0] * rng.normal(size=KNOWN + 12))[month]
    noise = np.exp(apart[1] * rng.normal(size=KNOWN + 12))[month] * (
        rng.standard_t(5, n) / 1.3 + rng.normal(size=n // 10)[day] / 3
    )
    y = (signal + noise > 0).astype(np.int64) if classes else signal + noise
    table, verdicts = pd.DataFrame(X[:, :4], columns=[*"abcd"]).assign(id=np.arange(n), day=day, y=y), []
    table["time"] = pd.Timestamp("2025-01-01") + pd.to_timedelta(day, "D")
    for now in range(KNOWN, KNOWN + 12):
        old, new = np.flatnonzero(month < now), np.flatnonzero(month == now)
        fold = np.random.default_rng(seed).integers(0, 5, day.max() + 1)[day[old]]
        p = np.zeros(old.size)
        for each in range(5):
            p[fold == each] = _predicted(X, y, old[fold != each], old[fold == each], classes)
        earlier = [_figures(y[old[rows]], p[rows], day[old[rows]], classes) for rows in blocks(old, new.size, day[old])]
        came = _figures(y[new], _predicted(X, y, old, new, classes), day[new], classes)
        verdicts.append("refused" if _stopped(table, now) else judge(came, earlier, "y").verdict)
    return verdicts


def _stopped(table: Frame, known: int) -> bool:
    """Return whether what is found without a model stops the month after the known ones."""
    spec: dict[str, Any] = {"name": "good", "strategy": "GroupBootstrap", "params": {"n_splits": 2}}
    spec["columns"], rows = {"key": "id", "target": "y", "group": "day", "time": "time"}, table[: ROWS * known]
    manifest = decide(spec, rows)
    arrived = check_arrival(manifest, table[: ROWS * (known + 1)], Snapshot.of(manifest, rows), columns=[*"abcd"])
    return bool(arrived.failed)


def _predicted(X: Floats, y: Any, train: Any, test: Any, classes: int) -> Floats:
    if classes:
        return expit(X[test] @ fits(X[train], y[train], np.ones((1, train.size)))[0])
    return np.asarray(X[test] @ np.linalg.lstsq(X[train], y[train], rcond=None)[0])


def _figures(y: Any, p: Floats, units: Any, classes: int) -> Month:
    return month_of(y, np.column_stack([1 - p, p]) if classes else p, units, classes)


def rate(years: int) -> list[dict[str, Any]]:
    """Return how many years have a good month that is refused, and how many months cannot be judged."""
    rows = []
    for (how, apart), (champion, strength), classes in [
        (apart, strength, classes)
        for classes in (0, 2)
        for apart in RESTLESS.items()
        for strength in STRENGTH.items()
        if not classes or apart[0] == "as flights"
    ]:
        told = [refused_in_a_year(seed, apart, strength, classes) for seed in range(years)]
        refused = sum("refused" in year for year in told)
        low, high = binomtest(refused, years).proportion_ci(method="exact")
        rows.append({
            "months": how, "champion": champion, "target": "classes" if classes else "numbers", "years": years,
            "refused": round(refused / years, 4), "low": round(float(low), 4), "high": round(float(high), 4),
            "unclear": round(float(np.mean([verdict == "unclear" for year in told for verdict in year])), 4),
        })  # fmt: skip
    return rows


# ---------------------------------------------------------------- broken months


@cache
def flights() -> Frame:
    """Return the flights with what two champions learn from."""
    rows = pd.read_parquet(ROOT / "examples" / "flights.parquet").dropna(subset=["arr_delay", "dep_delay"])
    rows = rows.assign(late=np.where(rows["arr_delay"] > 15, "late", "on time"))
    rows["weekday"] = pd.to_datetime(rows["date"]).dt.weekday
    return rows.sort_values("time_hour", ignore_index=True)


STRONG, WEAK = ["hour", "distance", "dep_delay"], ["hour", "distance", "weekday"]
CHAMPIONS = {"good": (STRONG, "arr_delay"), "weak": (WEAK, "arr_delay"), "good, classes": (STRONG, "late")}


def _part(new: Frame, share: float) -> NDArray[np.bool_]:
    return np.random.default_rng(3).uniform(size=len(new)) < share


def _again(old: Frame, new: Frame, y: str) -> Frame:
    last = old[old["month"] == old["month"].max()]
    return last.assign(flight_id=last["flight_id"] + 10_000_000)


def _mixed(new: Frame, y: str, share: float) -> Frame:
    part, rng = _part(new, share), np.random.default_rng(4)
    values = new[y].to_numpy(copy=True)
    values[part] = rng.permutation(values[part])
    return new.assign(**{y: values})


def _numbers(change: Callable[[Frame], Any], y: str, new: Frame) -> Frame:
    return new.assign(arr_delay=change(new)) if y == "arr_delay" else new


def _days(new: Frame, days: int) -> Frame:
    later = pd.to_datetime(new["date"]) + pd.Timedelta(days=days)
    return new.assign(time_hour=new["time_hour"] + pd.Timedelta(days=days), date=later.dt.strftime("%Y-%m-%d"))


Change = Callable[[Frame, Frame, str], Frame]  # of the rows known so far, the new ones, and the target
KINDS: dict[str, Change] = {
    "targets shuffled": lambda old, new, y: _mixed(new, y, 1),
    "half of them shuffled": lambda old, new, y: _mixed(new, y, 0.5),
    "targets of the next row": lambda old, new, y: new.assign(**{y: np.roll(new[y], 1)}),
    "targets sorted": lambda old, new, y: new.assign(**{y: np.sort(new[y])}),
    "sign turned, or labels swapped": lambda old, new, y: new.assign(
        **{y: -new[y] if y == "arr_delay" else np.where(new[y] == "late", "on time", "late")}
    ),
    "target in seconds": lambda old, new, y: _numbers(lambda new: new["arr_delay"] * 60, y, new),
    "target in hours": lambda old, new, y: _numbers(lambda new: new["arr_delay"] / 60, y, new),
    "target capped": lambda old, new, y: _numbers(lambda new: new["arr_delay"].clip(upper=10), y, new),
    "target constant": lambda old, new, y: new.assign(**{y: new[y].mode()[0]}),
    "target missing in a third": lambda old, new, y: new.assign(**{y: new[y].mask(_part(new, 0.33))}),
    "target -999 in a tenth": lambda old, new, y: _numbers(
        lambda new: new["arr_delay"].mask(_part(new, 0.1), -999), y, new
    ),
    "target absolute": lambda old, new, y: _numbers(lambda new: new["arr_delay"].abs(), y, new),
    "target rounded to 15": lambda old, new, y: _numbers(lambda new: (new["arr_delay"] / 15).round() * 15, y, new),
    "noise as large as the target": lambda old, new, y: _numbers(
        lambda new: new["arr_delay"] + np.random.default_rng(5).normal(0, new["arr_delay"].std(), len(new)), y, new
    ),
    "target by a formula": lambda old, new, y: new.assign(
        **{y: new["dep_delay"] - 5 if y == "arr_delay" else np.where(new["dep_delay"] > 20, "late", "on time")}
    ),
    "feature filled from the target": lambda old, new, y: new.assign(dep_delay=new["arr_delay"] + 0.5),
    "classes renamed": lambda old, new, y: new if y == "arr_delay" else new.assign(late=new["late"].str.upper()),
    "one class alone": lambda old, new, y: new if y == "arr_delay" else new[new["late"] == "late"],
    "the slow half alone": lambda old, new, y: new[new["arr_delay"] > new["arr_delay"].median()],
    "feature in seconds": lambda old, new, y: new.assign(dep_delay=new["dep_delay"] * 60),
    "feature emptied": lambda old, new, y: new.assign(dep_delay=np.nan),
    "feature zero": lambda old, new, y: new.assign(dep_delay=0.0),
    "feature missing in 60 %": lambda old, new, y: new.assign(dep_delay=new["dep_delay"].mask(_part(new, 0.6))),
    "feature of the next row": lambda old, new, y: new.assign(dep_delay=np.roll(new["dep_delay"], 1)),
    "features swapped": lambda old, new, y: new.assign(hour=new["distance"], distance=new["hour"]),
    "feature renamed": lambda old, new, y: new.rename(columns={"hour": "Hour"}),
    "feature as text": lambda old, new, y: new.assign(distance=new["distance"].astype(str) + " mi"),
    "hours in another zone": lambda old, new, y: new.assign(hour=(new["hour"] + 5) % 24),
    "last month under new keys": _again,
    "rows twice under one key": lambda old, new, y: pd.concat([new, new]),
    "rows twice under new keys": lambda old, new, y: pd.concat(
        [new, new.assign(flight_id=new["flight_id"] + 10_000_000)]
    ),
    "days four years ahead": lambda old, new, y: _days(new, 1461),
    "days of 1970": lambda old, new, y: _days(new, -int(365.25 * 43)),
    "one group for the month": lambda old, new, y: new.assign(date="2013-00-00"),
    "a tenth of another carrier": lambda old, new, y: new.assign(carrier=new["carrier"].mask(_part(new, 0.1), "ZZ")),
    "negative keys": lambda old, new, y: new.assign(flight_id=-new["flight_id"]),
    "ten rows": lambda old, new, y: new.head(10),
    "no rows": lambda old, new, y: new.head(0),
}
RIGHT = "the right month"


class Line:
    """A split and the champion on its rows, as after a retraining on them."""

    def __init__(self, known: Frame, features: list[str], target: str, manifest: Any = None) -> None:
        self.known, self.features, self.target = known, features, target
        columns = {"key": "flight_id", "target": target, "group": "date", "time": "time_hour"}
        spec = {"name": "flights", "columns": columns, "strategy": "BalancedGroupKFold", "params": {"n_splits": 3}}
        self.manifest = manifest or decide(spec, known)
        self.snapshot = Snapshot.of(self.manifest, known)
        self.classes = sorted(set(known["late"])) if target == "late" else []
        row_of = self.manifest.positions(known)
        p = np.zeros((len(known), max(len(self.classes), 1)))
        for i in range(3):
            train, tested = (row_of[side][row_of[side] >= 0] for side in self.manifest.in_use.pair(i))
            p[tested] = self._said(self._fitted(known.iloc[train]), known.iloc[tested])
        self.champion, self.p = self._fitted(known), p

    def _fitted(self, rows: Frame) -> Any:
        model = make_pipeline(StandardScaler(), LogisticRegression() if self.classes else Ridge())
        return model.fit(rows[self.features], rows[self.target])

    def _said(self, model: Any, rows: Frame) -> Floats:
        say = model.predict_proba if self.classes else model.predict
        return np.asarray(say(rows[self.features])).reshape(len(rows), -1)

    def _figures(self, rows: Frame, p: Floats) -> Month:
        y = pd.Index(self.classes).get_indexer(rows["late"]) if self.classes else rows[self.target].to_numpy()
        return month_of(y, p, rows["date"].to_numpy(), len(self.classes))

    def judged(self, table: Frame) -> tuple[str, str, Any]:
        """Return the verdict on a table, what gave it, and the line after it, where it was let in."""
        try:
            arrival = check_arrival(self.manifest, table, self.snapshot, columns=self.features)
            if arrival.failed:
                return "refused", arrival.failed[0], self
            grown = extend(self.manifest, table, max_missing=1).manifest
            estimator = "sklearn.linear_model:" + ("LogisticRegression" if self.classes else "Ridge")
            recipe = ModelSpec(estimator=estimator, features=tuple(self.features))
            Problem.of(table, recipe, self.target)
        except (SplitError, ValueError, TypeError) as error:
            return "refused", f"it cannot be split or read: {type(error).__name__}", self
        new = table[~table["flight_id"].isin(self.known["flight_id"])]
        if new.empty:
            return "sound", "no row is new", self
        earlier = [self._figures(self.known.iloc[rows], self.p[rows])
                   for rows in blocks(self.known["time_hour"], len(new), self.known["date"])]  # fmt: skip
        told = judge(self._figures(new, self._said(self.champion, new)), earlier, self.target)
        odd = [name for name in TELLING if arrival.passed.get(name)]
        if told.verdict == "refused":
            return "refused", "slope" if told.sentences[0].startswith("The slope") else "error", self
        after = Line(table.reset_index(drop=True), self.features, self.target, grown)
        verdict = "unclear" if odd or told.verdict == "unclear" else "sound"
        return verdict, odd[0] if odd else "", after


def tried() -> list[dict[str, Any]]:
    """Return what became of each broken month, and of the right one after it, by champion."""
    rows = []
    for champion, (features, target) in CHAMPIONS.items():
        for month in TRIED:
            old, new = (flights()[which] for which in (flights()["month"] < month, flights()["month"] == month))
            line, right = Line(old, features, target), pd.concat([old, new], ignore_index=True)
            good = line.judged(right)[0]
            rows.append({"champion": champion, "month": month, "kind": RIGHT, "verdict": good, "by": "", "then": good})
            for kind, change in KINDS.items():
                broken = change(old, new, target)
                if broken is new:
                    continue  # it is about the other target
                verdict, by, after = line.judged(pd.concat([old, broken], ignore_index=True))
                then = good if after is line else after.judged(right)[0]
                row = {"champion": champion, "month": month, "kind": kind, "verdict": verdict, "by": by, "then": then}
                rows.append(row)
    return rows


def table(told: dict[str, Any]) -> str:
    """Return both as Markdown."""
    lines = [
        "| months | champion | target | years in which a good month was refused | good months not judged |",
        "|---|---|---|---|---|",
    ]
    lines += [
        f"| {row['months']} | {row['champion']} | {row['target']} | {row['refused']:.1%} "
        f"({row['low']:.1%} to {row['high']:.1%}) | {row['unclear']:.1%} |"
        for row in told["rate"]
    ]
    years = told["rate"][0]["years"]
    lines += ["", f"{years} years of 12 months each, {ROWS} rows a month, {KNOWN} months known at first.", ""]
    lines += [f"| a month of flights | {' | '.join(CHAMPIONS)} |", "|---|---|---|---|"]
    for kind in dict.fromkeys(row["kind"] for row in told["broken"]):
        cells = []
        for champion in CHAMPIONS:
            of = [row for row in told["broken"] if (row["champion"], row["kind"]) == (champion, kind)]
            stopped = sum(row["then"] == "refused" for row in of)
            counts = ", ".join(f"{verdict} {n}" for verdict, n in Counter(row["verdict"] for row in of).most_common())
            cells.append((counts or "-") + (f"; the right one then refused {stopped}" if stopped else ""))
        lines.append(f"| {kind} | {' | '.join(cells)} |")
    return "\n".join(lines)


def main(years: int) -> None:
    """Write the figures, and the page's tables."""
    told = {"years": years, "rate": rate(years), "broken": tried()}
    write("months", told, "operations.md", table(told))


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else YEARS)
