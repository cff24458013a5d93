"""The docs and the README tell the truth: blocks run, output is what commands print, tables come from code."""

import importlib.util
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from commands import evenfold
from evenfold.manifests import audit, decide
from evenfold.reports import audit_page
from evenfold.tasks import Home

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
PAGES = sorted(path for path in DOCS.rglob("*.md") if path.name != "benchmarks.md")
BLOCK = re.compile(
    r"(?:<!-- not run: (?P<reason>[^>]*)-->\n)?^```(?P<kind>python|console)\n(?P<code>.*?)^```", re.S | re.M
)
STARTS_RUNS = ("split", "evaluate", "extend", "demo")


def blocks(page: Path, kind: str) -> list[str]:
    found = [each for each in BLOCK.finditer(page.read_text(encoding="utf-8")) if each["kind"] == kind]
    assert all(each["reason"] is None or each["reason"].strip() for each in found)
    return [each["code"] for each in found if each["reason"] is None]


def ran(command: list[str], home: Home) -> subprocess.CompletedProcess[str]:
    folder = home.path.parent
    if not (folder / "examples").exists():
        (folder / "examples").symlink_to(ROOT / "examples")
    environment = {**os.environ, "EVENFOLD_HOME": str(home.path)}
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, timeout=600)


@pytest.mark.soak
@pytest.mark.parametrize("page", [page for page in PAGES if blocks(page, "python")], ids=lambda page: page.stem)
def test_the_python_of_a_page_runs_from_top_to_bottom(page: Path, home: Home, tmp_path: Path) -> None:
    script = tmp_path / "page.py"
    script.write_text("\n\n".join(blocks(page, "python")), encoding="utf-8")
    done = ran([sys.executable, str(script)], home)
    assert done.returncode == 0, done.stderr[-3000:]


def test_the_miniature_makes_the_folds_of_the_house() -> None:
    """Its last lines hold it to them, and its text names the files that have them."""
    exec("\n\n".join(blocks(DOCS / "miniature.md", "python")), page := {})
    for names, path in re.findall(r"((?:`\w+`[ ,and]+)+)(?:is|are) in\s`(.*?)`", (DOCS / "miniature.md").read_text()):
        assert {*re.findall(r"\w+(?=`)", names)} <= {*re.findall(r"(?:def|class) (\w+)", (ROOT / path).read_text())}
    assert page["split_id"](page["grown"]["keys"], page["grown"]["folds"]) == page["really_grown"].split_id


def test_loops_of_other_packages_run(home: Home, tmp_path: Path) -> None:
    """As many of those that the page leaves out as are installed: make partners installs them all."""
    page = (DOCS / "keep-your-loop.md").read_text(encoding="utf-8")
    left_out = [each["code"] for each in BLOCK.finditer(page) if each["reason"] is not None]
    packages = [re.findall(r"^import (\w+)", code, re.M) for code in left_out]
    runs = [code for code, names in zip(left_out, packages, strict=True) if all(map(importlib.util.find_spec, names))]
    if not runs:
        pytest.skip("neither skore, datasets nor lightning is installed")
    (tmp_path / "loop.py").write_text("\n\n".join([*blocks(DOCS / "keep-your-loop.md", "python"), *runs]))
    done = ran([sys.executable, "loop.py"], home)
    assert done.returncode == 0, done.stderr[-3000:]


@pytest.mark.soak
@pytest.mark.parametrize("page", [page for page in PAGES if blocks(page, "console")], ids=lambda page: page.stem)
def test_the_commands_of_a_page_run_in_their_order(page: Path, home: Home) -> None:
    lines = "".join(blocks(page, "console")).splitlines()
    commands = [shlex.split(line.removeprefix("$ ")) for line in lines if line.startswith("$ ")]
    assert commands
    for command in commands:
        assert command[0] == "evenfold"
        assert command[1] not in STARTS_RUNS or "plain" in command
        code = "import sys; sys.argv[0] = 'evenfold'; from evenfold.flows.cli import main; main()"
        done = ran([sys.executable, "-c", code, *command[1:]], home)
        assert done.returncode == 0, f"{command}: {done.stderr[-2000:]}"


