"""The command line: what bad input gets, what good input gets, and what trips a newcomer."""

import json
import re
import shlex
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import yaml
from evenfold.flows.cli import app, main
from evenfold.tasks import Home
from typer.main import get_command

MESSAGES = Path(__file__).with_name("messages.md")
LISTED = re.findall(r"^\$ evenfold (.*)\n(\d) (.*)$", MESSAGES.read_text(encoding="utf-8"), re.M)
BUILT = get_command(app)  # once, as in a process of its own: Typer would build all commands anew at each call


def rows(n: int = 60) -> pd.DataFrame:
    return pd.DataFrame(
        {
            "id": range(n),
            "delay": np.round(np.sin(np.arange(n)) * 30, 2),
            "late": np.where(np.arange(n) % 3, "no", "yes"),
            "date": [f"2013-01-{i % 12 + 1:02d}" for i in range(n)],
            "distance": np.arange(n) * 7 % 50,
            "carrier": np.resize(["UA", "AA", "B6"], n),
        }
    )


def holed(column: str, *at: int) -> pd.DataFrame:
    frame = rows()
    frame[column] = frame[column].mask(frame["id"].isin(at))
    return frame


FRAMES = {
    "rows": rows(),
    "holes": holed("delay", 3, 7, 9, 11),
    "no-group": holed("date", 2),
    "no-key": rows().assign(id=pd.array([None, None, *range(58)], dtype="Int64")),
    "twice": rows().assign(id=[0, 1, 2, 3, 3, 3, *range(6, 60)]),
    "infinite": rows().assign(delay=np.where(np.arange(60) == 5, np.inf, 1.5), enormous=np.arange(60) * 1e200),
    "rare": rows().assign(late=["no"] * 58 + ["yes"] * 2),
    "lonely": rows().assign(late=["no"] * 59 + ["yes"]),
    "one-class": rows().assign(late="no"),
    "constant": rows().assign(delay=2.5),
    "one-group": rows().assign(date="2013-01-01"),
    "one-row": rows(1),
    "empty": rows(0),
    "misread": rows().assign(cost=[f"{i},5" for i in range(60)], day=[f"{i % 28 + 1:02d}.02.2024" for i in range(60)]),
    "text-only": rows()[["late"]].assign(carrier=[f"carrier {i}" for i in range(len(rows()))]),
}
FILES = {
    "empty.csv": b"",
    "header.csv": b"id,delay\n",
    "short.csv": b"id,delay\n1,2\n3\n",
    "latin.csv": "id,d\xe9lay\n1,2\n2,3\n".encode("latin-1"),
    "separated.csv": b"id:delay\n1:2\n2:3\n",
    "doubled.csv": b"id,delay,delay\n1,2,3\n2,3,4\n",
    "garbage.parquet": b"no Parquet at all",
    "sheet.xlsx": b"",
    "plain": b"",
    "broken.yaml": b"strategy: [KFold",
    "list.yaml": b"- KFold",
}
SKLEARN = "sklearn.model_selection"
SPECS = {
    "no-field.yaml": {"strateg": "KFold"},
    "misplaced.yaml": {"target": "delay"},
    "no-type.yaml": {"types": {"id": "integer"}},
    "no-such-type.yaml": {"types": {"idd": "int"}},
    "no-column-field.yaml": {"columns": {"targett": "delay"}},
    "seeded.yaml": {"params": {"random_state": 1}},
    "wrapped.yaml": {"strategy": "FromSklearn", "params": {"splitter": f"{SKLEARN}:KFold", "params": {"n_split": 3}}},
    "refuses.yaml": {"strategy": "FromSklearn", "params": {"splitter": f"{SKLEARN}:LeavePOut", "params": {"p": 90}}},
    "model-field.yaml": {"estimatr": "sklearn.linear_model:Ridge"},
    "good.yaml": {"name": "good", "columns": {"key": "id", "target": "delay"}, "params": {"n_splits": 3}},
    "placed.yaml": {
        "name": "placed",
        "columns": {"key": "id", "coordinates": ["distance", "delay"]},
        "params": {"block_size": 20, "n_splits": 2},
    },
    "ridge.yaml": {"estimator": "sklearn.linear_model:Ridge", "metrics": ["r2"]},
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("cli")
    for name, frame in FRAMES.items():
        frame.to_parquet(place / f"{name}.parquet")
    for name, content in FILES.items():
        (place / name).write_bytes(content)
    for name, spec in SPECS.items():
        (place / name).write_text(yaml.safe_dump(spec))
    for name in ("nothing", "mixed", "unlike", "unequal"):
        (place / name).mkdir()
    for name in ("mixed", "unlike", "unequal"):
        rows().to_parquet(place / name / "a.parquet")
    rows().to_csv(place / "mixed" / "b.csv")
    rows().assign(distance="far").to_parquet(place / "unlike" / "b.parquet")
    rows().drop(columns="carrier").to_parquet(place / "unequal" / "b.parquet")
    rows().to_csv(place / "rows.csv", index=False)
    return place


def call(*arguments: str) -> int:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "argv", ["evenfold", *arguments])
        patch.setattr("typer.main.get_command", {app: BUILT}.__getitem__)
        with pytest.raises(SystemExit) as stopped:
            main()
    return int(stopped.value.code or 0)


