"""Nothing that somebody else names is imported or run: every payload through every door, watched by an audit hook."""

import ast
import json
import os
import pkgutil
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from evenfold.manifests import SplitSpec, decide, write_manifest

ROOT = Path(__file__).parents[2]
ATTACKS = Path(__file__).with_name("attacks.py")
sys.path.insert(0, str(ATTACKS.parent))
from attacks import DOORS, MARKED, MODELS, PATHS, PLANTED, SPECS  # noqa: E402

HOSTILE = ("document", "recipe tag", "decision tag", "scores tag", "changed model", "changed spec", "header")
OURS = tuple(f"evenfold.{each}" for each in (
    "splitters.errors.SplitError", "splitters.untrusted.UntrustedNameError", "splitters.errors.ModelError",
    "manifests.store.header.NoManifestError",
))  # fmt: skip
# Names that a deployed run may use: they make classes of scikit-learn's that do nothing by themselves.
FINE = {"sklearn.preprocessing:FunctionTransformer"}


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("attacked")
    for name in PLANTED:
        (place / name).parent.mkdir(exist_ok=True)
        (place / f"{name}.py").write_text(MARKED)
    made = decide(SplitSpec(strategy="KFold", columns={"key": ["id"]}), pd.DataFrame({"id": range(20)}))
    written = write_manifest(made, place)
    folders = {"KFold": str(written)}
    for i, path in enumerate(PATHS):
        folders[path] = str(place / "manifests" / str(i))
        shutil.copytree(written, folders[path])
        header = json.loads((written / "manifest.json").read_text())
        header["spec"]["strategy"] = path
        (Path(folders[path]) / "manifest.json").write_text(json.dumps(header))
    (place / "manifests.json").write_text(json.dumps(folders))
    return place


@pytest.fixture(scope="module")
def told(place: Path) -> dict[str, Any]:
    """Try all payloads in a fresh process that stands where a worker's would."""
    run_id = "6e5ff2a5-22a8-4b55-b2e5-9d1f2b3c4d5e"
    environment = {**os.environ, "PYTHONPATH": str(place), "PREFECT__FLOW_RUN_ID": run_id}
    command = [sys.executable, "-B", str(ATTACKS)]
    done = subprocess.run(command, cwd=place, env=environment, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr[-2000:]
    answers: dict[str, Any] = json.loads(done.stdout)
    return answers


@pytest.mark.parametrize("kind", DOORS)
def test_a_deployed_run_imports_and_runs_nothing_of_a_payload(told: dict[str, Any], place: Path, kind: str) -> None:
    """No import of a module that is not allowed, no process, no file written or removed; names get a typed error."""
    answers = told[kind]
    assert len(answers) == len(DOORS[kind][1])
    assert [(each["payload"], each["seen"]) for each in answers if each["seen"]] == []
    assert told["marks"] == []
    assert not (place / "evil_pickles").exists()
    if DOORS[kind][1] is PATHS:
        loose = [(PATHS[each["i"]][:80], each["answer"]) for each in answers if "evenfold." not in each["answer"][:40]]
        assert [each for each in loose if each[0] not in FINE] == []


@pytest.mark.parametrize("kind", HOSTILE)
def test_what_is_malformed_is_a_sentence(told: dict[str, Any], kind: str) -> None:
    """Whatever stands in a tag, a file or a header: an error of ours with a sentence of one line, never a raw one."""
    raw = [
        (each["payload"], each["answer"])
        for each in told[kind]
        if each["answer"] != "accepted" and not (each["answer"].startswith(OURS) and each["answer"].isprintable())
    ]
    assert raw == []
    assert any(each["answer"] == "accepted" for each in told[kind])


# What would be there only if somebody had put it into the package.
ABSENT = {"evenfold:X", "evenfold.conftest:X"}


def test_what_the_payloads_name_of_ours_is_there() -> None:
    """A refusal says something only where without it there would be a thing to call: modules and names exist."""
    named = {path for path in PATHS if path.startswith(("evenfold.", "evenfold:")) and path not in ABSENT}
    named |= set(re.findall(r"evenfold\.[\w.]+:\w+", json.dumps([MODELS, SPECS])))
    assert len(named) >= 25
    assert [path for path in sorted(named) if not _is_there(path)] == []


def _is_there(path: str) -> bool:
    try:
        pkgutil.resolve_name(path)
    except (ImportError, AttributeError):
        return False
    return True


def test_the_hook_sees_an_attack_that_succeeds(told: dict[str, Any], place: Path) -> None:
    """At a terminal the planted module may be named: the same doors import it, and the hook says so."""
    answers = {PATHS[each["i"]]: each for each in told["at a terminal"]}
    assert any(seen.startswith("import evil") for seen in answers["evil:X"]["seen"])
    assert any(seen.startswith("exec ") for seen in answers["evil:X"]["seen"])
    assert any(".ran" in seen for seen in answers["evil:X"]["seen"])
    assert (place / "evil.py.ran").exists()
    assert not answers["os:system"]["seen"], "the standard library is refused at a terminal too"


IMPORTERS = {"import_module", "__import__", "eval", "exec", "compile", "resolve_name", "run_path", "run_module"}


def test_one_function_imports_by_string() -> None:
    """Only splitters/untrusted.py calls import_module, eval, exec or their like, and only once."""
    rooms = ("splitters", "manifests", "estimates", "reports", "tasks", "flows", "deployments", "evenfold")
    files = [file for room in rooms for file in sorted((ROOT / room).rglob("*.py"))]
    calls = [
        (str(file.relative_to(ROOT)), _name(node.func))
        for file in files
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8")))
        if isinstance(node, ast.Call) and _name(node.func) in IMPORTERS and not _of_regex(node.func)
    ]
    assert calls == [("splitters/untrusted.py", "import_module")]


def _name(function: ast.expr) -> str:
    return getattr(function, "id", getattr(function, "attr", ""))


def _of_regex(function: ast.expr) -> bool:
    return isinstance(function, ast.Attribute) and getattr(function.value, "id", "") == "re"
