"""A deployed run reads only what lies below its data roots, and its errors quote no cell."""

import json
import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pandas as pd
import pytest
from evenfold.estimates import EvaluationError, ModelError, ModelSpec, Problem, fit_and_score
from evenfold.manifests import audit, check_arrival, decide, extend, read_manifest, read_spec, write_manifest
from evenfold.manifests.tables.read import read_table
from evenfold.splitters import SplitError
from evenfold.splitters.errors import WITHHELD, reason_of, require_readable

SECRET = "Alan-Turing"
SECRET_NUMBER = 8_675_309
RUN = "6e5ff2a5-22a8-4b55-b2e5-9d1f2b3c4d5e"


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a folder with a project in it, where a deployed run has its working directory, and things beside it."""
    project, beside = tmp_path / "project", tmp_path / "beside"
    for folder in (project / "data", beside):
        folder.mkdir(parents=True)
        (folder / "rows.csv").write_text("id,y\n1,2\n3,4\n")
    (beside / "private.txt").write_text(f"id,y\n1,{SECRET}\n")
    (project / "data" / "link.csv").symlink_to(beside / "rows.csv")
    (project / "linked").symlink_to(beside)
    monkeypatch.chdir(project)
    for name in ("EVENFOLD_HOME", "EVENFOLD_RESULTS", "EVENFOLD_DATA_ROOTS"):
        monkeypatch.delenv(name, raising=False)
    return tmp_path


@pytest.fixture
def deployed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PREFECT__FLOW_RUN_ID", RUN)


OUTSIDE = [
    "../beside/rows.csv",
    "data/../../beside/rows.csv",
    "data/link.csv",
    "linked/rows.csv",
    "linked",
    "../beside",
    "../beside/*.csv",
    "link*/*.csv",
    "data/*.csv",
    "data/[l]ink.csv",
    "data",
    "/etc/passwd",
    "/proc/self/environ",
    "~/.ssh/id_rsa",
    "/../etc/passwd",
    "../beside/nothing.csv",
    "../nowhere/*.csv",
    "file://HERE/linked/rows.parquet",
    "file://HERE/linked",
    "file://HERE/link*/*.parquet",
    "file://HERE/data",
    "file://HERE/data/*.parquet",
    "local://HERE/data/link.parquet",
    "file://HERE/../beside/rows.parquet",
    "file://~/../HERE/../beside/rows.parquet",
    "file://linked/rows.parquet",
    "simplecache::file://HERE/linked/rows.parquet",
    "file://HERE/data::file://HERE/../beside/rows.parquet",
    "duckdb:///linked/base.db#flights",
    *(f"duckdb:///data/base.db#{table}" for table in ("spy", "linked/rows.csv", "HERE/data/link.parquet", "files")),
    *(f"duckdb:///data/base.db#{call}('HERE/linked/rows.csv')" for call in ("read_csv", "read_text", "glob")),
]
READING = """
import json, os, sys
import duckdb, fsspec.implementations.local, pyarrow.dataset
from evenfold.manifests import read_table
from evenfold.splitters import SplitError
seen, files = [], read_table("data/base.csv")  # a table that SQL could find by its variable
outside = os.path.realpath("../beside")
sys.addaudithook(lambda event, of: event == "open" and outside in os.path.realpath(str(of[0])) and seen.append(of[0]))
for path in json.load(sys.stdin):
    try:
        answer = read_table(path).num_rows
    except SplitError as error:
        answer = str(error)
    print(json.dumps([path, answer, seen]))
print(json.dumps([read_table(f"{kind}//{place}").num_rows for kind, place in (
    ("duckdb:", "/data/base.db#flights"), ("duckdb:", "/data/base.db#more.flights"), ("file:", f"{os.getcwd()}/own"))]))
