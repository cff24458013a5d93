"""Eighty columns are enough: sentences break between words, tables leave columns out and no name is cut."""

from __future__ import annotations

import io
import math
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from evenfold.estimates import Comparison, Estimate, FoldScore, ModelSpec
from evenfold.estimates.results import Interval
from evenfold.flows import split
from evenfold.flows.commands.console import Words, consoles, first_that_fits, lined_up
from evenfold.flows.commands.scores import remarks, score_tables, show_comparisons, show_later, worth_of
from evenfold.flows.commands.show import Left, progress, show_balance, show_split
from evenfold.flows.outcomes import LaterScore, Tuning
from evenfold.manifests import decide, extend, measure, write_manifest
from evenfold.reports import Page, Verdict, beside_promises
from evenfold.reports.evaluations.page import score_tiles
from evenfold.tasks import Home, SplitRef
from evenfold.tasks.runtime.progress import say
from rich.console import Console
from rich.progress import Progress

METRICS = ("r2", "neg_mean_absolute_error", "neg_root_mean_squared_error")
SCORES = [FoldScore(f"fold {i}", 0, i, dict.fromkeys(METRICS, -7.4 + i), {}, 80, 20, 0.1, 0.1) for i in range(2)]
LONG = "  Overfitting: " + "rows that the model has seen are not rows that it has not; " * 4


def shown(said: Any, width: int = 80, terminal: bool = True, **how: Any) -> list[str]:
    console = Words(file=io.StringIO(), force_terminal=terminal, width=width, soft_wrap=True, color_system=None)
    console.print(said, **how)
    return console.file.getvalue().splitlines()  # type: ignore[attr-defined]


def shown_by(show: Callable[..., None], *about: Any) -> str:
    """Return what a view prints of something, on 140 columns and without colours."""
    console = Words(file=io.StringIO(), width=140, color_system=None, highlight=False)
    show(console, *about)
    return console.file.getvalue()  # type: ignore[attr-defined, no-any-return]


def estimates(methods: tuple[str, ...] = ("cross-validation",), notes: dict[str, str] | None = None) -> list[Estimate]:
    interval = Interval(low=-10.7005, high=-5.2106, level=0.95, method="pooled rows", notes=())
    return [
        Estimate(metric, method, -7.3916, 3.4, None, 5, -7.9, -6.3, interval=interval,
                 notes=(notes[metric],) if notes and metric in notes else ())
        for metric in METRICS for method in methods
    ]  # fmt: skip


