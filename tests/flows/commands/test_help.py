"""Every command has an example that runs and JSON for machines; what is printed loses no name and no digit."""

import json
import os
import shlex
import shutil
import subprocess
import sys
from functools import partial
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
import typer
from evenfold.flows.cli import app, main
from evenfold.manifests import decide, write_manifest
from typer.testing import CliRunner

from evenfold import flows

ROOT = Path(__file__).parents[3]
GROUP: Any = typer.main.get_command(app)
NAMES = [name for name in GROUP.list_commands(None) if not GROUP.get_command(None, name).hidden]


def example(name: str) -> list[str]:
    shown = GROUP.get_command(None, name).help.partition("Example:\n")[2]
    return shlex.split(shown.replace("\\\n", ""))


def test_every_command_has_an_example_and_json() -> None:
    """One example, which names the command and only flags that it has; and --json."""
    for name in NAMES:
        command = GROUP.get_command(None, name)
        assert command.help.count("Example:") == 1, name
        words = example(name)
        assert words[:2] == ["evenfold", name]
        flags = {flag for each in command.params for flag in each.opts}
        assert {"--json", *(word for word in words if word.startswith("-"))} <= flags, name
        told = CliRunner().invoke(app, [name, "--help"]).output
        assert max(told) < "\u2600", f"{name}: a colon on both sides of a word or a number makes a picture of it"
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


# In this order each finds what the ones before it have made.
QUICK = ("doctor", "split", "list", "show", "audit", "verify", "join", "extend", "diff")
AFTER = ("export", "adopt", "load", "clean")
SLOW = ("evaluate", "compare", "plan", "leaderboard", "folds", "strategies", "tune", "retrain", "demo")
# A registry, a server, and rows that came later: test_server.py, test_rollback.py, test_commits.py and so on.
ELSEWHERE = ("up", "rollback", "withdraw", "deploy", "predict", "score", "trust", "champion", "replay", "answer")


def flights() -> pa.Table:
    whole = pq.read_table(ROOT / "examples" / "flights.parquet")
    return whole.take(list(range(0, whole.num_rows, 60)))


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
        patch.setattr(flows, "adopt", partial(flows.adopt, engine="plain"))
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
    runs = {
        place: json.loads(ran(capsys, *example("evaluate")[1:], "--metric", "r2", *more, "--json"))["run_id"]
        for place, more in (("RUN_A", []), ("RUN_B", ["--exclude", "hour"]))
    }
    told = {name: json.loads(ran(capsys, *(runs.get(word, word) for word in example(name)[1:]), "--json"))
            for name in SLOW}  # fmt: skip
    assert [name for name, answer in told.items() if not answer] == []
    assert told["compare"][0]["metric"] == "r2"
    assert "fold-count" in Path("folds.html").read_text()
    assert "ratios" in Path("strategies.html").read_text()
    again = json.loads(ran(capsys, *example("folds")[1:], "-o", "folds.svg", "--json"))
    assert again["picture"] == "folds.svg"
    assert Path("folds.svg").read_text().startswith("<svg xmlns=")


def test_who_stops_reading_changes_no_exit_code(tmp_path: Path) -> None:
    """Behind ``| head`` a command ends as it would have: 1 would say that a gate failed."""
    folder = write_manifest(decide({"strategy": "KFold"}, pd.DataFrame({"x": range(30)})), tmp_path)
    command = [sys.executable, "-c", "from evenfold.flows.cli import main; main()", "show", str(folder)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as ran:
        ran.stdout.close()
        assert (ran.stderr.read(), ran.wait()) == (b"", 0)


WATCHED = """
import os, sys
class Watch:
    def find_spec(self, name, *_):
        if name == "prefect":
            print(sys.argv[1], os.environ.get("PREFECT_HOME"), flush=True)
            os._exit(0)
sys.meta_path.insert(0, Watch())
import pandas, pyarrow.dataset, sklearn.metrics  # which each command would import again
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
    commands = ["split t.csv --key id", "folds t.csv --target y", "score 0123abcd t.csv"]
    env = {name: value for name, value in os.environ.items() if not name.startswith("PREFECT_")}
    env |= {"EVENFOLD_HOME": ".evenfold"}
    command = [sys.executable, "-c", WATCHED, *commands]
    done = subprocess.run(command, cwd=tmp_path, env=env, capture_output=True, text=True)
    place = tmp_path / ".evenfold" / "prefect"
    assert done.stdout.splitlines() == [f"{command.split()[0]} {place}" for command in commands], done.stderr