def loaded(name: str) -> Any:
    specification = importlib.util.spec_from_file_location(name, DOCS / f"{name}.py")
    module = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(module)
    return module


def test_the_picture_of_the_readme_is_what_the_code_draws() -> None:
    module = loaded("regenerate")
    assert module.balance_picture() == (DOCS / "balance.svg").read_text(encoding="utf-8"), "make readme"
    assert module.leak_picture() == (DOCS / "leak.svg").read_text(encoding="utf-8"), "make readme"


def test_what_audits_find_of_planted_leaks_is_told_by_the_results(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(DOCS)
    module = loaded("regenerate")
    assert f"<!-- others -->\n{module.leaks_of_others()}\n" in (DOCS / "audit.md").read_text(encoding="utf-8")
    table = pd.DataFrame({"id": range(60), "y": [0, 1] * 30})
    page = audit_page(audit(decide({"columns": {"key": "id", "target": "y"}}, table), table)).html()
    assert module.recall().strip() in page, "make readme"


def test_what_a_record_costs_is_told_by_the_results(monkeypatch: pytest.MonkeyPatch) -> None:
    """The table of operations.md is made of docs/results/records.json, and no store takes longer than before."""
    monkeypatch.syspath_prepend(ROOT)
    from benchmarks import _records

    told = json.loads((DOCS / "results" / "records.json").read_text(encoding="utf-8"))
    assert _records.table(told) in (DOCS / "operations.md").read_text(encoding="utf-8")
    for versions in told["per evaluation"].values():
        assert versions["after"]["cpu_ms"] <= versions["before"]["cpu_ms"]


def test_the_table_of_interval_methods_is_made_of_their_records() -> None:
    """Each is in docs/estimates.md once, with what it holds, and what asks for further fits says how many."""
    from evenfold.estimates.intervals.registry import INTERVALS, METHODS

    page = (DOCS / "estimates.md").read_text(encoding="utf-8")
    table = loaded("regenerate").intervals()
    assert f"<!-- intervals -->\n{table}\n<!-- /intervals -->" in page, "make readme"
    assert re.findall(r"^\| `(\w+)` ", table, re.M) == list(INTERVALS)
    assert [name for name, method in METHODS.items() if method.fits] == ["nested"], "which further_splits serves"


def test_every_decision_says_what_keeps_it_true() -> None:
    """A decision without a check is a wish; each is numbered, and named in the site's contents."""
    contents = (DOCS / "project.md").read_text(encoding="utf-8")
    decisions = sorted((DOCS / "decisions").glob("*.md"))
    for number, path in enumerate(decisions, start=1):
        text = path.read_text(encoding="utf-8")
        assert path.name.startswith(f"{number:04d}-")
        assert text.startswith(f"# {number}. ")
        for part in ("**Context.**", "**Decision.**", "**Consequences.**", "**Confirmation.**"):
            assert part in text, (path.name, part)
        checks = re.findall(r"`(tests/[\w./]+)(?:::(\w+))?`", text.partition("**Confirmation.**")[2])
        assert checks, path.name
        for file, test in checks:
            assert f"def {test}" in (ROOT / file).read_text(encoding="utf-8"), (path.name, file, test)
        assert f"decisions/{path.stem}\n" in contents


def test_every_strategy_has_a_page_with_every_section() -> None:
    """What it is, a picture, its use, parameters, promises, cost, source and when not to use it: none is empty."""
    from evenfold.splitters import all_strategies

    made = loaded("generated_pages").strategy_pages()
    from strategy_pages import SECTIONS, told

    assert not set(told()) - set(all_strategies()), "docs/strategies.yaml speaks of strategies that are gone"
    assert sorted(made) == sorted(["strategies.md", *(f"strategies/{name}.md" for name in all_strategies())])
    for name in all_strategies():
        page = made[f"strategies/{name}.md"]
        assert f"(strategies/{name}.md)" in made["strategies.md"]
        heads = re.split(r"^## (.*)\n", page, flags=re.M)
        assert tuple(heads[1::2])[: len(SECTIONS)] == SECTIONS, name
        assert all(len(content.split()) >= 3 for content in heads[0::2]), (name, heads)
        assert page.count('fill="#D55E00"') > 0, name
        complexity = heads[heads.index("Complexity") + 1]
        assert "O(" in complexity, name
        words = set(re.findall(r"\w+", (all_strategies()[name].__doc__ or "").lower()))
        assert words - {"promises", "source"} <= set(re.findall(r"\w+", page.lower())), name


def test_commands_and_reference_come_from_the_code() -> None:
    pages = loaded("generated_pages")
    assert "evenfold.reports.report_html`" in pages.reference_page("reports")
    assert "evenfold.splitters.KFold`" in pages.reference_page("splitters")
    from evenfold.flows.cli import COMMANDS

    sections = dict(re.findall(r"^## (\w+)\n(.*?)(?=^## |\Z)", pages.commands_page(), re.S | re.M))
    assert list(sections) == list(COMMANDS)
    assert [name for name, said in sections.items() if f"\nevenfold {name}" not in said or "`--json`" not in said] == []


@pytest.mark.skipif(importlib.util.find_spec("sphinx") is None, reason="Sphinx is not installed; make docs installs it")
def test_the_site_builds_without_a_warning_and_without_the_network(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "sphinx", "--fail-on-warning", "--keep-going", "--quiet"]
    site = tmp_path / "site"
    done = subprocess.run(
        [*command, "-d", str(tmp_path / "trees"), "docs", str(site)], cwd=ROOT, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    html = (tmp_path / "site" / "index.html").read_text(encoding="utf-8")
    fetched = re.findall(r"<(?:link|script|img)[^>]+(?:href|src)=\"?(https?://[^\"\s>]+)", html)
    assert [address for address in fetched if "canonical" not in address] == []


README = (ROOT / "README.md").read_text(encoding="utf-8")


def test_the_readme_shows_what_its_commands_print(empty_store: Path) -> None:

    def here(words: list[str], home: str) -> str:
        shutil.copy(empty_store, home)
        done = evenfold(ROOT, *words, EVENFOLD_HOME=home)
        assert done.returncode == 0, done.stderr
        return done.stdout

    assert loaded("regenerate").filled(README, here) == README, "run: make readme"


@pytest.mark.parametrize("code", re.findall(r"```python\n(.*?)```", README, re.S))
def test_the_python_of_the_readme_runs(
    code: str, home: Home, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A reader can paste it; here it sees every fiftieth flight, which is what it costs."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "examples").mkdir()
    pd.read_parquet(ROOT / "examples" / "flights.parquet")[::50].to_parquet("examples/flights.parquet")
    exec(code, {})
    assert re.fullmatch(r"-?\d\.\d+ [0-9a-f]{64}\n", capsys.readouterr().out)


def test_the_files_that_readme_and_contributing_name_exist() -> None:
    contributing = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    named = re.findall(r"\]\(([^):#]+)\)", README) + re.findall(r"`([a-z_]+/[\w/.]+)`", contributing)
    assert len(named) > 20
    assert [name for name in named if not (ROOT / name).exists()] == []


def test_the_readme_names_every_command_and_no_other() -> None:
    from evenfold.flows.cli import COMMANDS

    cells = [row.split("|")[1] for row in README.splitlines() if row.startswith("| `evenfold")]
    commands = {text.removeprefix("evenfold ").split()[0] for cell in cells for text in re.findall("`(.+?)`", cell)}
    assert commands | {"demo"} == set(COMMANDS)


def test_the_changelog_names_every_strategy() -> None:
    """A strategy that nobody was told of does not exist."""
    from evenfold.splitters import all_strategies

    changelog = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    assert not [name for name in all_strategies() if f"`{name}`" not in changelog]