def test_who_stops_reading_changes_no_exit_code(tmp_path: Path) -> None:
    """Behind ``| head`` a command ends as it would have: 1 would say that a gate failed."""
    folder = write_manifest(decide({"strategy": "KFold"}, pd.DataFrame({"x": range(30)})), tmp_path)
    command = [sys.executable, "-c", "from evenfold.flows.cli import main; main()", "show", str(folder)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as ran:
        assert ran.stdout is not None
        assert ran.stderr is not None
        ran.stdout.close()
        assert (ran.stderr.read(), ran.wait()) == (b"", 0)


def test_a_sentence_breaks_between_words_and_keeps_its_indentation() -> None:
    """On a terminal; elsewhere, and where it is copied, a line stays whole."""
    lines = shown(LONG)
    assert len(lines) > 2
    assert all(len(line) <= 80 and line.startswith("  ") and line == line.rstrip() for line in lines)
    assert " ".join(" ".join(lines).split()) == " ".join(LONG.split())
    assert shown(LONG, terminal=False) == shown(LONG, soft_wrap=True) == [LONG]


def test_columns_says_how_wide_a_pipe_is(monkeypatch: pytest.MonkeyPatch) -> None:
    """Sentences are broken there too, and go on further in; without it a line stays whole for programs."""
    monkeypatch.setenv("COLUMNS", "60")
    out, _ = consoles()
    assert out.width == 60
    out.file = io.StringIO()
    out.say(LONG, hang=4)
    lines = out.file.getvalue().splitlines()
    assert all(len(line) <= 60 and line.startswith("      ") for line in lines[1:])
    monkeypatch.delenv("COLUMNS")
    out, _ = consoles()
    out.file = io.StringIO()
    out.say(f"{LONG} :smile: rate[/h]", hang=4)
    assert out.file.getvalue() == f"{LONG} :smile: rate[/h]\n"


def test_a_table_is_aligned_by_what_a_terminal_shows() -> None:
    """Wide letters take two places; no line ends in blanks."""
    assert lined_up([["", "n"], ["\u6771\u4eac", "10"], ["a", ""]]) == ["         n", "  \u6771\u4eac  10", "  a"]
    assert first_that_fits(Words(width=20), [["a" * 50], ["b" * 30]]) == "b" * 30, "the last where none fits"
    table = first_that_fits(Words(width=140), score_tables([], estimates(("out-of-bag", ".632"))))
    assert [line.split("  ")[1] for line in table.splitlines()[1:3]] == ["R2, out-of-bag", "R2, .632"]


@pytest.mark.parametrize(("width", "columns"), [(140, 4), (64, 3), (50, 2)])
def test_a_narrow_table_leaves_columns_out_and_cuts_no_name(width: int, columns: int) -> None:
    """The score and its interval stay to the last."""
    console = Words(file=io.StringIO(), force_terminal=True, width=width)
    lines = first_that_fits(console, score_tables(SCORES, estimates())).splitlines()
    heads = ("cross-validation", "95 % interval", "folds", "training rows")
    assert sum(head in lines[0] for head in heads) == columns
    assert [line.split()[0] for line in lines[1:]] == ["R2", "MAE", "RMSE"]
    assert "cross-validation" in lines[0]


def test_scores_are_shown_as_people_read_them() -> None:
    """An error is positive, its interval in order, with as many digits as the interval leaves a meaning."""
    r2, mae, _ = first_that_fits(Words(width=140), score_tables(SCORES, estimates())).splitlines()[1:]
    assert r2.split() == ["R2", "-7.4", "-10.7", "to", "-5.2", "-7.4", "-6.4", "-6.3"]
    assert mae.split() == ["MAE", "7.4", "5.2", "to", "10.7", "7.4", "6.4", "6.3"]
    many = [replace(SCORES[0], fold=i, test={metric: -float(i) for metric in METRICS}) for i in range(20)]
    assert "0.0 to 19.0" in first_that_fits(Words(width=140), score_tables(many, estimates()))
    many[3] = replace(many[3], test=dict.fromkeys(METRICS, -math.inf))
    assert "0.0 to undefined" in first_that_fits(Words(width=140), score_tables(many, estimates()))


def later(promised: list[Estimate], **more: Any) -> LaterScore:
    """Return a score on later rows of a model that promised these estimates."""
    split = SplitRef(
        uri="", data="", name="beds", version="1.0", split_id="", plan_id="", kind="labels", strategy="KFold",
        algorithm_version="1", n_rows=100, n_splits=5,
    )  # fmt: skip
    made = {"model": ModelSpec(estimator="sklearn.linear_model:Ridge"), "name": "june", "known_groups": None, **more}
    return LaterScore(run="1", split=split, rows=20, estimates=estimates()[:1], promised=promised, **made)


def test_later_rows_stand_beside_the_estimate_that_was_reported(home: Home) -> None:
    """Of a bootstrap's out-of-bag and .632+ the last is the promise: on the terminal, on the page, and in the words."""
    first, last = (replace(estimates()[0], method=method) for method in ("out-of-bag", ".632+"))
    last = replace(last, value=-1.0, interval=Interval(-2.0, -0.5, 0.95, "a method"))
    said = shown_by(show_later, later([first, last]))
    assert "-1.00  -2.00 to -0.50" in said
    assert "R2 is worse than promised" in said
    page = beside_promises(Page("", Verdict.NONE, "", score_tiles(estimates()[:1])), estimates()[:1], [first, last])
    assert page.tiles[0].note == "promised -1.00 [-2.00, -0.50]"


@pytest.mark.parametrize("terminal", [True, False])
def test_brackets_in_what_is_printed_are_brackets(terminal: bool) -> None:
    """Markup is in the words of a heading alone, and what stands in them is text; a bracket that closes nothing too."""
    assert shown("site [id], [/b]", terminal=terminal) == ["site [id], [/b]"]
    console = Words(file=io.StringIO(), force_terminal=terminal, width=80, color_system=None)
    console.styled("[bold]{}[/] by {}", "site [/b] [id]\\", "[red]")
    assert console.file.getvalue() == "site [/b] [id]\\ by [red]\n"  # type: ignore[attr-defined]


def test_names_with_brackets_stand_in_headings_as_they_are(home: Home, tmp_path: Path) -> None:
    """Of a split's group column, of later rows and of models: none is swallowed, and none ends the command."""
    data = pd.DataFrame({"id": range(40), "site [/b]": [f"s{i // 4}" for i in range(40)]})
    manifest = decide({"name": "beds", "columns": {"key": "id", "group": "site [/b]"}}, data)
    uri = write_manifest(manifest, tmp_path)
    split = SplitRef.of(manifest, uri, "")
    assert "in 5 folds by site [/b]   (" in shown_by(show_balance, measure(manifest, data), split, False)
    assert "on the 20 rows of june [/b]   " in shown_by(show_later, later(estimates()[:1], name="june [/b]"))
    found = Comparison("r2", 0.8, 0.9, 0.1, None, None, 10, "Nobody knows.")
    assert "A tree [/b]   B ridge [1]   the same" in shown_by(show_comparisons, [found], ("tree [/b]", "ridge [1]"))


def test_means_of_a_small_target_keep_their_digits(home: Home, tmp_path: Path) -> None:
    """Of a target of billionths each fold's mean has four digits, and no fold has a mean of zero."""
    data = pd.DataFrame({"id": range(40), "y": [1e-9 * (1 + i % 4) for i in range(40)]})
    manifest = decide({"name": "beds", "columns": {"key": "id", "target": "y"}, "strategy": "KFold"}, data)
    split = SplitRef.of(manifest, write_manifest(manifest, tmp_path), "")
    balance = measure(manifest, data)
    (means,) = [line for line in shown_by(show_balance, balance, split, False).splitlines() if "mean y" in line]
    assert means.split()[2:] == [f"{fold.mean:.4g}" for fold in balance.folds]


@pytest.mark.parametrize("y", ["aab", [2.5, 3.5, 4.0]])
def test_a_fold_without_rows_takes_no_line_from_the_others(y: Any, home: Home, tmp_path: Path) -> None:
    """Of classes it holds none, of numbers it has no mean; what the other folds hold is told all the same."""
    data = pd.DataFrame({"id": range(120), "y": [*y] * 40})
    manifest = decide({"columns": {"key": "id", "target": "y"}, "strategy": "KFold", "params": {"n_splits": 3}}, data)
    folds = manifest.in_use.column()
    left = data[folds != 1]
    grown = extend(manifest, left, max_missing=1.0).manifest
    split = SplitRef.of(grown, write_manifest(grown, tmp_path), "")
    held = [data["y"][folds == fold] for fold in (0, 2)]
    first, last = (f"{sum(each == 'b')}" if y == "aab" else f"{each.mean():.3f}" for each in held)
    said = shown_by(show_balance, measure(grown, left), split, False).splitlines()
    line = ["b", first, "0", last] if y == "aab" else ["mean", "y", first, "-", last]
    assert line in map(str.split, said)


def test_a_command_to_type_next_names_an_address_as_it_was_given(home: Home, tmp_path: Path) -> None:
    """As a path it would lose a slash, and lead nowhere."""
    data = tmp_path / "rows.parquet"
    pd.DataFrame({"id": range(60), "y": [1.5, 2.5, 3.5] * 20}).to_parquet(data)
    made = split(f"file://{data}", key="id", target="y", strategy="KFold", name="beds", engine="plain")
    assert f"  next: evenfold evaluate file://{data} --manifest beds\n" in shown_by(show_split, made)


def test_the_gap_of_random_folds_stands_beside_the_target_that_it_is_of(home: Home, tmp_path: Path) -> None:
    """Figures of other columns follow the target's, and have no such bound."""
    rows = [(i, math.sin(i), "mf"[i % 2], f"s{i % 3}") for i in range(60)]
    data = pd.DataFrame(rows, columns=["id", "y", "sex", "site"])
    columns = {"key": "id", "balance_on": ["site"]}
    specs = [{"columns": columns | {"target": target}, "strategy": "KFold"} for target in ("y", "sex")]
    specs.append({"columns": columns | {"target": "y", "stratify": ["sex", "site"]}, "strategy": "BalancedKFold"})
    for place, spec in enumerate(specs):
        manifest = decide({"name": "beds", **spec}, data)
        split = SplitRef.of(manifest, write_manifest(manifest, tmp_path / str(place)), "")
        said = " ".join(shown_by(show_balance, measure(manifest, data), split, False).split())
        bounded = [part for part in said.split("; ") if "(95 % of random ones: " in part]
        assert len(bounded) == 1
        assert bounded[0].startswith("class shares within " if place == 1 else "target distributions within ")
        assert "attributes within " in said


def test_a_remark_names_its_metric_unless_it_is_about_all() -> None:
    """Or says it itself; the unit of errors is said once."""
    notes = {"r2": "Heavy tail: 1 group.", "neg_mean_absolute_error": "MAE is small."}
    unit = "MAE and RMSE: in the unit of delay, lower is better."
    assert remarks(estimates(notes=notes), "delay") == [unit, "R2: Heavy tail: 1 group.", "MAE is small."]
    assert remarks(estimates(notes=dict.fromkeys(METRICS, "25 groups.")), "delay") == [unit, "25 groups."]


def test_a_step_prints_one_line_when_it_ends_and_a_short_one_none(monkeypatch: pytest.MonkeyPatch) -> None:
    """In a log, a line is worth its seconds."""
    now = [0.0]
    monkeypatch.setattr("evenfold.flows.commands.show.time.monotonic", lambda: now[0])
    console = Console(file=io.StringIO(), width=80)
    with progress(console):
        say("splitting", 0, 1)
        say("splitting", 1, 1)
        say("fitting models", 0, 5)
        now[0] = 12.0
        say("fitting models", 3, 5)
        say("fitting models", 5, 5)
    assert console.file.getvalue() == "fitting models: 5, 12 s\n"  # type: ignore[attr-defined]


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


@pytest.mark.parametrize(
    ("scores", "said"),
    [([0.5], "; nothing was chosen"), ([0.5, 0.4], "; it scored 0.500 where it was chosen, which flatters it")],
)
def test_a_grid_of_one_configuration_chose_nothing(scores: list[float], said: str) -> None:
    outcome = Tuning.model_construct(metric="r2", scores=scores, chosen=0, value=0.45, low=0.4, high=0.5)
    assert worth_of(outcome) == f"expect R2 0.450, 95 % interval 0.400 to 0.500{said}"


def test_long_names_lose_their_middle_in_tables() -> None:
    """Of a column and of a row; cells, such as the scores of ten folds, are never cut."""
    name, scores = "the ward in which a patient was first admitted (2026)", " ".join(["0.123"] * 20)
    head, row = lined_up([["", name], [name, scores]])
    assert scores in row
    for line in (head, row):
        assert "the ward in which" in line
        assert "(2026)" in line
        assert "…" in line
