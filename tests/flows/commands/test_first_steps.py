"""What trips a newcomer: each is said, or reads as it should."""

import shlex
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from evenfold.flows.cli import main
from evenfold.manifests import audit, decide, name_of
from evenfold.tasks import Home
from mlflow import MlflowClient


def table(n: int = 60) -> pd.DataFrame:
    draw = np.random.default_rng(0)
    return pd.DataFrame({"visit": range(n), "age": draw.normal(50, 9, n), "cost": draw.gamma(2, 50, n)})


def called(command: str) -> int:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "argv", ["evenfold", *shlex.split(command)])
        with pytest.raises(SystemExit) as stopped:
            main()
    return int(stopped.value.code or 0)


def test_an_option_of_one_value_is_not_forgotten_where_it_comes_twice(capsys: pytest.CaptureFixture[str]) -> None:
    """The study of 3, 5 and 10 folds was one of 10; what may be repeated still may."""
    assert called("folds visits.parquet --target cost --k 3 --k 5 --k=10") == 2
    said = "evenfold: --k is given 3 times, and only the last would count; give it once.\n"
    assert capsys.readouterr().err == said
    assert called("split visits.parquet --target cost -k 3 --n-splits 5") == 2
    assert "--n-splits is given 2 times" in capsys.readouterr().err
    assert called("evaluate visits.parquet --target cost --metric mae --metric rmse") == 2  # there is no such file
    assert "visits.parquet" in capsys.readouterr().err


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
        assert called(command) == 0
        told.append(capsys.readouterr().out)
    line = "  2.0 because params and seed were different for 1.0, which stays; --name keeps them apart"
    assert [line in out for out in told] == [False, True, False]
    assert "  sizes exactly as asked; " in told[0]
    table().assign(cost=1.0 + np.arange(60.0)).to_parquet("visits.parquet")
    assert called(first) == 0
    assert "  3.0 because the data, params and seed were different for 2.0" in capsys.readouterr().out


def test_an_extension_by_nothing_decides_nothing(
    home: Home, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The same table again leaves the split as it is, and its line says so; MLflow says what an experiment holds."""
    monkeypatch.chdir(tmp_path)
    table().to_parquet("visits.parquet")
    table(90).to_parquet("more.parquet")
    assert called("split visits.parquet --target cost --key visit --engine plain") == 0
    told = []
    for file in ("visits", "more"):
        capsys.readouterr()
        assert called(f"extend visits {file}.parquet --engine plain") == 0
        told.append("decided now" in capsys.readouterr().out)
    assert told == [False, True]
    experiment = MlflowClient(home.tracking_uri).get_experiment_by_name("visits")
    assert experiment.tags["mlflow.note.content"].startswith("Splits of visits, and what was evaluated")


def test_a_split_is_called_as_its_file_without_its_endings() -> None:
    """A packed file is no other one; letters of every script stay, as far as a folder can be called so."""
    names = {"visits.csv.gz": "visits", "visits.2024.csv": "visits.2024", "a/visits.parquet": "visits", "_a.csv": "a"}
    names |= {"donn\xe9es 1.csv": "donn\xe9es-1", "\u65e5\u672c\u8a9e.csv": "\u65e5\u672c\u8a9e"}
    names |= {f"{'x' * 150}.csv": "x" * 100, "a[b].csv": "a-b"}
    assert {file: name_of(file) for file in names} == names


def test_a_constant_target_is_audited_without_a_traceback() -> None:
    """Nothing can be told of it, and that is no division by zero."""
    draw = np.random.default_rng(0)
    frame = pd.DataFrame({"id": range(600), "same": 1.0, **{f"x{i}": draw.normal(size=600) for i in range(4)}})
    found = audit(decide({"columns": {"key": "id", "target": "same"}, "strategy": "KFold"}, frame), frame)
    assert not [finding for finding in found.findings if finding.severity == "error"]
