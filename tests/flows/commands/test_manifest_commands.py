"""The commands on manifests, called as a user calls them: what they print, write and exit with."""

import json
import re
import shutil
from functools import partial
from itertools import cycle
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pandas as pd
import pytest
from commands import evenfold
from evenfold.flows import cli, split
from evenfold.manifests import Audit, decide, extend, read_manifest, verify, write_manifest
from evenfold.splitters import SplitError
from evenfold.tasks import Home
from pages import Page
from typer.testing import CliRunner, Result

from evenfold import flows


def rows(n: int = 200) -> pd.DataFrame:
    random = np.random.default_rng(0)
    frame = pd.DataFrame({"id": np.arange(n), "dose": random.normal(size=n), "age": random.normal(size=n)})
    return frame.assign(y=np.where(np.arange(n) % 4, "no", "yes"), patient=np.arange(n) // 4)


class Place:
    """A folder with data and a manifest, in which commands are called."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        rows().to_parquet(folder / "data.parquet")
        self.spec = {"name": "trial", "columns": {"key": "id", "target": "y", "group": "patient"}}
        self.manifest = decide(self.spec, folder / "data.parquet")
        write_manifest(self.manifest, folder)

    def run(self, *command: str) -> Result:
        return CliRunner().invoke(cli.app, list(command))

    def json(self, *command: str, code: int = 0) -> Any:
        ran = self.run(*command, "--json")
        assert ran.exit_code == code, (ran.output, ran.exception)
        return json.loads(ran.stdout)


@pytest.fixture
def place(home: Home, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Place:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(flows, "adopt", partial(flows.adopt, engine="plain"))  # which starts no server of Prefect's
    return Place(tmp_path)


def test_a_failed_gate_exits_with_1_and_is_printed_and_stored(place: Place) -> None:
    """Leaked patients: the sentence on the terminal, audit.json in the manifest's folder only where asked."""
    frame = rows().assign(patient=0)
    frame.to_csv("leaky.csv", index=False)
    ran = place.run("audit", "trial/1.0", "leaky.csv")
    assert ran.exit_code == 1
    assert re.search(
        r"failed: 1 group of 'patient' \(0\) has rows in more than one fold.* \[EF201 group_in_two_folds\]", ran.stdout
    )
    assert not Path("trial/1.0/audit.json").exists()
    assert place.run("audit", "trial/1.0", "leaky.csv", "--store").exit_code == 1
    stored = Audit.model_validate_json(Path("trial/1.0/audit.json").read_text())
    assert stored.failed == ["group_in_two_folds"]
    assert verify("trial/1.0").intact
    assert place.json("audit", "trial/1.0", "leaky.csv", code=1)["failed"] == ["group_in_two_folds"]


def test_gates_and_columns_are_taken_from_flags(place: Place) -> None:
    """A limit that fails, a check that is off, a feature that is left out, a group that the split did not keep."""
    frame = rows()
    first, second = (int(np.flatnonzero(place.manifest.codes == fold)[0]) for fold in (0, 1))
    frame.loc[first, ["dose", "age"]] = frame.loc[second, ["dose", "age"]].to_numpy()
    frame["site"] = np.arange(200) % 3
    frame.to_parquet("data.parquet")
    audit = ("audit", "trial/1.0", "data.parquet", "--exclude", "site")
    assert place.json(*audit)["findings"][0]["check"] == "duplicate_rows"
    assert place.json(*audit, "--gate", "duplicate_rows=0", code=1)["failed"] == ["duplicate_rows"]
    assert place.json(*audit, "--gate", "duplicate_rows=off")["off"] == ["duplicate_rows"]
    assert place.json("audit", "trial/1.0", "data.parquet", "--features", "age")["features"] == ["age"]
    assert place.json(*audit, "--group", "site", code=1)["failed"] == ["group_in_two_folds"]


def test_verify_exits_with_1_where_anything_is_damaged(place: Place) -> None:
    """And names it; an intact manifest says what was proved."""
    ran = place.run("verify", "trial/1.0")
    assert (ran.exit_code, ran.stdout.splitlines()[0]) == (0, "trial/1.0: intact")
    assert f"the rows make split_id {place.manifest.split_id[:16]}" in ran.stdout
    file = Path("trial/1.0/assignments-0000.parquet")
    file.write_bytes(file.read_bytes()[:-20])
    ran = place.run("verify", "trial/1.0")
    assert (ran.exit_code, ran.stdout.splitlines()[0]) == (1, "trial/1.0: damaged")
    assert "assignments-0000.parquet has" in ran.stdout
    damages = place.json("verify", "trial/1.0", code=1)["damages"]
    assert [damage["file"] for damage in damages] == ["assignments-0000.parquet"]


def test_diff_tells_what_an_extension_did(place: Place) -> None:
    """No row moved, and each class that joined, where data are given."""
    rows(240).to_parquet("data.parquet")
    write_manifest(extend(place.manifest, "data.parquet").manifest, ".")
    ran = place.run("diff", "trial/1.0", "trial/1.1", "--data", "data.parquet")
    assert ran.exit_code == 0
    assert "0 rows moved." in ran.stdout
    assert "40 rows added: " in ran.stdout
    made = place.json("diff", "trial/1.0", "trial/1.1", "--data", "data.parquet")
    assert sum(each["classes"].get("yes", 0) for each in made["added"]) == 10


def test_export_adopt_and_join_go_round(place: Place) -> None:
    """Out to h2o, back in under another name: the same split; and the rows of a fold are those of the manifest."""
    ran = place.run("export", "trial/1.0", "--to", "h2o", "--data", "data.parquet", "-o", "folds.parquet")
    assert (ran.exit_code, ran.stdout) == (0, "folds.parquet: 200 rows; h2o takes fold_column='fold'.\n")
    made = place.json("adopt", "folds.parquet", "--folds", "fold", "--key", "id", "--name", "back")["split"]
    assert Path(made["uri"]) == Home.here().splits / "back" / "1.0"
    assert made["split_id"] == place.manifest.split_id == read_manifest(made["uri"]).split_id
    joined = ("trial/1.0", "data.parquet", "--fold", "2", "--role", "test", "-o", "out.parquet")
    assert place.run("join", *joined).stdout == "out.parquet: the 40 rows that fold 2 has for test\n"
    assert pd.read_parquet("out.parquet")["id"].tolist() == np.flatnonzero(place.manifest.codes == 2).tolist()
    told = place.run("join", "trial/1.0", "data.parquet", "-o", "parted", "--memory", "1MB").stdout
    assert told == "parted: 200 rows, parted by the folds (fold=<code>/rows.parquet)\n"
    parted = pd.read_parquet("parted").set_index("id")["fold"].astype(int)
    assert parted.sort_index().tolist() == place.manifest.codes.tolist()
    with pytest.raises(SplitError, match="--fold and --role go together"):
        raise place.run("join", "trial/1.0", "data.parquet", "--fold", "2", "-o", "out.csv").exception or AssertionError


READ_AND_WRITTEN = [
    ("data.parquet", "link.parquet"),
    ("below", "below/part.parquet"),
    ("below/*.parquet", "below/part.parquet"),
    ("file://{here}/data.parquet", "data.parquet"),
    ("file://{here}/below", "below/part.parquet"),
    ("file://{here}/below/*.parquet", "below/part.parquet"),
    ("local://{here}/data.parquet", "data.parquet"),
    ("simplecache::file://{here}/data.parquet", "data.parquet"),
    ("duckdb://{here}/rows.db#patients", "rows.db"),
    ("duckdb:///rows.db#patients", "rows.db"),  # of the working folder, as it is read
    ("data.parquet", "trial/1.0/assignments-0000.parquet"),
    ("data.parquet", "trial/1.0/manifest.json"),
]


def test_nothing_that_a_command_reads_is_written_over(place: Place) -> None:
    """Whatever names it: a link, a folder, a glob, an address, or the manifest that is read beside it."""
    below = place.folder / "below"
    below.mkdir()
    rows().to_parquet(below / "part.parquet")
    (place.folder / "link.parquet").symlink_to("data.parquet")
    with duckdb.connect(place.folder / "rows.db") as database:
        database.execute("create table patients as from 'data.parquet'")
    commands = cycle(["join {} --fold 0 --role test -o", "export --data {} --to h2o -o", "show --data {} --report"])
    for (source, output), command in zip(READ_AND_WRITTEN, commands, strict=False):
        before, verb, *words = Path(output).read_bytes(), *command.split()
        address = source.format(here=place.folder)
        ran = place.run(verb, "trial/1.0", *(word.format(address) for word in words), output)
        assert str(ran.exception) == f"{output} is read as well; write to another file.", (command, source)
        assert Path(output).read_bytes() == before


REFUSED = [
    ("audit nowhere data.parquet", "nowhere holds no manifest.json; pass the folder of a manifest, or to"),
    ("audit trial/1.0 data.parquet --gate duplicate_row=1", "did you mean duplicate_rows"),
    ("join trial/1.0 data.parquet --fold 5 --role test -o out.csv", "there is no fold 5 in trial 1.0; choose 0"),
    ("adopt data.parquet --key id", "give one of --cv and --folds"),
]


def test_bad_input_is_one_sentence(place: Place) -> None:
    before = sorted(place.folder.rglob("*"))
    for command, message in REFUSED:
        ran = place.run(*command.split())
        assert isinstance(ran.exception, SplitError), command
        assert message in str(ran.exception)
    assert sorted(place.folder.rglob("*")) == before


def test_show_says_what_a_manifest_holds(tmp_path: Path, empty_store: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The words, the identity and the counts; the page, on request."""
    monkeypatch.setenv("EVENFOLD_HOME", str(tmp_path))
    shutil.copy(empty_store, tmp_path)
    frame = pd.DataFrame({"id": range(40), "kind": ["a", "b"] * 20})
    spec = {"name": "few", "columns": {"key": "id", "target": "kind"}, "holdout": {"fraction": 0.25}}
    folder = split(frame, spec=spec, engine="plain").split.uri
    header = json.loads((Path(folder) / "manifest.json").read_text(encoding="utf-8"))
    done = evenfold(tmp_path, "show", folder, "--report", "page.html", EVENFOLD_HOME=str(tmp_path))
    assert done.returncode == 0, done.stderr
    for said in ("few 1.0: StratifiedKFold, 40 rows, 5 splits", header["split_id"], "locked", "key id, target kind"):
        assert said in done.stdout
    assert "balance" in Page((tmp_path / "page.html").read_text(encoding="utf-8")).sections
