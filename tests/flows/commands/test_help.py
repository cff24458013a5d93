"""Every command has an example that runs and JSON for machines; what is printed loses no name and no digit."""

import io
import json
import math
import os
import shlex
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
import typer
from evenfold.estimates import Comparison, Estimate, FoldScore, ModelSpec
from evenfold.estimates.results import Interval
from evenfold.flows.cli import app, main
from evenfold.flows.commands.console import Words
from evenfold.flows.commands.show import show_balance, show_page
from evenfold.flows.outcomes import LaterScore
from evenfold.manifests import decide, extend, measure, write_manifest
from evenfold.reports import comparison_page, summary_page
from evenfold.tasks import Home, SplitRef

ROOT = Path(__file__).parents[3]
GROUP: Any = typer.main.get_command(app)
NAMES = [name for name in GROUP.list_commands(None) if not GROUP.get_command(None, name).hidden]
CODE = "import sys; sys.argv[0] = 'evenfold'; from evenfold.flows.cli import main; main()"


def evenfold(folder: Path, *arguments: str, **more: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "EVENFOLD_HOME": ".evenfold", "COLUMNS": "80", **more}
    command = [sys.executable, "-c", CODE, *arguments]
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, timeout=500)


def example(name: str) -> list[str]:
    shown = GROUP.get_command(None, name).help.partition("Example:\n")[2]
    return joined(shown)


def joined(shown: str) -> list[str]:
    return shlex.split(shown.replace("\\\n", ""))


# ---------------------------------------------------------------- help

WATCHED = """
import os, sys
class Watch:
    def find_spec(self, name, *_):
        if name == "prefect":
            print(sys.argv[1], os.environ.get("PREFECT_HOME"), flush=True)
            os._exit(0)
sys.meta_path.insert(0, Watch())
from evenfold.flows.cli import main
for command in sys.argv[1:]:
    if not os.fork():
        sys.argv = ["evenfold", *command.split()]
        main()
    os.wait()
"""


def test_prefect_is_told_its_place_before_a_command_imports_it(tmp_path: Path) -> None:
    """Or it would keep its own below the user's home, and print its lines about a server that nobody named."""
    pd.DataFrame({"id": range(40), "y": range(40)}).to_csv(tmp_path / "t.csv", index=False)
    commands = ["split t.csv --key id", "folds t.csv --target y", "audit t t.csv", "score 0123abcd t.csv"]
    cleared = {name: value for name, value in os.environ.items() if not name.startswith("PREFECT_")}
    done = subprocess.run(
        [sys.executable, "-c", WATCHED, *commands],
        cwd=tmp_path, env=cleared | {"EVENFOLD_HOME": ".evenfold"}, capture_output=True, text=True, timeout=120,
    )  # fmt: skip
    place = tmp_path / ".evenfold" / "prefect"
    assert done.stdout.splitlines() == [f"{command.split()[0]} {place}" for command in commands], done.stderr


def test_every_command_has_an_example_and_json() -> None:
    """One example, which names the command and only flags that it has; and --json."""
    for name in NAMES:
        command = GROUP.get_command(None, name)
        assert command.help.count("Example:") == 1, name
        words = example(name)
        assert words[:2] == ["evenfold", name]
        flags = {flag for each in command.params for flag in each.opts}
        assert {"--json", *(word for word in words if word.startswith("-"))} <= flags, name
    assert sorted(QUICK + AFTER + SLOW + ELSEWHERE) == sorted(NAMES), "a new command's example runs too"


def test_showing_a_manifest_loads_no_library_of_tables_or_models(tmp_path: Path) -> None:
    """It prints one header: 0.5 to 3 s of imports would be most of the wait."""
    frame = pd.DataFrame({"id": range(30)})
    folder = write_manifest(decide({"columns": {"key": "id"}, "strategy": "KFold"}, frame), tmp_path)
    heavy = {"numpy", "pandas", "scipy", "sklearn", "pyarrow", "narwhals", "matplotlib", "mlflow", "prefect"}
    code = (
        "import sys; from evenfold.flows.cli import app; app(sys.argv[1:], standalone_mode=False); "
        f"print({heavy!r} & set(sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", code, "show", str(folder)], capture_output=True, text=True, check=True)
    assert "fold 4" in done.stdout
    assert done.stdout.splitlines()[-1] == "set()"


