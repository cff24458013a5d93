"""What is shipped, imported and installed; one class above every error, nouns for variables."""

import ast
import importlib
import os
import re
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from collections import Counter
from importlib.metadata import PackageNotFoundError, requires
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

import evenfold

ROOT = Path(__file__).parents[2]
ROOMS = ("splitters", "manifests", "estimates", "reports", "tasks", "flows", "deployments")


@pytest.fixture(scope="session")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build the wheel and the source archive of the tracked files, in a folder of their own."""
    folder = tmp_path_factory.mktemp("dist")
    source = folder / "source"
    for name in tracked():
        (source / name).parent.mkdir(parents=True, exist_ok=True)
        (source / name).write_bytes((ROOT / name).read_bytes())
    command = [sys.executable, "-m", "build", "--no-isolation", "--outdir", str(folder), str(source)]
    subprocess.run(command, check=True, capture_output=True)
    return folder


def tracked() -> list[str]:
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard"]
    names = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout.split("\n")
    return [name for name in names if name and (ROOT / name).exists()]


def test_the_wheel_holds_the_rooms_and_nothing_else(built: Path) -> None:
    """Every tracked file of the rooms and the front door is in the wheel, under evenfold, and no other file is."""
    with zipfile.ZipFile(next(built.glob("*.whl"))) as wheel:
        shipped = {name for name in wheel.namelist() if ".dist-info/" not in name}
    rooms = {f"evenfold/{name}" for name in tracked() if name.split("/")[0] in ROOMS}
    door = {name for name in tracked() if name.startswith("evenfold/")}
    kinds = (".py", ".pyi", ".typed", ".yaml", ".service", ".html", ".j2", ".css")
    assert shipped == {name for name in rooms | door if name.endswith(kinds)}


def test_files_and_folders_stay_small() -> None:
    """Source has up to 400 lines a file, and a room's folders 3 to 14 files: a question opens one of them.

    ``__init__`` and py.typed, which every package has, do not count.
    """
    source = [name for name in tracked() if name.endswith((".py", ".pyi"))]
    lines = {name: len((ROOT / name).read_text(encoding="utf-8").splitlines()) for name in source}
    assert {name: n for name, n in lines.items() if n > 400} == {}
    counted = [Path(name) for name in tracked() if name.split("/")[0] in ROOMS]
    folders = Counter(path.parent for path in counted if path.stem != "__init__" and path.name != "py.typed")
    assert {str(folder): n for folder, n in folders.items() if not 3 <= n <= 14} == {}


def test_the_source_archive_holds_every_tracked_file(built: Path) -> None:
    with tarfile.open(next(built.glob("*.tar.gz"))) as archive:
        shipped = {name.partition("/")[2] for name in archive.getnames() if name.count("/")}
    absent = {name for name in tracked() if name not in shipped} - {".gitignore"}
    assert not absent


def test_the_wheel_works_without_the_repository_and_loads_what_is_asked_for(built: Path, tmp_path: Path) -> None:
    """Installed elsewhere it imports as evenfold, splits, and puts no bare room name in sys.modules.

    ``dir()`` has what users need; help imports no library of numbers, pure rooms and ``plan`` neither of the two large.
    """
    # What is imported below is compiled then, and nothing else.
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-compile"]
    wheel, site = next(built.glob("*.whl")), str(tmp_path / "site")
    subprocess.run([*pip, "--target", site, str(wheel)], check=True, capture_output=True)
    script = (
        "import sys; sys.path.insert(0, sys.argv[1])\n"
        "import evenfold, evenfold.flows.cli\n"
        "assert {'__version__', 'decide', 'split', 'evaluate', 'read_manifest'} <= set(dir(evenfold))\n"
        "assert not {'numpy', 'pandas', 'sklearn', 'scipy', 'imblearn', 'prefect', 'mlflow'} & set(sys.modules)\n"
        "import evenfold.splitters, evenfold.manifests, evenfold.estimates\n"
        "assert evenfold.splitters.KFold(3).assign(range(9)).tolist().count(0) == 3\n"
        "assert not {'prefect', 'mlflow'} & set(sys.modules)\n"
        "import evenfold.tasks.references, evenfold.tasks.record.reading\n"
        "import pandas\n"
        "rows = pandas.DataFrame({'x': range(60), 'y': [0, 1] * 30})\n"
        "assert 'fits' in evenfold.plan(rows, target='y').summary\n"
        "assert not {'prefect', 'mlflow'} & set(sys.modules), 'evenfold list and plan wait for it in vain'\n"
        "import evenfold.reports, evenfold.tasks, evenfold.flows\n"
        "places = [evenfold.splitters.__file__, evenfold.flows.cli.__file__]\n"
        "assert all(place.startswith(sys.argv[1]) for place in places), places\n"
        f"bare = [name for name in {ROOMS} if name in sys.modules]\n"
        "assert not bare, bare\n"
    )
    ran = subprocess.run(
        [sys.executable, "-c", script, site],
        cwd=tmp_path, capture_output=True, text=True, env=os.environ | {"EVENFOLD_HOME": str(tmp_path)},
    )  # fmt: skip
    assert ran.returncode == 0, ran.stderr


def test_in_a_checkout_the_house_is_imported_however_it_was_installed() -> None:
    """The folder of the front door hides the installed package there; the rooms stand beside it."""
    plain = "import sys; sys.meta_path = [each for each in sys.meta_path if 'editable' not in str(each)]"
    asks = f"{plain}; import evenfold; print(evenfold.SplitError.__module__, evenfold.splitters.__file__)"
    answer = subprocess.run([sys.executable, "-c", asks], cwd=ROOT, check=True, capture_output=True, text=True)
    assert answer.stdout.split()[1] == str(ROOT / "splitters" / "__init__.py")


@pytest.mark.parametrize("room", [each for each in ROOMS if each != "deployments"])
def test_no_name_that_a_room_offers_is_hidden_by_one_of_its_modules(room: str) -> None:
    """A module that is imported first would stand where the lazily imported name belongs."""
    offered = set(importlib.import_module(f"evenfold.{room}").__all__)
    modules = {path.stem for path in (ROOT / room).iterdir() if path.is_dir() or path.suffix == ".py"}
    assert not offered & modules


def test_the_constraints_name_versions_and_no_places() -> None:
    """Every line pins one exact version, and every direct dependency is among them and within its bounds."""
    lines = (ROOT / "constraints.txt").read_text().split()
    pins = dict(line.lower().replace("_", "-").split("==") for line in lines)
    assert len(pins) == len(lines)
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    for line in project["dependencies"] + project["optional-dependencies"]["dev"]:
        wanted = Requirement(line)
        assert wanted.specifier.contains(pins[wanted.name.lower().replace("_", "-")]), line


@pytest.mark.parametrize("python", ["3.11.0", "3.12.0", "3.13.0"])
def test_what_any_python_that_we_name_needs_is_pinned(python: str) -> None:
    """Some packages are needed on one Python alone: a freeze of another lacks them, and pip would take any version."""
    pins = {canonicalize_name(line.split("==")[0]) for line in (ROOT / "constraints.txt").read_text().split()}
    classifiers = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["classifiers"]
    assert f"Programming Language :: Python :: {python.removesuffix('.0')}" in classifiers
    machine = {"python_full_version": python, "python_version": python.removesuffix(".0")}
    wanted, seen = [("evenfold", ""), ("evenfold", "dev")], set()
    while wanted:
        name, extra = package = wanted.pop()
        if package in seen:
            continue
        seen.add(package)
        try:
            needed = requires(name) or []
        except PackageNotFoundError:  # needed on that Python, not on this: what it needs in turn cannot be asked
            continue
        for line in map(Requirement, needed):
            if line.marker is None or line.marker.evaluate(machine | {"extra": extra}):
                wanted += [(canonicalize_name(line.name), extra) for extra in ("", *line.extras)]
    assert {name for name, _ in seen} - {"evenfold"} <= pins


def test_every_error_of_every_room_is_an_evenfold_error() -> None:
    """One except clause catches them all, and each is a ValueError or a RuntimeError besides."""
    files = [file for room in ROOMS for file in (ROOT / room).rglob("*.py")]
    found = [
        getattr(importlib.import_module(".".join(["evenfold", *file.relative_to(ROOT).with_suffix("").parts])), name)
        for file in files
        for name in re.findall(r"^class ([A-Z]\w*)\(.*(?:Error|Exception|Exit)\b", file.read_text("utf-8"), re.M)
    ]
    assert len(found) >= 7
    assert [kind for kind in found if not issubclass(kind, evenfold.EvenfoldError)] == []
    theirs = [kind for kind in found if not issubclass(kind, (ValueError, RuntimeError))]
    assert theirs == [evenfold.EvenfoldError]


INNER = re.compile(
    r"prefect\.(?:_(?!_)|results|server)|\b(?:ResultRecord|__var__|_max_workers|PREFECT__\w+)\b"
    r"|^class \w+\((?:Task|Flow)\b", re.M
)  # fmt: skip
LEFT = {"tasks/runtime/server.py": 1}  # how often: the application that a server runs; it may only fall


def test_no_inner_name_of_prefect_or_mlflow_comes_in() -> None:
    """Neither those that only Prefect's own code is for, nor any that begins with an underscore, however it is read."""
    files = [file for room in ("tasks", "flows") for file in (ROOT / room).rglob("*.py")]
    counted = {file.relative_to(ROOT).as_posix(): len(INNER.findall(file.read_text())) for file in files}
    assert {file: times for file, times in counted.items() if times} == LEFT
    names = [name for file in files for node in ast.walk(ast.parse(file.read_text())) for name in others_names(node)]
    inner = {name for name in names if re.match("_(?!_)", name.rpartition(".")[2])}
    assert inner == {"os._exit", "parts._replace"}  # which Python documents