"""


@pytest.mark.parametrize("roots", [".", "simplecache::file://HERE,file://HERE/"])
def test_nothing_outside_the_roots_is_read(place: Path, roots: str) -> None:
    """Not by a path, an address, a link, a folder, a glob or SQL; an audit hook sees no file outside opened."""
    here = place / "project"
    for folder, name in ((place / "beside", "rows"), (here / "data", "own"), (here / "own", "own")):
        folder.mkdir(exist_ok=True)
        pd.DataFrame({"id": [1, 2]}).to_parquet(folder / f"{name}.parquet")
    (here / "data" / "link.parquet").symlink_to(place / "beside" / "rows.parquet")
    (here / "data" / "base.csv").write_text("id\n1\n")
    for file in (here / "data" / "base.db", place / "beside" / "base.db"):
        with duckdb.connect(file) as database:
            database.execute("create table flights as select 1 as id; create schema more")
            database.execute("create table more.flights as select 1 as id")
            database.execute(f"create view spy as select * from read_csv('{place}/beside/rows.csv')")
    environment = os.environ | {"PREFECT__FLOW_RUN_ID": RUN, "EVENFOLD_DATA_ROOTS": roots.replace("HERE", str(here))}
    done = subprocess.run([sys.executable, "-c", READING], cwd=here, env=environment, capture_output=True, text=True,
                          input=json.dumps([path.replace("HERE", str(here)) for path in OUTSIDE]))  # fmt: skip
    assert done.returncode == 0, done.stderr[-2000:]
    *answers, inside = map(json.loads, done.stdout.splitlines())
    refusal = r"not below a folder that a deployed run may read|cannot be read|is no table of|there is no file|holds no"
    assert [each for each in answers if each[2] or not re.search(refusal, str(each[1]))] == []
    assert len(answers) == len(OUTSIDE)
    assert inside == [1, 1, 2]


@pytest.mark.usefixtures("deployed")
def test_what_lies_below_them_is(place: Path) -> None:
    frame = place / "project" / ".evenfold" / "data" / "frame.csv"
    frame.parent.mkdir(parents=True)
    frame.write_text("id,y\n1,2\n")
    for path in ("data/rows.csv", "data/r*.csv", ".evenfold/data/frame.csv", "./data/./rows.csv"):
        assert read_table(path).num_rows > 0


@pytest.mark.usefixtures("deployed")
def test_roots_are_folders_and_buckets(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Several, by comma; a link to a root is followed; a name that only begins like a root is none."""
    monkeypatch.setenv("EVENFOLD_DATA_ROOTS", "linked, s3://bucket/data")
    assert read_table(str(place / "beside" / "rows.csv")).num_rows == 2
    require_readable(["s3://bucket/data/a.parquet", "linked/rows.csv"])
    for path in (
        "data/rows.csv",
        *(f"s3://bucket/{key}" for key in ("database/a", "data/../secret/a", "a")),
        "S3://x/a",
    ):
        with pytest.raises(SplitError, match="not below a folder"):
            require_readable([path])
    (place / "beside-too").mkdir()
    with pytest.raises(SplitError, match="not below a folder"):
        require_readable([place / "beside-too" / "rows.csv"])