# ---------------------------------------------------------------- examples

# In this order each finds what the ones before it have made.
QUICK = ("doctor", "split", "list", "show", "audit", "verify", "join", "extend", "diff")
AFTER = ("export", "adopt", "load", "clean")
SLOW = ("evaluate", "plan", "compare", "leaderboard", "folds", "strategies", "tune", "retrain", "demo")
# A registry, a server, and rows that came later: test_server.py, test_rollback.py, test_commits.py and so on.
ELSEWHERE = ("up", "rollback", "withdraw", "deploy", "predict", "score", "trust", "champion", "replay", "answer")


def flights() -> pa.Table:
    whole = pq.read_table(ROOT / "examples" / "flights.parquet")
    return whole.take(list(range(0, whole.num_rows, 20)))


@pytest.fixture
def folder(tmp_path: Path, empty_store: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the working directory, with what examples name: the flights (of eleven months), and a grid."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("EVENFOLD_HOME", ".evenfold")
    for name in ("examples", ".evenfold"):
        (tmp_path / name).mkdir()
    shutil.copy(empty_store, ".evenfold")
    pq.write_table(flights().filter(pc.field("month") < 12), "examples/flights.parquet")
    (tmp_path / "grid.yaml").write_text("max_iter: [5, 10]\n")
    return tmp_path


def ran(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    """Run a command in this process, without the server's start where there is a choice, and return what it printed."""
    known = [flag for each in GROUP.commands[words[0]].params for flag in each.opts]
    plain = ["--engine", "plain"] if "--engine" in known and "--engine" not in words else []
    capsys.readouterr()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "argv", ["evenfold", *words, *plain])
        with pytest.raises(SystemExit) as stopped:
            main()
    told = capsys.readouterr()
    assert not stopped.value.code, (words, told.err[-2000:])
    assert told.out
    return told.out


def test_the_quick_examples_run(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """From the split to the export, as a new user would paste them; and each prints JSON alone if asked to."""
    for name in QUICK + AFTER:
        if name == "extend":  # December has come
            pq.write_table(flights(), "examples/flights.parquet")
        ran(capsys, *example(name)[1:])
        assert isinstance(json.loads(ran(capsys, *example(name)[1:], "--json")), (dict, list)), name


@pytest.mark.soak
def test_the_slow_examples_run(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Those that fit models; the numbers of runs come from evaluations before."""
    shutil.copy(ROOT / "examples" / "flights.parquet", "examples/flights.parquet")
    runs = [
        json.loads(ran(capsys, *example("evaluate")[1:], "--metric", "r2", *more, "--json"))["run_id"]
        for more in ([], ["--exclude", "hour"])
    ]
    words = [{"RUN_A": runs[0], "RUN_B": runs[1]}.get(word, word) for word in example("compare")[1:]]
    assert json.loads(ran(capsys, *words, "--json"))[0]["metric"] == "r2"
    for name in SLOW[2:]:
        assert json.loads(ran(capsys, *example(name)[1:], "--json")), name
    assert "fold-count" in Path("folds.html").read_text()
    assert "ratios" in Path("strategies.html").read_text()
    again = json.loads(ran(capsys, *example("folds")[1:], "-o", "folds.svg", "--json"))
    assert again["picture"] == "folds.svg"
    assert Path("folds.svg").read_text().startswith("<svg xmlns=")
    told = json.loads(ran(capsys, "evaluate", "examples/flights.parquet", "--target", "arr_delay", "--json"))
    pages = [path for path in folder.rglob("report.html") if told["run_id"] in str(path)]
    assert ["fold-count" in path.read_text() for path in pages] == [True]


# ---------------------------------------------------------------- signs of life


METRICS = ("r2", "neg_mean_absolute_error", "neg_root_mean_squared_error")
SCORES = [FoldScore(f"fold {i}", 0, i, dict.fromkeys(METRICS, -7.4 + i), {}, 80, 20, 0.1, 0.1) for i in range(2)]


def shown(said: Any, width: int = 80, terminal: bool = True, **how: Any) -> list[str]:
    console = Words(file=io.StringIO(), force_terminal=terminal, width=width, soft_wrap=True, color_system=None)
    console.print(said, **how)
    return console.file.getvalue().splitlines()  # type: ignore[attr-defined]


def shown_by(show: Callable[..., None], *about: Any) -> str:
    console = Words(file=io.StringIO(), width=140, color_system=None, highlight=False)
    show(console, *about)
    return console.file.getvalue()  # type: ignore[attr-defined, no-any-return]


def estimates() -> list[Estimate]:
    interval = Interval(low=-10.7005, high=-5.2106, level=0.95, method="pooled rows", notes=())
    return [
        Estimate(metric, "cross-validation", -7.3916, 3.4, None, 5, -7.9, -6.3, interval=interval)
        for metric in METRICS
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
    scored = [replace(score, test=dict.fromkeys(METRICS, -math.inf)) for score in SCORES]
    for folds, read in ((SCORES, ["-6.40", "6.40", "6.40"]), (scored, ["undefined"] * 3)):
        shown = shown_by(show_page, summary_page("beds", "", folds, estimates())).splitlines()
        mae = next(line.split() for line in shown if line.startswith("  MAE"))
        assert mae == ["MAE", "cross-validation", "7.4", "95", "%", "[5.2,", "10.7]", "-", "3.4", "6.3"]
        assert ["fold", "1", "80", "20", *read, "-", "-", "-"] in map(str.split, shown)


def test_a_narrow_terminal_leaves_the_last_columns_of_a_table_out() -> None:
    """Metric and score stay, whatever the width; nothing is cut in its middle."""
    page = summary_page("beds", "", [], estimates())
    heads = []
    for width in (120, 60, 20):
        console = Words(file=io.StringIO(), force_terminal=True, width=width, color_system=None)
        show_page(console, page)
        heads.append(next(line for line in console.file.getvalue().splitlines() if line.startswith("  metric")))  # type: ignore[attr-defined]
    assert [len(head.split()) for head in heads] == [13, 4, 2]


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
    assert "in 5 folds by site [/b] (" in shown_by(show_balance, measure(manifest, data), split, False)
    assert "on the 20 rows of june [/b]\n" in shown_by(show_page, later(estimates()[:1], name="june [/b]").as_page())
    found = Comparison("r2", 0.8, 0.9, 0.1, None, None, 10, "Nobody knows.")
    assert "tree [/b] and ridge [1]\n" in shown_by(show_page, comparison_page([found], ("tree [/b]", "ridge [1]")))


@pytest.mark.parametrize("y", ["aab", [2.5, 3.5, 4.0]])
def test_a_fold_without_rows_takes_no_line_from_the_others(y: Any, home: Home, tmp_path: Path) -> None:
    """Of classes it holds none, of numbers it has no mean; what the other folds hold is told all the same."""
    data = pd.DataFrame({"id": range(120), "y": [*y] * 40})
    manifest = decide({"columns": {"key": "id", "target": "y"}, "strategy": "KFold", "params": {"n_splits": 3}}, data)
    folds = manifest.in_use.column()
    left = data[folds != 1]
    grown = extend(manifest, left, max_missing=1.0).manifest
    split = SplitRef.of(grown, write_manifest(grown, tmp_path), "")
    lines = shown_by(show_balance, measure(grown, left), split, False).splitlines()
    first, empty, last = (next(line.split() for line in lines if f"  split {fold}" in line) for fold in range(3))
    assert (first[2], empty[2], last[2]) == ("40", "0", "40")
    assert set(empty[4:]) == {"-"}
    assert "-" not in first + last


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
