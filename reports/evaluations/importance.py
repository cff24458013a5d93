"""What a model uses: the picture, the table and the sentence."""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd
from evenfold.estimates.metrics.registry import metric_of
from evenfold.estimates.models.importance import importance_table
from evenfold.estimates.results import FoldScore
from evenfold.reports.charts import Picture, around
from evenfold.reports.page import Section, Table, counted, number

from .words import written

MOST_DRAWN, MOST_NAMED = 12, 3


def importance_section(used: pd.DataFrame, name: str) -> list[Section]:
    """Return the picture of the features' importance by metric ``name``: each feature's mean, least and most."""
    if used.empty:
        return []
    drawn, more = used.head(MOST_DRAWN), len(used) - MOST_DRAWN
    places = {feature: len(drawn) - i - 0.5 for i, feature in enumerate(drawn["feature"])}
    caption = (
        f"Dots are means over {counted(int(drawn['folds'].max()), 'fold')}, bars reach from the least to the most of "
        "them. Measured on rows of the test folds, whose values changed places at random; features that say the same "
        f"share what they are worth.{f' {more:,} more are in the table below.' if more > 0 else ''}"
    )
    title = _title(drawn.iloc[0], name)
    picture = Picture(
        title, f"how far {_moves(name)}", "", around([0.0, *drawn["least"], *drawn["most"]]), (0, len(drawn)),
        height=60 + 24 * len(drawn), y_ticks=[(y, feature) for feature, y in places.items()], caption=caption,
    )  # fmt: skip
    for _, row in drawn.iterrows():
        y, ends = places[row["feature"]], f"{written(row['least'])} to {written(row['most'])}"
        hint = f"{row['feature']}: {written(row['mean'])}, in folds {ends}"
        picture.bar(row["least"], row["most"], y - 0.18, y + 0.18, "band", hint)
        picture.dots([(row["mean"], y, hint)], 0, 4.5)
    picture.across("whole", x=0.0, hint="no change")
    return [Section("importance", title, [picture])]


def importance_rows(used: pd.DataFrame) -> Table:
    """Return the importance of every feature in figures."""
    figures = ["mean", "sd", "least", "most", "folds"]
    rows = [[row["feature"], *(number(row[name]) for name in figures)] for _, row in used.iterrows()]
    note = "sd: spread (n - 1) over folds that share training rows, no interval."
    return Table("Importance of the features", rows, ["feature", *figures], note)


def importance_words(scores: Sequence[FoldScore], name: str) -> str:
    """Return one sentence: the features that matter most, and by how much; nothing where that was not measured."""
    table = importance_table(scores)
    top = table[table["mean"] > 0].head(MOST_NAMED)
    if table.empty:
        return ""
    if top.empty:
        return "Importance: no feature's values matter on the test rows."
    features = ", ".join(f"{row['feature']} {written(row['mean'], row['sd'])}" for _, row in top.iterrows())
    return f"Importance: {_moves(name)} by this much where a feature's values change places: {features}."


def _moves(name: str) -> str:
    metric = metric_of(name)
    return f"{metric.title} {'rises' if metric.lower_is_better else 'falls'}"


def _title(first: pd.Series, name: str) -> str:
    if not first["mean"] > 0:
        return f"No feature matters on the test rows: {metric_of(name).title} stays as it is without any of them"
    by = written(first["mean"], first["sd"])
    return f"{first['feature']} matters most: {_moves(name)} by {by} where its values change places"