@pytest.mark.usefixtures("deployed")
def test_specifications_models_and_manifests_are_files_too(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever a request names by a path is held to the roots, also a manifest whose files are links."""
    monkeypatch.delenv("PREFECT__FLOW_RUN_ID")
    outside = write_manifest(decide({"columns": {"key": "id"}}, pd.DataFrame({"id": range(9)})), place / "beside")
    monkeypatch.setenv("PREFECT__FLOW_RUN_ID", RUN)
    for read in (read_spec, ModelSpec.read, read_manifest):
        with pytest.raises((SplitError, ModelError), match="not below a folder"):
            read(str(outside))  # type: ignore[operator]
    inside = place / "project" / "splits"
    inside.mkdir()
    for file in outside.iterdir():
        (inside / file.name).symlink_to(file)
    (inside / "manifest.json").unlink()
    (inside / "manifest.json").write_text((outside / "manifest.json").read_text())
    with pytest.raises(SplitError, match=r"assignments-0000\.parquet.*not below a folder"):
        read_manifest(inside)


def rows(n: int = 60, **columns: Any) -> pd.DataFrame:
    frame = pd.DataFrame({"id": [f"{SECRET}-{i:03}" for i in range(n)], "y": np.arange(n) % 7 + 0.5, "x": range(n)})
    return frame.assign(
        g=[f"{SECRET}-g{i % 20}" for i in range(n)], kind=[f"{SECRET}-{i % 2}" for i in range(n)], **columns
    )


KEYED = {"columns": {"key": "id", "target": "y"}, "strategy": "KFold"}
GROUPED = {"columns": {"key": "id", "target": "y", "group": "g"}, "strategy": "BalancedGroupKFold"}
BY_KIND = {"columns": {"key": "id", "target": "kind"}, "strategy": "StratifiedKFold"}


def fitted(frame: pd.DataFrame, spec: dict[str, Any], **model: Any) -> None:
    manifest = decide(spec, frame)
    recipe = ModelSpec.of({"estimator": "sklearn.linear_model:Ridge", **model})
    columns = manifest.spec.columns
    roles = [name for name in columns.roles() if name != columns.target]
    problem = Problem.of(frame, recipe, str(columns.target), roles)
    fit_and_score(problem, *next(iter(manifest.as_cv(frame).split())), seed=0, name="fold 0")


def written(text: str, **asked: Any) -> None:
    Path("data/bad.csv").write_text(text)
    decide({"columns": {"key": "id"}, **asked}, "data/bad.csv")


def merged_groups(frame: pd.DataFrame) -> Any:
    manifest = decide(GROUPED, frame)
    two = frame["g"].isin([f"{SECRET}-g0", f"{SECRET}-g1", f"{SECRET}-g2", f"{SECRET}-g3"])
    return extend(manifest, frame.assign(g=np.where(two, f"{SECRET}-g0", frame["g"])), max_missing=1)


def lopsided() -> pd.DataFrame:
    return rows().assign(g=np.where(np.arange(60) < 40, f"{SECRET}-g0", rows()["g"]))


def one_of_a_kind() -> pd.DataFrame:
    return rows().assign(kind=[f"{SECRET}-1"] * 59 + [SECRET])


REFUSALS: dict[str, Callable[[], Any]] = {
    "a key twice": lambda: decide(KEYED, pd.concat([rows(), rows(3)])),
    "text for a number": lambda: decide(KEYED | {"types": {"id": "int"}}, rows()),
    "a target of text": lambda: decide(
        {"columns": {"key": "id", "target": "y"}, "types": {"y": "float"}, "strategy": "SortedStratifiedKFold"},
        rows().assign(y=rows()["kind"]),
    ),
    "a number for a truth value": lambda: decide(
        {"columns": {"key": "x", "stratify": "y"}, "types": {"y": "bool"}, "strategy": "StratifiedKFold"},
        rows().assign(y=[SECRET_NUMBER] * 60),
    ),
    "a frame of mixed kinds": lambda: decide(KEYED, rows().assign(id=[SECRET, 5, *range(58)])),
    "a CSV with a longer line": lambda: written(f"id,y\n1,2\n3,{SECRET},5\n"),
    "a CSV with a wrong type": lambda: written(f"id,y\n1,2\n{SECRET},5\n", types={"id": "int"}),
    "a CSV that is not UTF-8": lambda: (
        Path("data/latin.csv").write_bytes(f"id,y\n1,{SECRET}\xe9\n".encode("latin1")) and decide({}, "data/latin.csv")
    ),
    "a batch that is known": lambda: extend(decide(KEYED, rows()), rows(), batch=True),
    "rows that are missing": lambda: extend(decide(KEYED, rows()), rows(9)),
    "other rows": lambda: decide(KEYED, rows()).as_cv(rows(50)),
    "rows too many": lambda: decide(KEYED, rows(50)).as_cv(rows(60)),
    "a class too rare": lambda: decide(BY_KIND | {"params": {"n_splits": 50}}, rows()),
    "text that a model cannot read": lambda: fitted(
        rows(), KEYED, features=["x", "kind"], text="ordinal", threshold=0.5
    ),
    "one class": lambda: fitted(rows().assign(kind=SECRET), BY_KIND),
    "one number": lambda: fitted(rows().assign(y=float(SECRET_NUMBER)), KEYED | {"strategy": "KFold"}),
    "a metric that cannot score": lambda: fitted(rows(), BY_KIND, metrics=["r2"]),
    "a target of negative numbers": lambda: fitted(
        rows().assign(y=-float(SECRET_NUMBER) - np.arange(60)), KEYED, target_transform="box-cox"
    ),
    "a fit that fails": lambda: fitted(rows(), BY_KIND, features=["x"], params={"solver": "no such"}, metrics=["r2"]),
    "a specification that is none": lambda: (
        Path("data/spec.yaml").write_text(f"{SECRET}: [\n{SECRET}") and read_spec("data/spec.yaml")
    ),
    "a specification of text": lambda: Path("data/t.yaml").write_text(SECRET) and read_spec("data/t.yaml"),
    "a model that is none": lambda: Path("data/m.yaml").write_text(f"- {SECRET}: [") and ModelSpec.read("data/m.yaml"),
    "a manifest that is none": lambda: (
        Path("data/manifest.json").write_text(f'{{"schema": "{SECRET}"') and read_manifest("data")
    ),
    "a splitter that refuses": lambda: decide(
        {"columns": {"key": "id", "target": "kind"}, "strategy": "FromSklearn"}
        | {"params": {"splitter": "sklearn.model_selection:StratifiedKFold", "params": {"n_splits": 50}}},
        rows(),
    ),
}
TOLD: dict[str, Callable[[], str]] = {
    "merged groups": lambda: str(merged_groups(rows()).notes),
    "an audit of leaking groups": lambda: audit(decide(KEYED, rows()), rows(), group="g").model_dump_json(),
    "an audit of similar keys": lambda: audit(
        decide(KEYED, rows()), rows().assign(id=lambda frame: frame["id"].str.upper())
    ).model_dump_json(),
    "an audit of groups too large": lambda: audit(decide(GROUPED, lopsided()), lopsided()).model_dump_json(),
    "an audit of a class that is missing": lambda: audit(
        decide(BY_KIND | {"strategy": "KFold"}, one_of_a_kind()), one_of_a_kind()
    ).model_dump_json(),
    "a table that arrives": lambda: check_arrival(decide(GROUPED, rows()), rows(30), None).model_dump_json(),
}


def chain(error: BaseException | None) -> str:
    texts = []
    while error is not None:
        texts.append(f"{type(error).__name__}: {error}")
        error = error.__cause__ or (None if error.__suppress_context__ else error.__context__)
    return "\n".join(texts)


@pytest.mark.usefixtures("deployed", "place")
@pytest.mark.parametrize("name", REFUSALS)
def test_no_error_of_a_deployed_run_quotes_a_cell(name: str) -> None:
    """Neither its sentence nor what a traceback would show of its causes; a sentence there is."""
    with pytest.raises((SplitError, ModelError, EvaluationError)) as raised:
        REFUSALS[name]()
    told = chain(raised.value)
    assert SECRET not in told
    assert str(SECRET_NUMBER) not in told.replace(",", "")
    assert len(str(raised.value)) > 20


@pytest.mark.usefixtures("deployed", "place")
@pytest.mark.parametrize("name", TOLD)
def test_no_finding_of_a_deployed_run_quotes_a_cell(name: str) -> None:
    """What is only told, in notes, audits and the gates of what arrives, names rows by number."""
    assert SECRET not in TOLD[name]()


@pytest.mark.usefixtures("place")
def test_a_person_is_told_which_cell() -> None:
    assert [read_table(path).num_rows for path in ("../beside/rows.csv", "data/link.csv")] == [2, 2]
    quoting = 0
    for refusal in REFUSALS.values():
        with pytest.raises((SplitError, ModelError, EvaluationError)) as raised:
            refusal()
        quoting += SECRET in chain(raised.value) or str(SECRET_NUMBER) in chain(raised.value)
        assert WITHHELD not in str(raised.value)
    assert quoting >= 10
    assert reason_of(ValueError(SECRET)) == SECRET
