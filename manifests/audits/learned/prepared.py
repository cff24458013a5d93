"""Cells that were filled and features that were chosen with the targets of all rows."""

from __future__ import annotations

import numpy as np
from evenfold.manifests.audits.findings import DropFeatures, Found, NotAsked, Outcome
from evenfold.manifests.tables.canonical import listed
from scipy.stats import chi2, f, norm

from .sample import BY_CHANCE, Array, Codes, Sample

LEAST_CELLS, CELLS_A_COLUMN, MOST_OTHERS = 20, 5, 30
# Of what is open, and of the column's variance; and how much is left beside what others leave.
LEAST_GAIN, OF_ALL, QUIETER = 0.1, 0.01, 0.5
LEAST_CHOSEN, CHOSEN, CUT, GAP = 10, 0.8, 0.05, 5.0
RELATED = 3.0  # standard errors of a correlation, from which columns are no evidence apart


def filled_cells(sample: Sample) -> Outcome:
    """Look for numbers whose gaps were filled with the help of the target.

    Filled are cells with more digits than their column is written with, that scatter half as much as the others around
    what the other columns say. The target may not explain more of what these leave open there than in measured cells,
    by a tenth (an F test, and one of two correlations, with .03 / 15 over all columns).
    O(columns x n x 30^2) for at most 8,000 rows.
    """
    if sample.why_not:
        return sample.why_not
    sample = sample.learned
    target, signs, rows = sample.target, dict[str, str](), dict[str, list[int]]()
    outcomes = np.column_stack([_scaled(target.values), target.outcomes]) if target.numeric else target.outcomes
    numbers = {c: _scaled(c.values) for c in sample.feature_columns() if c.kind == "number" and c.n_levels > 2}
    least = LEAST_CELLS + CELLS_A_COLUMN * min(len(numbers) - 1, MOST_OTHERS)
    for column, own in numbers.items():
        present, computed = column.codes >= 0, column.decimals > np.median(column.decimals)
        sides = present & computed, present & ~computed
        if min(side.sum() for side in sides) < least:
            continue
        others = sorted((z for z in numbers.values() if z is not own), key=lambda z: -abs(z @ own))[:MOST_OTHERS]
        space = np.column_stack([np.ones(own.size), *others])
        (there, share, chance, left), (usual, _, _, beside) = (_gain(own[s], space[s], outcomes[s]) for s in sides)
        apart = np.arctanh(np.sqrt(there)) - np.arctanh(np.sqrt(usual))
        chance = max(chance, float(norm.sf(apart / np.sqrt(sum(1.0 / side.sum() for side in sides)))))
        large = there - usual > LEAST_GAIN and share > OF_ALL and left < QUIETER * beside
        if large and chance * len(numbers) < BY_CHANCE:
            cells = sample.rows[sides[0]]
            rows[column.name] = cells[:10].tolist()
            shares = f"{there:.0%} in {cells.size:,} cells, as in row {cells.min()}, {usual:.0%} in others"
            signs[column.name] = f"{column.name} ({shares})"
    if not signs:
        return None
    message = (
        f"cells that were computed know {target.name!r}, which tells more there of what the other columns leave open: "
        f"{listed(signs.values())}{sample.looked_at}; fill gaps in the model's pipeline, without the target."
    )
    return Found(len(signs), message, {"features": [*signs], "rows": rows}, DropFeatures(tuple(signs)))


def _scaled(values: Array) -> Array:
    away = np.nan_to_num(values - np.nanmean(values))
    return np.asarray(away / max(float(away.std()), 1e-300))


def _gain(z: Array, space: Array, outcomes: Array) -> tuple[float, float, float, float]:
    """Return what the target adds: as a share of what is left, in variance, by what chance; and what is left then."""
    both = np.column_stack([space, outcomes])
    a, b = (float(np.square(z - X @ np.linalg.lstsq(X, z, rcond=None)[0]).sum()) for X in (space, both))
    free, added = z.size - both.shape[1], outcomes.shape[1]
    gain = min(max(1.0 - b / max(a, 1e-300), 0.0), 0.9999)
    chance = float(f.sf((a - b) / added / max(b / free, 1e-300), added, free))
    return gain, (a - b) / z.size, chance, b / free


def chosen_features(sample: Sample) -> Outcome:
    """Look whether the features are the best of many that were tried on all rows, tested ones included.

    The noise of which the best is chosen lies just beyond a cut: its correlations with the target, in standard errors,
    lie closer together than the errors of sampling let those of honest features lie, whatever these are worth. Asked of
    ten numbers at least, four fifths of all features, whose p-values are below .05 and a fifth of any other's; their
    errors may scatter so little with a chance of .03 / 15 (chi-squared). Numbers that go with each other are no
    evidence. O(columns^2 x n) for at most 8,000 rows.
    """
    if sample.why_not:
        return sample.why_not
    sample = sample.learned
    target, least = sample.target, max(LEAST_CHOSEN, int(np.ceil(CHOSEN * len(sample.features))))
    numbers = [c for c in sample.feature_columns() if c.kind == "number" and c.n_levels > 1 and (c.codes >= 0).all()]
    if len(numbers) < least:
        return NotAsked(f"fewer than {least} features are numbers without a gap")
    scaled = np.column_stack([_scaled(c.values) for c in numbers])
    forms = [target.outcomes, _scaled(target.values)[:, None]] if target.numeric else [target.outcomes]
    for outcomes in forms:
        best, cut, chance = _best(scaled, outcomes, least)
        if chance * len(forms) < BY_CHANCE:
            names = [numbers[i].name for i in best]
            message = (
                f"{best.size} features ({listed(names, most=4)}) go with {target.name!r} with p-values evenly below "
                f"{cut:.2g}, as the best of some {best.size / cut:,.0f} that were tried on all rows do"
                f"{sample.looked_at}; choose features in the model's pipeline."
            )
            return Found(best.size, message, {"features": names, "cut": cut, "chance": chance})
    return None


def _best(scaled: Array, outcomes: Array, least: int) -> tuple[Codes, float, float]:
    """Return the columns before a gap in their p-values, the largest of these, and by what chance they are so even."""
    left = outcomes - outcomes.mean(axis=0)
    left = left[:, : max(1, left.shape[1] - 1)]
    n, m = left.shape
    explained = np.square(np.linalg.qr(left)[0].T @ scaled).sum(axis=0) / n
    chances = f.sf(explained / m / np.maximum((1.0 - explained) / (n - m - 1), 1e-300), m, n - m - 1)
    order = np.argsort(chances, kind="stable")
    ranked = chances[order]
    beyond = np.append(ranked[least:], np.inf) / np.maximum(ranked[least - 1 :], 1e-300)
    ends = least + np.flatnonzero((beyond > GAP) & (ranked[least - 1 :] < CUT))
    if not ends.size:
        return order[:0], CUT, 1.0
    best, cut = order[: ends[-1]], float(ranked[ends[-1] - 1])
    alike = np.asarray(np.corrcoef(scaled[:, best].T))[np.triu_indices(best.size, 1)]
    errors = norm.isf(ranked[: best.size] / 2.0)
    even = float(chi2.cdf(np.square(errors - errors.mean()).sum(), best.size - 1))
    return best, cut, even if np.median(np.abs(alike)) * np.sqrt(n) < RELATED else 1.0