def others_names(node: ast.AST) -> list[str]:
    """Return the names that a piece of code takes from others: imports, attributes, and those asked for as text."""
    if isinstance(node, ast.ImportFrom):
        return [*(node.module or "").split("."), *(alias.name for alias in node.names)]
    if isinstance(node, ast.Attribute):
        owner = ast.unparse(node.value)
        return [] if owner in ("self", "cls") else [f"{owner}.{node.attr}"]
    if isinstance(node, ast.Call) and ast.unparse(node.func) in ("getattr", "setattr", "hasattr"):
        return [str(text.value) for text in node.args if isinstance(text, ast.Constant)]
    return []


# How many are left, which may only fall.
PARTICIPLES = {"splitters": 0, "manifests": 2, "estimates": 0, "reports": 0, "tasks": 0, "flows": 0}


def test_docstrings_begin_with_a_noun_or_a_verb() -> None:
    clause = re.compile(r'^ *"""(What|How|Where|Whether|Of|With)\b', re.M)
    files = [file for room in PARTICIPLES for file in (ROOT / room).rglob("*.py")]
    assert [file.name for file in files if clause.search(file.read_text("utf-8"))] == []


@pytest.mark.parametrize(("room", "most"), PARTICIPLES.items())
def test_variables_are_nouns(room: str, most: int) -> None:
    """``made`` was six kinds of thing: what holds something is called by what it holds."""
    words = {"made", "given", "known", "found", "said", "told", "asked", "shown", "named", "kept"}
    nodes = [node for file in (ROOT / room).rglob("*.py") for node in ast.walk(ast.parse(file.read_text("utf-8")))]
    names = [node.id for node in nodes if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)]
    names += [node.arg for node in nodes if isinstance(node, ast.arg)]
    assert sum(name in words for name in names) <= most
