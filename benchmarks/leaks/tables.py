"""The tables into which leaks are planted: small or wide, a class or a number to predict, and nothing wrong."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import pandas as pd

SIZES = {"small": (800, 6), "wide": (2500, 60)}


@dataclass
class Table:
    """A frame with a key ``id`` and a target ``y``, the fold of each row, and what the user names."""

    frame: pd.DataFrame
    folds: np.ndarray
    random: np.random.Generator
    roles: dict[str, str] = field(default_factory=dict)
    grown: int = 0

    @property
    def n(self) -> int:
        return len(self.frame)

    @property
    def numeric(self) -> bool:
        return bool(self.frame["y"].nunique() > 20)

    @property
    def features(self) -> list[str]:
        return [name for name in self.frame if name not in ("id", "y")]

    def outcome(self) -> np.ndarray:
        """Return the target as numbers of mean 0 and spread 1."""
        y = self.frame["y"].to_numpy(dtype=float)
        return (y - y.mean()) / y.std()

    def redraw_target(self, effect: np.ndarray) -> None:
        """Draw the target anew with a further effect, of spread 1, on each row."""
        self.frame["y"] = _target(self.frame, effect, self.random, self.numeric)


def clean(size: str, numeric: bool, seed: int) -> Table:
    """Return a table of mixed columns, some skewed, some counts, some with gaps, and five random folds."""
    n, columns = SIZES[size]
    random = np.random.default_rng([seed, n, columns, numeric])
    made: dict[str, np.ndarray] = {"id": np.array([f"K{i:06d}" for i in range(n)])}
    hidden = random.normal(size=n)
    for i in range(columns):
        value = 0.4 * hidden + random.normal(size=n)
        kind = i % 6
        if kind == 1:
            value = np.exp(0.8 * value)
        if kind == 3:
            value = np.floor(20 + 12 * value)
        if kind == 4:
            value = np.where(random.random(n) < 0.08, np.nan, value)
        made[f"x{i}"] = value
    made["kind"] = random.choice(["alder", "birch", "cedar", "elm", "fir"], n, p=[0.4, 0.25, 0.2, 0.1, 0.05])
    made["sex"] = random.choice(["f", "m"], n)
    frame = pd.DataFrame(made)
    frame["y"] = _target(frame, np.zeros(n), random, numeric)
    return Table(frame, random.permutation(np.arange(n) % 5), random)


def _target(frame: pd.DataFrame, effect: np.ndarray, random: np.random.Generator, numeric: bool) -> np.ndarray:
    x = frame[["x0", "x2", "x5"]].to_numpy()
    signal = x[:, 0] + 0.7 * x[:, 1] - 0.5 * x[:, 2] * x[:, 0] + 0.6 * (frame["kind"] == "birch").to_numpy()
    value = signal + random.normal(size=len(frame)) * 1.2 + 2.0 * effect
    return np.round(value * 10 + 50, 2) if numeric else (value > np.quantile(value, 0.6)).astype(int)