def contents(home: Path) -> list[str]:
    return sorted(str(path) for path in home.rglob("*"))


@pytest.mark.filterwarnings("ignore:Only one class is present")
@pytest.mark.parametrize(("command", "code", "message"), LISTED, ids=[command for command, _, _ in LISTED])
def test_bad_input_gets_the_listed_message(
    command: str,
    code: str,
    message: str,
    folder: Path,
    home: Home,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """The sentence, the exit code, no traceback; where nothing could be started, nothing is written either."""
    monkeypatch.chdir(folder)
    if code == "2":
        monkeypatch.setenv("EVENFOLD_HOME", str(home.path / "none"))
        message = message.replace("$EVENFOLD_HOME", str(home.path / "none"))
    assert call(*shlex.split(command)) == int(code)
    told = capsys.readouterr()
    said = ".+".join(map(re.escape, f"evenfold: {message}".split("…")))
    assert re.fullmatch(said, told.err.splitlines()[-1]), f"{told.err}\n{message}"
    assert "Traceback" not in told.err
    assert told.out == ""
    if code == "2":
        assert re.fullmatch(said + "\n", told.err)
        assert not (home.path / "none").exists()


def test_bad_input_changes_nothing_that_is_there(
    folder: Path, home: Home, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A home with results keeps them as they are, whatever is asked next."""
    monkeypatch.chdir(folder)
    assert call("split", "rows.parquet", "--key", "id", "--name", "kept", "--engine", "plain") == 0
    before = {name: Path(name).stat().st_mtime_ns for name in contents(home.path)}
    kept = str(home.splits / "kept" / "1.0")
    for command in (
        "split twice.parquet --key id --name kept",
        "split holes.parquet --target delay --strategy KFold --name kept",
        f"extend {kept} twice.parquet",
        f"extend {kept} rows.parquet --batch",
        f"evaluate rows.parquet --manifest {kept}",
    ):
        assert call(*shlex.split(command)) == 2, command
    assert {name: Path(name).stat().st_mtime_ns for name in contents(home.path)} == before
    assert "Traceback" not in capsys.readouterr().err


def test_flags_and_files_ask_for_the_same(
    folder: Path, home: Home, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A specification in a file, flags, and flags over a file; and JSON for machines."""
    monkeypatch.chdir(folder)

    def run(command: str) -> dict[str, object]:
        assert call(*shlex.split(command), "--engine", "plain", "--json") == 0
        return json.loads(capsys.readouterr().out)

    flags = run("evaluate rows.parquet --key id --target delay -k 3 --name good --model ridge.yaml")
    file = run("evaluate rows.parquet --spec good.yaml --model ridge.yaml")
    assert file["run_id"] == flags["run_id"]
    over = run("evaluate rows.csv --spec good.yaml -k 4 --model sklearn.linear_model:Ridge --metric r2")
    assert over["split"]["n_splits"] == 4  # type: ignore[index]
    assert [score["test"].keys() for score in over["scores"]] == [{"r2": 0}.keys()] * 4  # type: ignore[attr-defined]
    alone = run("split rows.parquet --key id --target delay -k 3 --name good")
    assert alone["split"] == file["split"]
    placed = run("split rows.parquet --key id --coordinates distance --coordinates delay --param block_size=20 -k 2")
    assert placed["split"]["split_id"] == run("split rows.parquet --spec placed.yaml")["split"]["split_id"]  # type: ignore[index]


def test_an_error_that_nobody_foresaw_is_no_gates_verdict(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("evenfold.flows.cli.app", lambda **_: {}["a bug"])
    with pytest.raises(SystemExit, match="70"):
        main()
    assert "KeyError: 'a bug'" in capsys.readouterr().err


def test_an_option_of_one_value_is_not_forgotten_where_it_comes_twice(capsys: pytest.CaptureFixture[str]) -> None:
    """The study of 3, 5 and 10 folds was one of 10."""
    assert call(*shlex.split("folds visits.parquet --target cost --k 3 --k 5 --k=10")) == 2
    said = "evenfold: --k is given 3 times, and only the last would count; give it once.\n"
    assert capsys.readouterr().err == said


def table(n: int = 60) -> pd.DataFrame:
    draw = np.random.default_rng(0)
    return pd.DataFrame({"visit": range(n), "age": draw.normal(50, 9, n), "cost": draw.gamma(2, 50, n)})


@pytest.mark.usefixtures("home")
def test_another_decision_of_the_same_name_says_what_was_asked_otherwise(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A new major version is no accident that nobody sees; a first one, and the same again, say nothing."""
    monkeypatch.chdir(tmp_path)
    table().to_parquet("visits.parquet")
    first = "split visits.parquet --target cost --key visit --engine plain"
    another = f"{first} -k 3 --seed 4"
    told = []
    for command in (first, another, another):
        assert call(*shlex.split(command)) == 0
        told.append(capsys.readouterr().out)
    line = "  2.0, for seed 0 -> 4; strategy parameter n_splits none -> 3; 1.0 stays, and --name keeps them apart"
    assert [line in out for out in told] == [False, True, False]
    table().assign(cost=1.0 + np.arange(60.0)).to_parquet("visits.parquet")
    assert call(*shlex.split(another)) == 0
    assert "3.0, for column cost changed; 2.0 stays" in capsys.readouterr().out
