"""In a real notebook a result shows its page's top band, and one line at a prompt."""

import re
import shutil
from pathlib import Path
from typing import Any

import nbformat
import numpy as np
import pandas as pd
import pytest
from evenfold.flows import evaluate, split
from evenfold.tasks import Home
from IPython.core.interactiveshell import InteractiveShell
from nbclient import NotebookClient
from own_code import CELL
from pages import Page
from traitlets.config import Config

SETUP = """
import numpy as np, pandas as pd
from evenfold.estimates import ModelSpec, Problem, aggregate, compare, fit_and_score
from evenfold.manifests import audit, decide, measure
rng = np.random.default_rng(0)
frame = pd.DataFrame({"row": range(200), "a": rng.normal(size=200), "kind": rng.choice(["<i>ill</i>", "well"], 200)})
spec = {"name": "beds", "strategy": "StratifiedKFold", "columns": {"key": "row", "target": "kind"}}
manifest = decide(spec, frame)
model = ModelSpec(estimator="sklearn.linear_model:LogisticRegression", metrics=("accuracy",), exclude=["row"])
problem = Problem.of(frame, model, "kind")
fits = [fit_and_score(problem, train, test, seed=0, name=f"fold {i}", fold=i)
        for i, (train, test) in enumerate(manifest.as_cv(frame).split())]
predictions = pd.concat([part for _, part in fits])
"""
CELLS = {
    "Manifest": "manifest",
    "BalanceReport": "measure(manifest, frame)",
    "Audit": "audit(manifest, frame)",
    "Estimate": "aggregate([score for score, _ in fits], predictions, problem)[0]",
    "Comparison": "compare(predictions, predictions, 'accuracy')",
}


COMPUTED = f"""
import os, sys
os.environ["EVENFOLD_HOME"] = "home"
sys.path.insert(0, {str(Path(__file__).parents[1])!r})
from evenfold.flows import evaluate
from small import SPEC, small
own = evaluate(small(60), SPEC, model, features=["a", "b"], metrics=lambda y, told: -np.std(y - told), engine="plain")
print(own.n_cached, own.run_id)
"""
RUNNING = """
made = evaluate(frame, spec=spec, model="sklearn.linear_model:LogisticRegression", metrics=["accuracy"], engine="plain")
"""


class Watched(NotebookClient):
    """A notebook whose messages of what is displayed are kept, in their order."""

    said: list[tuple[str, dict[str, str]]]

    def process_message(self, msg: Any, cell: Any, cell_index: int) -> Any:
        if cell.source == RUNNING and msg["msg_type"] in ("display_data", "update_display_data"):
            self.said.append((msg["msg_type"], msg["content"]["data"]))
        return super().process_message(msg, cell, cell_index)


@pytest.fixture(scope="module")
def executed(tmp_path_factory: pytest.TempPathFactory, empty_store: Path) -> Watched:
    """Run a notebook in a kernel of its own: each kind of result, then a model of its own cells, last an evaluation."""
    folder = tmp_path_factory.mktemp("notebook")
    (folder / "home").mkdir()
    shutil.copy(empty_store, folder / "home")
    return run(folder, SETUP, *CELLS.values(), CELL, COMPUTED, RUNNING)


def run(folder: Path, *cells: str) -> Watched:
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(source) for source in cells])
    client = Watched(notebook, timeout=600, kernel_name="python3", resources={"metadata": {"path": str(folder)}})
    client.said = []
    client.execute()
    nbformat.writes(notebook)  # what is shown can be saved
    return client


def test_a_notebook_shows_the_band_of_the_page(executed: Watched) -> None:
    for name, cell in zip(CELLS, executed.nb.cells[1:], strict=False):
        html, line = (cell.outputs[0].data[kind] for kind in ("text/html", "text/plain"))
        page = Page(html)
        assert page.open == page.addresses == []
        assert "<i>" not in html
        assert "script" not in page.tags
        assert re.search(r"<style>\s*@scope \(\.evenfold\)", html)
        assert ":root" not in html
        assert re.fullmatch(rf"{name}[^\n]{{,240}}", line)


def test_a_result_says_what_its_audit_found(home: Home) -> None:
    """R2 1.0 from a copy of the target is not shown in neutral grey, and the sentence stands beside the score."""
    y = np.random.default_rng(0).normal(size=80)
    data = pd.DataFrame({"row": range(80), "copy": y * 3, "y": y})
    made = evaluate(data, key="row", target="y", name="beds", model="sklearn.linear_model:Ridge", engine="plain")
    for outcome in (split(data, key="row", target="y", name="beds", engine="plain"), made):
        assert re.search(r"; audit: 1 failed.*; 1 feature all but gives 'y' away: copy", repr(outcome))
        html = outcome._repr_html_()
        assert "Do not use" in html
        assert "all but gives" in html


def test_a_notebook_shows_one_line_that_goes_on_while_models_are_fitted(executed: Watched) -> None:
    kinds, lines = zip(*[(kind, data["text/plain"]) for kind, data in executed.said], strict=True)
    assert kinds == ("display_data",) + ("update_display_data",) * (len(kinds) - 1)
    assert any(re.fullmatch(r"fitting models: [1-5] of 5, \d+ s", line) for line in lines)
    assert re.fullmatch(r"done after \d+ s", lines[-1])
    (shown,) = [each for each in executed.nb.cells[-1].outputs if each.output_type == "display_data"]
    assert shown.data["text/plain"] == lines[-1]


def test_a_shell_that_starts_later_finds_what_the_kernel_computed(
    executed: Watched, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Of a model whose classes no import path leads to, and whose cell has another comment by now."""
    first = "".join(out["text"] for out in executed.nb.cells[-2].outputs if out.get("name") == "stdout")
    monkeypatch.chdir(executed.resources["metadata"]["path"])
    monkeypatch.setenv("EVENFOLD_HOME", "home")
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    config = Config(HistoryManager={"enabled": False})
    shell = InteractiveShell(config=config, ipython_dir=str(tmp_path))  # not a process's imports once more
    try:
        for cell in (f"# Tuesday\n\n{CELL}", COMPUTED):
            shell.run_cell(cell).raise_error()
    finally:
        shell.restore_sys_module_state()
    answers = [told.split()[-2:] for told in (first, capsys.readouterr().out)]
    assert [n for n, _ in answers] == ["0", "3"]
    assert len({run_id for _, run_id in answers}) == 1
