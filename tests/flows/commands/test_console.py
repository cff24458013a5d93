"""Eighty columns are enough: sentences break between words, tables leave columns out and no name is cut."""

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
from evenfold.flows.commands.console import Words, first_that_fits
from evenfold.flows.commands.scores import score_tables, show_comparisons, show_later
from evenfold.flows.commands.show import show_balance
from evenfold.flows.outcomes import LaterScore
from evenfold.manifests import decide, extend, measure, write_manifest
from evenfold.tasks import Home, SplitRef

METRICS = ("r2", "neg_mean_absolute_error", "neg_root_mean_squared_error")
SCORES = [FoldScore(f"fold {i}", 0, i, dict.fromkeys(METRICS, -7.4 + i), {}, 80, 20, 0.1, 0.1) for i in range(2)]
LONG = "  Overfitting: " + "rows that the model has seen are not rows that it has not; " * 4


def shown(said: Any, width: int = 80, terminal: bool = True, **how: Any) -> list[str]:
    console = Words(file=io.StringIO(), force_terminal=terminal, width=width, soft_wrap=True, color_system=None)
    console.print(said, **how)
    return console.file.getvalue().splitlines()  # type: ignore[attr-defined]


def shown_by(show: Callable[..., None], *about: Any) -> str:
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
        ran.stdout.close()
        assert (ran.stderr.read(), ran.wait()) == (b"", 0)


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
    split = SplitRef(
        uri="", data="", name="beds", version="1.0", split_id="", plan_id="", kind="labels", strategy="KFold",
        algorithm_version="1", n_rows=100, n_splits=5,
    )  # fmt: skip
    made = {"model": ModelSpec(estimator="sklearn.linear_model:Ridge"), "name": "june", "known_groups": None, **more}
    return LaterScore(run="1", split=split, rows=20, estimates=estimates()[:1], promised=promised, **made)


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
