"""Coverage of intervals: on flights, whose truth is the rest of them, and on processes whose truth is known."""

from __future__ import annotations

from typing import Any

from benchmarks.coverage import flights
from benchmarks.coverage.processes import PROCESSES
from benchmarks.coverage.study import LEVEL, study

SETS = 60
# The default's coverage of the model's own error, nominal .90: .80 where errors have a heavy tail, .87 elsewhere; less
# two Monte Carlo errors of this many data sets.
LEAST = {process.name: 0.80 if "heavy" in process.name else 0.87 for process in PROCESSES}


def rows() -> list[dict[str, Any]]:
    """Return the rows of the table: every process with the default beside the interval that ignores training."""
    return flights.rows() + [row for process in PROCESSES for row in _of(process)]


def _of(process: Any) -> list[dict[str, Any]]:
    covered = {(each.metric, each.method): each for each in study(process, SETS, ("auto", "wald"))}
    told = []
    for metric in process.metrics:
        ours, plain = covered[metric, "auto"], covered[metric, "wald"]
        least = LEAST[process.name] - 2 * (0.9 * 0.1 / SETS) ** 0.5
        told.append(
            {
                "work": f"intervals that say {LEVEL:.2f}, {ours.n} data sets, {process.name}: {metric}",
                "ours": f"covers {ours.model:.3f}",
                "peer": f"models as given (Wald): {plain.model:.3f}",
                "ratio": round(ours.width / plain.width, 2),
                "target": f"at least {least:.2f}",
                "met": ours.model >= least,
            }
        )
    return told


def notes() -> str:
    """Return how to read it."""
    return (
        f"{flights.notes()} Processes: the ratio is of median widths; the full study, more methods on 300 data sets "
        "each, is in docs/coverage.md (`python -m benchmarks.coverage`)."
    )
