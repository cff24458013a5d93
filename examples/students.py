"""Students of several schools and years: which split tells what a forest will do on next year's students?

The data are made up and seeded. Students of one class share a teacher, which moves their chance to fail; a column says
which class it is in a roundabout way, so a forest can recognise classes it has seen.
Run: python examples/students.py [folder for the picture] [candidates]
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pandas as pd
from evenfold.manifests import decide
from matplotlib.figure import Figure
from sklearn.ensemble import RandomForestClassifier
from sklearn.metrics import average_precision_score, confusion_matrix
from sklearn.model_selection import RandomizedSearchCV

COLUMNS = {"key": "student", "target": "fails"}
FEATURES = ["marks", "absent", "room", "hours"]
SPLITS = {
    "stratified": {"strategy": "StratifiedShuffleSplit", "columns": COLUMNS},
    "grouped": {"strategy": "GroupShuffleSplit", "columns": {**COLUMNS, "group": "class"}},
    "group-stratified": {"strategy": "GroupStratifiedShuffleSplit", "columns": {**COLUMNS, "group": "class"}},
}
CHOICES = {"max_depth": [2, 4, 8, None], "min_samples_leaf": [1, 5, 20, 60], "max_features": [1, 2, 4]}


def students(year: int, n_classes: int = 80, seed: int = 11) -> pd.DataFrame:
    """Return the students of a year: about 20 in each class, of whom about one in four fails."""
    rng = np.random.default_rng([seed, year])
    sizes = rng.integers(12, 30, n_classes)
    of = np.repeat(np.arange(n_classes), sizes)
    teacher, room = rng.permutation(np.linspace(-3.0, 3.0, n_classes)), rng.normal(0, 50, n_classes)
    marks, absent = rng.normal(0, 1, of.size), rng.poisson(3, of.size)
    chance = 1 / (1 + np.exp(2.2 + 0.9 * marks - 0.12 * absent + teacher[of]))
    return pd.DataFrame(
        {
            "student": year * 100_000 + np.arange(of.size),
            "class": [f"{year}-{number}" for number in of],
            "marks": marks,
            "absent": absent,
            "room": room[of] + rng.normal(0, 0.1, of.size),
            "hours": rng.normal(20, 4, of.size),
            "fails": (rng.random(of.size) < chance).astype(int),
        }
    )


def study(candidates: int) -> pd.DataFrame:
    """Return for each kind of split what it promised, and what the chosen forest did on next year's classes."""
    this, following = students(2024), students(2025)
    told = []
    for name, spec in SPLITS.items():
        manifest = decide({**spec, "params": {"n_splits": 5}}, this)
        search = RandomizedSearchCV(
            RandomForestClassifier(60, random_state=0),
            CHOICES,
            n_iter=candidates,
            scoring="average_precision",
            cv=manifest.as_cv(this),
            random_state=0,
        ).fit(this[FEATURES], this["fails"])
        chance = search.predict_proba(following[FEATURES])[:, 1]
        alarmed = chance >= np.quantile(chance, 1 - following["fails"].mean())
        (tn, fp), (fn, tp) = confusion_matrix(following["fails"], alarmed)
        told.append(
            {
                "split": name,
                "promised": search.best_score_,
                "next year": average_precision_score(following["fails"], chance),
                "found": tp,
                "missed": fn,
                "false alarms": fp,
                "left alone": tn,
            }
        )
    return pd.DataFrame(told).set_index("split")


def picture(table: pd.DataFrame, path: Path) -> None:
    """Draw what each split promised beside what came, and the three confusion matrices."""
    figure = Figure(figsize=(11, 3.6), layout="constrained", dpi=120)
    left, *rest = figure.subplots(1, 4, width_ratios=[1.9, 1, 1, 1])
    at = np.arange(len(table))
    left.bar(at - 0.2, table["promised"], 0.38, color="#E69F00", label="promised by the split")
    left.bar(at + 0.2, table["next year"], 0.38, color="#0072B2", label="on next year's classes")
    left.set_xticks(at, [name.replace("-", "-\n") for name in table.index])
    left.set(xlabel="split of the search", ylabel="PR-AUC (0 to 1)", ylim=(0, table["promised"].max() * 1.45))
    left.legend(frameon=False)
    for axes, (name, row) in zip(rest, table.iterrows(), strict=True):
        cells = np.array([[row["left alone"], row["false alarms"]], [row["missed"], row["found"]]])
        axes.imshow(cells, cmap="Blues", vmin=0, vmax=cells.sum())
        for (i, j), count in np.ndenumerate(cells):
            axes.text(
                j, i, f"{count:,.0f}", ha="center", va="center", color="white" if count > cells.sum() / 2 else "black"
            )
        axes.set_xticks([0, 1], ["passes", "fails"])
        axes.set_yticks([0, 1], ["passes", "fails"])
        axes.set(title=name, xlabel="predicted (students)", ylabel="true (students)" if axes is rest[0] else "")
    figure.savefig(path)


def main(folder: Path, candidates: int = 12) -> None:
    """Search under three kinds of split, and end with one picture and three sentences."""
    table = study(candidates)
    path = folder / "students.png"
    picture(table, path)
    mixed, grouped, both = (table.loc[name] for name in SPLITS)
    print(path)
    print(
        f"Splitting single students promises PR-AUC {mixed['promised']:.2f}, and next year's classes give "
        f"{mixed['next year']:.2f}: the forest had recognised classes by their room."
    )
    print(
        f"Splits of whole classes promise {grouped['promised']:.2f}, and with even shares of failures "
        f"{both['promised']:.2f}, where {grouped['next year']:.2f} and {both['next year']:.2f} come true."
    )
    print(
        f"With as many alarms as there are failures, the group-stratified choice finds {both['found']:.0f} of "
        f"{both['found'] + both['missed']:.0f} students, and the stratified one {mixed['found']:.0f}."
    )


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "."), int(sys.argv[2] if len(sys.argv) > 2 else 12))
