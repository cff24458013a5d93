"""In a real notebook a result shows its page's top band, and one line at a prompt."""

from __future__ import annotations

import re
import shutil
from pathlib import Path
from typing import Any

import nbformat
import numpy as np
import pandas as pd
import pytest
from evenfold.estimates import Estimate, Interval
from evenfold.flows import evaluate, split, tune
from evenfold.manifests import audit, decide, measure
from evenfold.splitters.display import Displayed
from evenfold.tasks import Home
from mlflow import MlflowClient
from nbclient import NotebookClient
from pages import Page

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
fits = [fit_and_score(model, problem, train, test, seed=0, name=f"fold {i}", fold=i)
        for i, (train, test) in enumerate(manifest.as_cv(frame).split())]
predictions = pd.concat([part for _, part in fits])
"""
CELLS = {
    "Manifest": "manifest",
    "BalanceReport": "measure(manifest, frame)",
    "Audit": "audit(manifest, frame)",
    "Estimate": "aggregate([score for score, _ in fits], predictions, problem, model)[0]",
    "Comparison": "compare(predictions, predictions, 'accuracy')",
}


RUNNING = """
import os
os.environ["EVENFOLD_HOME"] = "home"
from evenfold.flows import evaluate
made = evaluate(frame, spec=spec, model="sklearn.linear_model:LogisticRegression", metrics=["accuracy"], engine="plain")
"""


class Watched(NotebookClient):
    """A notebook whose messages of what is displayed are kept, in their order."""

    said: list[tuple[str, dict[str, str]]]

    def process_message(self, msg: Any, cell: Any, cell_index: int) -> Any:
        if msg["msg_type"] in ("display_data", "update_display_data"):
            self.said.append((msg["msg_type"], msg["content"]["data"]))
        return super().process_message(msg, cell, cell_index)


@pytest.fixture(scope="module")
def executed(tmp_path_factory: pytest.TempPathFactory, empty_store: Path) -> Watched:
    """Run a notebook in a kernel of its own: each kind of result, and last an evaluation."""
    cells = [nbformat.v4.new_code_cell(source) for source in (SETUP, *CELLS.values(), RUNNING)]
    folder = tmp_path_factory.mktemp("notebook")
    (folder / "home").mkdir()
    shutil.copy(empty_store, folder / "home")
    notebook = nbformat.v4.new_notebook(cells=cells)
    client = Watched(notebook, timeout=200, kernel_name="python3", resources={"metadata": {"path": str(folder)}})
    client.said = []
    client.execute()
    nbformat.writes(notebook)  # what is shown can be saved
    return client


@pytest.fixture
def outputs(executed: Watched) -> dict[str, dict[str, str]]:
    """Return what the cell of each kind shows, by kind of content."""
    return {name: cell.outputs[0].data for name, cell in zip(CELLS, executed.nb.cells[1:-1], strict=True)}


@pytest.mark.parametrize("name", CELLS)
def test_a_notebook_shows_the_band_of_the_page(name: str, outputs: dict[str, dict[str, str]]) -> None:
    """HTML that is closed, escaped, without script or address, with its style kept to itself; and one line of text."""
    shown = outputs[name]
    html = shown["text/html"]
    page = Page(html)
    assert page.open == []
    assert page.addresses == []
    assert "<i>" not in html
    assert "script" not in page.tags
    assert re.search(r"<style>\s*@scope \(\.evenfold\)", html)
    assert ":root" not in html
    assert shown["text/plain"].startswith(name)
    assert "\n" not in shown["text/plain"]
    assert len(shown["text/plain"]) < 240


def test_lines_say_what_matters() -> None:
    """Rows, folds, strategy and identity; what failed and passed; value and interval."""
    data = pd.DataFrame({"row": range(60), "ward": np.arange(60) % 12, "kind": ["a", "b"] * 30})
    manifest = decide(
        {
            "name": "beds",
            "strategy": "BalancedGroupKFold",
            "columns": {"key": "row", "target": "kind", "group": "ward"},
        },
        data,
    )
    line = f"Manifest beds 1.0: 60 rows in 5 folds by ward (BalancedGroupKFold), id {manifest.split_id[:12]}"
    assert repr(manifest) == line
    assert repr(audit(manifest, data)).startswith("Audit of beds 1.0: ")
    assert "size" in repr(measure(manifest, data))
    assert repr(Estimate("r2", "cross-validation", 0.5, 0.1, 0.1, 5)) == "Estimate R2 0.5: cross-validation, 5 splits"
    interval = Interval(-3, -2, 0.9, "corrected resampled t")
    error = Estimate("neg_mean_absolute_error", "random splits", -2.5, None, None, 9, interval=interval)
    assert repr(error) == "Estimate MAE 2.5, 90 % [2, 3]: random splits, 9 splits"


def test_what_flows_come_to_is_shown_too(home: Home) -> None:
    """An evaluation and a tuning have one line with their scores, and the top of their page."""
    rng = np.random.default_rng(0)
    data = pd.DataFrame({"row": range(80), "a": rng.normal(size=80), "y": rng.normal(size=80)})
    request: dict[str, Any] = {
        "spec": {"name": "beds", "params": {"n_splits": 3}, "columns": {"key": "row", "target": "y"}},
        "model": {"estimator": "sklearn.linear_model:Ridge", "metrics": ["r2"]},
        "engine": "plain",
    }
    evaluation, tuning = evaluate(data, **request), tune(data, grid={"alpha": [1.0, 9.0]}, **request)
    for outcome, line in ((evaluation, "Evaluation of sklearn"), (tuning, "Tuning of 2 configurations: {'alpha': ")):
        assert repr(outcome).startswith(line)
        html = outcome._repr_html_()
        assert Page(html).open == []
        assert 'class="tile"' in html
    run = MlflowClient(home.tracking_uri)
    for run_id in (evaluation.run_id, tuning.run_id):
        assert "report.html" in [file.path for file in run.list_artifacts(run_id)]


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


def test_a_result_that_nothing_draws_shows_its_line() -> None:

    class Own(Displayed):
        @property
        def summary(self) -> str:
            return "Own 1"

    assert Own()._repr_html_() is None
    assert repr(Own()) == "Own 1"


def test_a_notebook_shows_one_line_that_goes_on_while_models_are_fitted(executed: Watched) -> None:
    kinds, lines = zip(*[(kind, data["text/plain"]) for kind, data in executed.said], strict=True)
    assert kinds == ("display_data",) + ("update_display_data",) * (len(kinds) - 1)
    assert any(re.fullmatch(r"fitting models: [1-5] of 5, \d+ s", line) for line in lines)
    assert re.fullmatch(r"done after \d+ s", lines[-1])
    assert all(data["text/html"].startswith("<progress value=") for _, data in executed.said)
    (shown,) = [each for each in executed.nb.cells[-1].outputs if each.output_type == "display_data"]
    assert shown.data["text/plain"] == lines[-1]
