"""Eighty columns are enough: sentences break between words, tables leave columns out and no name is cut."""

from __future__ import annotations

import io
from typing import Any

import pytest
from evenfold.estimates import Estimate
from evenfold.estimates.results import Interval
from evenfold.flows.commands.show import Left, Words, _estimate_tables, _remarks, first_that_fits
from rich.progress import Progress
from rich.table import Table

METRICS = ("r2", "neg_mean_absolute_error", "neg_root_mean_squared_error")
LONG = "  Overfitting: " + "rows that the model has seen are not rows that it has not; " * 4


def shown(said: Any, width: int = 80, terminal: bool = True, **how: Any) -> list[str]:
    console = Words(file=io.StringIO(), force_terminal=terminal, width=width, soft_wrap=True, color_system=None)
    console.print(said, **how)
    return console.file.getvalue().splitlines()  # type: ignore[attr-defined]


def estimates(methods: tuple[str, ...] = ("cross-validation",), notes: dict[str, str] | None = None) -> list[Estimate]:
    interval = Interval(low=-10.7005, high=-5.2106, level=0.95, method="pooled rows", notes=())
    return [
        Estimate(metric, method, -7.3916, 3.4, None, 5, -7.9, -6.3, interval=interval,
                 notes=(notes[metric],) if notes and metric in notes else ())
        for metric in METRICS for method in methods
    ]  # fmt: skip


def test_a_sentence_breaks_between_words_and_keeps_its_indentation() -> None:
    """On a terminal; the words are the same, and no line is too long or ends in blanks."""
    lines = shown(LONG)
    assert len(lines) > 2
    assert all(len(line) <= 80 and line.startswith("  ") and line == line.rstrip() for line in lines)
    assert " ".join(" ".join(lines).split()) == " ".join(LONG.split())


def test_elsewhere_and_where_it_is_copied_a_line_stays_whole() -> None:
    """A log and a pasted command have no line breaks that nobody wrote."""
    assert shown(LONG, terminal=False) == [LONG]
    assert shown(LONG, soft_wrap=True) == [LONG]
    assert shown("a [b]\n  c", markup=False) == ["a [b]", "  c"]


@pytest.mark.parametrize(("width", "columns"), [(140, 7), (80, 4), (60, 3)])
def test_a_narrow_table_leaves_columns_out_and_cuts_no_name(width: int, columns: int) -> None:
    """Of cross-validation the method moves to the head of the values."""
    console = Words(file=io.StringIO(), force_terminal=True, width=width)
    table = first_that_fits(console, _estimate_tables(estimates()))
    assert len(table.columns) == columns
    lines = shown(table, max(width, 80))
    assert all(any(metric in line for line in lines) for metric in METRICS)
    assert "…" not in "".join(lines)
    assert "cross-validation" in "".join(lines)


def test_several_methods_keep_their_column() -> None:
    """Out-of-bag and .632 of one metric are two rows that must be told apart."""
    console = Words(file=io.StringIO(), force_terminal=True, width=80)
    table = first_that_fits(console, _estimate_tables(estimates(("out-of-bag", ".632"))))
    assert [column.header for column in table.columns][:3] == ["metric", "method", "value"]


def test_the_last_table_is_shown_where_none_fits() -> None:
    """A very narrow window still gets something."""
    tables = [Table("a" * 50), Table("b" * 30)]
    assert first_that_fits(Words(width=20), tables) is tables[1]


def test_a_remark_names_its_metric_unless_it_is_about_all() -> None:
    """Or says it itself."""
    notes = {"r2": "Heavy tail: 1 group.", "neg_mean_absolute_error": "neg_mean_absolute_error is small."}
    assert _remarks(estimates(notes=notes)) == ["r2: Heavy tail: 1 group.", "neg_mean_absolute_error is small."]
    assert _remarks(estimates(notes=dict.fromkeys(METRICS, "There are 25 groups."))) == ["There are 25 groups."]


def test_the_time_of_what_is_done_stands_still() -> None:
    """What is under way says the time left, what is done the time it took."""
    now = [0.0]
    bar = Progress(get_time=lambda: now[0])
    task = bar.add_task("fitting", total=10)
    now[0] = 5.0
    bar.update(task, completed=1)
    now[0] = 10.0
    bar.update(task, completed=5)
    assert str(Left().render(bar.tasks[0])).endswith(" left")
    bar.update(task, completed=10)
    now[0] = 90.0
    assert str(Left().render(bar.tasks[0])) == "0:10"
