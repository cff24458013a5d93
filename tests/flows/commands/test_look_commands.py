"""show prints a manifest from a folder or from its record."""

import json
import shutil
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from commands import evenfold
from evenfold.flows import split
from evenfold.flows.commands.looking import show
from evenfold.manifests import decide, extend, write_manifest
from pages import Page


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory, empty_store: Path) -> tuple[Path, str, str]:
    """Record a split, and return the home, the manifest's folder and the run."""
    home = tmp_path_factory.mktemp("home")
    shutil.copy(empty_store, home)
    frame = pd.DataFrame({"id": range(40), "kind": ["a", "b"] * 20})
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("EVENFOLD_HOME", str(home))
        columns = {"key": "id", "target": "kind"}
        outcome = split(frame, spec={"name": "few", "columns": columns, "holdout": {"fraction": 0.25}}, engine="plain")
    return home, outcome.split.uri, outcome.run_id


def test_show_says_what_a_manifest_holds(made: tuple[Path, str, str], tmp_path: Path) -> None:
    """The words, the identity and the counts; and the page, on request."""
    home, folder, _ = made
    header = json.loads((Path(folder) / "manifest.json").read_text(encoding="utf-8"))
    done = evenfold(home.parent, "show", folder, "--report", str(tmp_path / "page.html"), EVENFOLD_HOME=str(home))
    assert done.returncode == 0, done.stderr
    for said in ("few 1.0: StratifiedKFold, 40 rows, 5 splits", header["split_id"], "locked", "key id, target kind"):
        assert said in done.stdout
    assert "balance" in Page((tmp_path / "page.html").read_text(encoding="utf-8")).sections


def test_show_says_how_large_folds_are_that_are_too_many_to_list(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A header counts the rows of a thousand folds at most; above, the smallest and the largest are told."""
    for name, groups in (("even", np.arange(2400) % 1200), ("uneven", np.append(np.arange(1200), np.zeros(3, int)))):
        frame = pd.DataFrame({"id": np.arange(groups.size), "g": groups})
        spec = {"name": name, "columns": {"key": "id", "group": "g"}, "strategy": "LeaveOneGroupOut"}
        show(str(write_manifest(decide(spec, frame), tmp_path)))
    told = " ".join(capsys.readouterr().out.split())
    assert "fold or part rows each of 1,200 2 uneven" in told
    assert told.endswith("fold or part rows each of 1,200 1 to 4, median 1")


def test_show_counts_folds_of_which_every_row_is_gone_and_names_no_fold_of_pairs(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The smallest fold has no row then; all rows of pairs have one code, which is no fold."""
    frame = pd.DataFrame({"id": range(2200), "when": pd.date_range("2000-01-01", periods=2200)})
    manifest = decide({"columns": {"key": "id"}, "strategy": "KFold", "params": {"n_splits": 1100}}, frame)
    grown = extend(manifest, frame[manifest.in_use.column() != 7]).manifest
    show(str(write_manifest(grown, tmp_path)))
    assert "excluded 2 each of 1,100 0 to 2, median 2" in " ".join(capsys.readouterr().out.split())
    pairs = {"name": "pairs", "columns": {"key": "id", "time": "when"}, "strategy": "ForwardChaining"}
    show(str(write_manifest(decide(pairs, frame), tmp_path)))
    assert capsys.readouterr().out.splitlines()[-1].split() == ["in", "use", "2,200"]


def test_show_fetches_a_manifest_from_its_record(made: tuple[Path, str, str]) -> None:
    """The record alone is enough, and gives the same manifest."""
    home, folder, run_id = made
    fetched, there = (
        evenfold(home.parent, "show", place, "--json", EVENFOLD_HOME=str(home)).stdout
        for place in (f"runs:/{run_id}/split", folder)
    )
    assert json.loads(fetched)["split_id"] == json.loads(there)["split_id"]
