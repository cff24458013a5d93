"""Breast cancer: .632 and .632+ beside cross-validation, for a model that generalises and one that learns by heart.

Run: python examples/breast_cancer.py [folder for the picture] [draws]
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from evenfold.estimates import bootstrap_estimate
from evenfold.manifests import decide
from matplotlib.figure import Figure
from sklearn.base import clone
from sklearn.datasets import load_breast_cancer
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import cross_val_score
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

COLUMNS = {"key": "patient", "target": "benign"}
COINS = 4  # one coin may fall well for one method
MODELS = {
    "logistic regression": make_pipeline(StandardScaler(), LogisticRegression(max_iter=300)),
    "1 nearest neighbour": make_pipeline(StandardScaler(), KNeighborsClassifier(1)),
}


def errors(model: Any, frame: pd.DataFrame, draws: int) -> dict[str, float]:
    """Return the error rate of a model (0 to 1) by each method."""
    X, y = frame.drop(columns=["patient", "benign"]), frame["benign"].to_numpy()
    folds = decide({"columns": COLUMNS, "strategy": "StratifiedKFold", "params": {"n_splits": 10}}, frame)
    resampled = decide({"columns": COLUMNS, "strategy": "Bootstrap", "params": {"n_splits": draws}}, frame)
    predicted = clone(model).fit(X, y).predict(X)
    shares, said = np.bincount(y) / y.size, np.bincount(predicted, minlength=2) / y.size
    lost, times, means = np.zeros(y.size), np.zeros(y.size), []
    for train, test in resampled.as_cv(frame).split():
        wrong = clone(model).fit(X.iloc[train], y[train]).predict(X.iloc[test]) != y[test]
        lost[test], times[test] = lost[test] + wrong, times[test] + 1
        means.append(wrong.mean())
    out = times > 0
    found = bootstrap_estimate(
        err=float((predicted != y).mean()),
        err1=float((lost[out] / times[out]).mean()),
        oob=float(np.mean(means)),
        gamma=float((shares * (1 - said)).sum()),
    )
    return {
        "apparent": found.err,
        "10-fold": 1 - float(cross_val_score(model, X, y, cv=folds.as_cv(frame)).mean()),
        "out-of-bag": found.oob,
        ".632": found.e632,
        ".632+": found.e632plus,
    }


def picture(table: pd.DataFrame, path: Path) -> None:
    """Draw every method's error for each model and target."""
    figure = Figure(figsize=(8, 3.6), layout="constrained", dpi=120)
    axes = figure.subplots()
    colours = ["#B0B0B0", "#0072B2", "#56B4E9", "#E69F00", "#009E73"]
    for i, (method, colour) in enumerate(zip(table.columns, colours, strict=True)):
        axes.bar(np.arange(len(table)) + 0.16 * (i - 2), table[method], 0.15, color=colour, label=method)
    axes.axhline(0.5, color="black", linewidth=1, linestyle="--")
    axes.set_xticks(range(len(table)), [name.replace(", ", "\n") for name in table.index])
    axes.set(xlabel="model and target", ylabel="error rate (0 to 1)")
    axes.set_title("Dashed: the truth for a target that is drawn by coin")
    axes.legend(frameon=False, ncols=5, loc="upper left")
    axes.set_ylim(0, 0.68)
    figure.savefig(path)


def main(folder: Path, draws: int = 100) -> None:
    """Estimate two models on the real target and on one drawn by coin, and end with one picture."""
    frame = load_breast_cancer(as_frame=True).frame.rename(columns={"target": "benign"})
    frame.insert(0, "patient", range(len(frame)))
    coins = [frame.assign(benign=np.random.default_rng(seed).integers(0, 2, len(frame))) for seed in range(COINS)]
    told = {
        f"{name}, {what}": pd.DataFrame([errors(model, each, draws) for each in data]).mean()
        for what, data in (("real target", [frame]), ("coin", coins))
        for name, model in MODELS.items()
    }
    table = pd.DataFrame(told).T
    path = folder / "breast_cancer.png"
    picture(table, path)
    good, heart = table.loc["logistic regression, real target"], table.loc["1 nearest neighbour, coin"]
    print(path)
    print(
        f"On the real target the methods agree for a model that generalises: error {good['10-fold']:.3f} by 10-fold, "
        f"{good['.632']:.3f} by .632, {good['.632+']:.3f} by .632+."
    )
    print(
        f"Of a coin nobody can know more than half, yet .632 says {heart['.632']:.2f} of the neighbour that knows its "
        f"rows by heart (apparent error {heart['apparent']:.2f})."
    )
    print(f".632+ sees that and says {heart['.632+']:.2f}, and 10-fold {heart['10-fold']:.2f}.")


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "."), int(sys.argv[2] if len(sys.argv) > 2 else 100))
