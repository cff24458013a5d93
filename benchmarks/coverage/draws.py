"""How often the interval of .632+ holds the truth: from the same draws, on the processes of the study."""

from __future__ import annotations

import numpy as np
from evenfold.estimates import (
    Answered,
    Declined,
    Multiplicities,
    bootstrap_estimate,
    metric_of,
    no_information_rate,
)
from evenfold.estimates.bootstrap import interval_of_draws, spread_of_draws

from .processes import POPULATION, Array, Process, Sample
from .study import LEVEL, Covered, _covered, _frame, _population

DRAWS, SETS = 100, 80


def study_of_draws(process: Process, n_sets: int = SETS, n_draws: int = DRAWS) -> list[Covered]:
    """Return the coverage of .632+ for each metric that is a mean over rows; whole clusters are drawn."""
    population, covered = _population(process), []
    for metric in process.metrics:
        if metric_of(metric).loss is None:
            continue
        ends, truths = [], []
        for number in range(n_sets):
            sample = process.draw(np.random.default_rng([number, 9]), process.n)
            beta = process.fit(sample.X, sample.y)
            truths.append(-float(_losses(metric, process, population, np.arange(POPULATION), beta).mean()))
            ends.append(_interval(metric, process, sample, beta, np.random.default_rng([number, 10]), n_draws))
        record = metric_of(metric).loss
        assert record is not None
        covered.append(_covered(process, metric, ".632+", ends, [record.best + truth for truth in truths]))
    return covered


def _losses(metric: str, process: Process, sample: Sample, rows: Array, beta: Array) -> Array:
    frame = _frame(process, sample, rows, beta, 0)
    loss = metric_of(metric).loss
    assert loss is not None
    return loss.of(Answered.of(frame, process.classes))


def _interval(
    metric: str, process: Process, sample: Sample, beta: Array, rng: np.random.Generator, n_draws: int
) -> tuple[float, float]:
    n, every, record = len(sample.y), np.arange(len(sample.y)), metric_of(metric)
    units = every if sample.groups is None else sample.groups
    sums, counts, means, pairs = np.zeros(n), np.zeros(n), [], []
    for draw in range(n_draws):
        times = np.bincount(rng.integers(0, units.max() + 1, units.max() + 1), minlength=units.max() + 1)[units]
        train, test = np.repeat(every, times), np.flatnonzero(times == 0)
        fitted = process.fit(sample.X[train], sample.y[train])
        lost = _losses(metric, process, sample, test, fitted)
        sums += np.bincount(test, weights=lost, minlength=n)
        counts += np.bincount(test, minlength=n)
        means.append(float(lost.mean()) if lost.size else float("nan"))
        pairs.append((draw, (train, test)))
    answered = Answered.of(_frame(process, sample, every, beta, 0), process.classes)
    gamma = no_information_rate(metric, answered)
    assert record.loss is not None
    drawn = Multiplicities.of(pairs, every, sample.groups, np.ones(n))
    per_row = sums / np.maximum(counts, 1)
    err, err1 = record.loss.of(answered).mean(), per_row[counts > 0].mean()
    made = bootstrap_estimate(float(err), float(err1), float(np.nanmean(means)), record.loss.score(gamma))
    spread = spread_of_draws(per_row, np.ones(n), sample.groups, drawn, np.array(means))
    interval = interval_of_draws(record, record.loss.score(made.e632plus), made.err1, spread, LEVEL)
    return (float("nan"),) * 2 if isinstance(interval, Declined) else (interval.low, interval.high)
