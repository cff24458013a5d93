"""Flights: what a leak by date costs, what sorting a target buys, and how even a split stays through twelve months.

Run: python examples/flights_growth.py [folder for the picture]
"""

from __future__ import annotations

import sys
from pathlib import Path

import pandas as pd
from evenfold.manifests import Manifest, decide, extend, measure
from matplotlib.figure import Figure
from sklearn.ensemble import HistGradientBoostingRegressor
from sklearn.model_selection import cross_val_score

FLIGHTS = Path(__file__).parent / "flights.parquet"
FEATURES = ["month", "wday", "hour", "minute", "distance", "day"]
BY_DATE = {"name": "by-date", "columns": {"key": "flight_id", "target": "arr_delay", "group": "date"}}
BY_ROW = {"name": "by-row", "columns": {"key": "flight_id", "target": "arr_delay"}}


def r2(manifest: Manifest, flights: pd.DataFrame) -> float:
    """Return the mean R2 of one model under the folds of a manifest."""
    model = HistGradientBoostingRegressor(max_iter=60, random_state=0)
    day = pd.to_datetime(flights["time_hour"], utc=True).dt.day_of_year
    X, y = flights.assign(day=day)[FEATURES], flights["arr_delay"]
    return float(cross_val_score(model, X, y, cv=manifest.as_cv(flights), scoring="r2").mean())


def growth(flights: pd.DataFrame) -> list[dict[str, float]]:
    """Return balance and moved rows for January, and after each of eleven more months."""
    manifest = decide(BY_DATE, flights[flights["month"] == 1])
    told = []
    for month in range(1, 13):
        known = flights[flights["month"] <= month]
        grown = extend(manifest, known)
        fresh = decide(BY_DATE, known)
        told.append(
            {
                "month": month,
                "rows": len(known),
                "moved": grown.moved,
                "size": measure(grown.manifest, known).worst["size"],
                "ks": measure(grown.manifest, known).worst["ks"],
                "ks anew": measure(fresh, known).worst["ks"],
                "would move": float((fresh.codes != grown.manifest.codes).mean()),
            }
        )
        manifest = grown.manifest
    return told


def picture(told: list[dict[str, float]], path: Path) -> None:
    """Draw how even the grown split is, beside one that is made anew each month."""
    table = pd.DataFrame(told)
    figure = Figure(figsize=(8, 3.4), layout="constrained", dpi=120)
    axes = figure.subplots()
    axes.plot(table["month"], table["ks"], marker="o", color="#0072B2", label="grown: no row moves")
    axes.plot(table["month"], table["ks anew"], marker="s", color="#E69F00", label="made anew each month")
    axes.set(xlabel="month (1 to 12)", ylabel="worst KS distance of a fold (0 to 1)", ylim=(0, None))
    axes.set_title("Balance of five folds of whole dates while flights join")
    axes.legend(frameon=False)
    figure.savefig(path)


def main(folder: Path) -> None:
    """Run the three parts, and end with one picture and three sentences."""
    flights = pd.read_parquet(FLIGHTS)
    random = decide({**BY_ROW, "strategy": "KFold"}, flights)
    dates, even = decide(BY_DATE, flights), decide(BY_ROW, flights)
    leaking, honest = r2(random, flights), r2(dates, flights)
    told = growth(flights)
    path = folder / "flights_growth.png"
    picture(told, path)
    moved = sum(each["moved"] for each in told)
    print(path)
    print(f"Random folds promise R2 = {leaking:.2f}; on dates that the model has never seen it is {honest:.2f}.")
    ks_random, ks_even = (measure(each, flights).worst["ks"] for each in (random, even))
    print(
        f"Sorting the target brings every fold within KS {ks_even:.5f} of all flights; random folds, {ks_random:.4f}."
    )
    print(
        f"Through eleven appends {moved:.0f} rows moved and the worst fold stayed within KS {told[-1]['ks']:.3f}; "
        f"splitting anew would give {told[-1]['would move']:.0%} of the rows another fold."
    )


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "."))
