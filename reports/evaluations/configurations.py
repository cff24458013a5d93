"""The page of a tuning: which configuration to take, what to expect of it, and how the search went."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from evenfold.estimates.metrics.record import Metric
from evenfold.estimates.metrics.registry import metric_of
from evenfold.estimates.results import Estimate, Interval, in_percent
from evenfold.estimates.selection import Choice
from evenfold.reports.charts import Picture, around, named, ticks
from evenfold.reports.page import Origin, Page, Remark, Section, Table, Tile, Verdict, counted, number

from .words import direction, headline, valued, written

MOST_CONFIGURATIONS = 60
LEAST_OF_A_SEARCH = 3


def tuning_page(
    metric: str,
    configurations: Sequence[Mapping[str, Any]],
    scores: Sequence[float],
    spreads: Sequence[float | None],
    choice: Choice,
    origin: Origin | None = None,
    nested: Estimate | None = None,
    what: str = "",
) -> Page:
    """Return the page about a choice among configurations of ``what``; ``spreads`` are the sds over splits.

    ``scores``: of all predictions together, of draws their mean. ``nested``: the score of choosing anew in every fold.
    """
    reading = metric_of(metric)
    order = sorted(range(len(scores)), key=lambda i: -scores[i])
    picture = _configurations_picture(reading, configurations, scores, spreads, choice, order)
    titles = [_params(each) + (" (chosen)" if i == choice.chosen else "") for i, each in enumerate(configurations)]
    rows = [[titles[i], number(scores[i]), number(spreads[i])] for i in order]
    head = ["configuration", f"{reading.title}, as scikit-learn scores", "sd over splits"]
    simpler = [] if choice.chosen == choice.best else [
        Remark("note", f"{_params(configurations[choice.best])} has the best score; the chosen one is as good within "
                       "one standard error, and comes first in the grid.")
    ]  # fmt: skip
    return Page(
        title=f"Tuning {what}".strip(),
        verdict=Verdict.NONE,
        lead=f"Take {_params(configurations[choice.chosen])}.",
        tiles=[*_tiles_of_choosing_anew(nested), *_tiles_of_choice(reading, choice, len(scores))],
        findings=[*simpler, *(Remark("note", note) for note in choice.notes)],
        sections=[Section("configurations", picture.title, [picture]), *_search(reading, configurations, scores)],
        details=[Section("figures", f"Every configuration ({len(scores):,})",
                         [Table("Every configuration", rows, head)])],
        footer=(origin or Origin()).words(),
    )  # fmt: skip


def _tiles_of_choice(reading: Metric, choice: Choice, n_tried: int) -> list[Tile]:
    half, luck = (choice.high - choice.low) / 2, choice.naive - choice.value
    value, ends = valued(reading, choice.value, Interval(choice.low, choice.high, choice.level, ""))
    expected = f"{reading.title} to expect {in_percent(choice.level)} {ends}"
    if n_tried == 1:
        return [Tile(value, expected, "one configuration: nothing was chosen")]
    flattered = f"too good by {written(luck, half)}" if luck > 0 else "no luck was found in it"
    return [
        Tile(value, expected, f"{'corrected' if luck else 'nothing is taken off'} for having been chosen"),
        Tile(written(reading.shown(choice.naive), half), f"{reading.title} of the chosen one, as it scored",
             flattered),
        Tile(f"{n_tried:,}", "configurations tried", "each on every split"),
    ]  # fmt: skip


def _tiles_of_choosing_anew(nested: Estimate | None) -> list[Tile]:
    if nested is None:
        return []
    title, value, ends = headline(nested)
    level = f" {in_percent(nested.interval.level)}" if nested.interval else ""
    return [Tile(value, f"{title} of choosing anew in every fold{level} {ends}".strip(), "nested tuning")]


def _params(params: Mapping[str, Any]) -> str:
    return ", ".join(f"{name} = {json.dumps(value, default=str)}" for name, value in params.items()) or "defaults"


def _values(params: Mapping[str, Any]) -> str:
    """Return the values of several parameters, whose names stand above them; of one parameter its name as well."""
    return (
        ", ".join(json.dumps(value, default=str) for value in params.values()) if len(params) > 1 else _params(params)
    )


def _configurations_picture(
    reading: Metric,
    configurations: Sequence[Mapping[str, Any]],
    scores: Sequence[float],
    spreads: Sequence[float | None],
    choice: Choice,
    order: Sequence[int],
) -> Picture:
    drawn = list(order[:MOST_CONFIGURATIONS])
    ends = [reading.shown(scores[i] + side * (spreads[i] or 0.0)) for i in drawn for side in (-1, 1)]
    picture = Picture(
        _race(scores, spreads, choice),
        f"{reading.title} ({direction(reading)}), and the sd of the splits", "", around(ends), (-len(drawn) + 0.4, 0.6),
        height=64 + 22 * len(drawn), y_ticks=[(-i, _values(configurations[at])) for i, at in enumerate(drawn)],
    )  # fmt: skip
    picture.y_label = ", ".join(configurations[0]) if len(configurations[0]) > 1 else ""
    for i, at in enumerate(drawn):
        value, sd = reading.shown(scores[at]), spreads[at] or 0.0
        picture.line([(value - sd, -i), (value + sd, -i)], "axis")
        picture.dots([(value, -i, f"{_params(configurations[at])}: {written(value)}")], 1 if at == choice.chosen else 0)
    picture.name("chosen", 1, "dot")
    return picture


def _race(scores: Sequence[float], spreads: Sequence[float | None], choice: Choice) -> str:
    """Return how far ahead the best is, by its sd over the splits where that is known."""
    if len(scores) == 1:
        return "One configuration was tried, so nothing was chosen"
    sd = spreads[choice.best]
    near = sum(score >= scores[choice.best] - (sd or 0.0) for score in scores)
    if near > 1:
        where = "that score as well as the best" if sd is None else "within one sd of the best"
        return f"A close race: {counted(near, 'configuration')} of {len(scores):,} {where}"
    apart = "; how far splits scatter is not known" if sd is None else " by more than its sd"
    return f"One configuration is ahead of all others{apart}"


def _search(reading: Metric, configurations: Sequence[Mapping[str, Any]], scores: Sequence[float]) -> list[Section]:
    """Return the picture of the score of each try in the order tried, and of the best so far; none of very few."""
    if len(scores) < LEAST_OF_A_SEARCH:
        return []
    best_so_far = [max(scores[: i + 1]) for i in range(len(scores))]
    first = best_so_far.index(best_so_far[-1])
    after = len(scores) - 1 - first
    nothing = f"the {after:,} after it brought nothing better" if after > 1 else "a longer search may find a better one"
    picture = Picture(
        f"The best came with try {first + 1:,} of {len(scores):,}; {nothing}",
        "try", f"{reading.title} ({direction(reading)})", (0.5, len(scores) + 0.5),
        around([reading.shown(score) for score in scores]),
        x_ticks=named(ticks(1, len(scores), whole=True)),
    )  # fmt: skip
    steps = [(i + 1 + side, reading.shown(best)) for i, best in enumerate(best_so_far) for side in (-0.5, 0.5)]
    picture.line(steps, 1)
    picture.dots(
        [(i + 1, reading.shown(score), f"try {i + 1}, {_params(configurations[i])}: {written(reading.shown(score))}")
         for i, score in enumerate(scores)],
        0,
    )  # fmt: skip
    picture.name("one try", 0, "dot")
    picture.name("best so far", 1, "line")
    return [Section("search", picture.title, [picture])]
