"""The evaluation's page says what estimates.json says, with every caveat, and needs nothing but itself."""

from __future__ import annotations

import json
import re
import sqlite3
from pathlib import Path
from typing import Any

import pytest
from evenfold.flows import evaluate
from pages import Page
from sklearn.datasets import load_breast_cancer

MODEL = {"estimator": "evenfold.estimates:scaled_logistic_regression", "metrics": ["accuracy", "roc_auc"]}


def artifacts(home: Path, run_id: str) -> Path:
    with sqlite3.connect(home / "mlflow.db") as store:
        (uri,) = store.execute("select artifact_uri from runs where run_uuid = ?", [run_id]).fetchone()
    return Path(uri.removeprefix("file://"))


@pytest.fixture(scope="module", params=["StratifiedKFold", "Bootstrap"])
def recorded(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Any:
    """Evaluate once per strategy, and return the outcome and where its record lies."""
    home = tmp_path_factory.mktemp("home")
    frame = load_breast_cancer(as_frame=True).frame.assign(patient=range(569))
    frame["target"] = frame["target"].map({0: "<i>malignant</i>", 1: "benign"})
    columns = {"key": "patient", "target": "target"}
    spec = {"name": "cells", "strategy": request.param, "params": {"n_splits": 5}, "columns": columns}
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("EVENFOLD_HOME", str(home))
        outcome = evaluate(frame, spec=spec, model=MODEL, engine="plain")
    return request.param, outcome, home


def test_the_page_says_what_the_estimates_say(recorded: Any) -> None:
    """Values, spreads and intervals are those of estimates.json; every note is there; each metric has its picture."""
    strategy, outcome, home = recorded
    folder = artifacts(home, outcome.run_id)
    page = Page((folder / "report.html").read_text(encoding="utf-8"))
    wanted = ["model", "estimates", "notes", "metric-0", "metric-1"]
    assert page.sections == [*wanted, *(["confusion"] if strategy == "StratifiedKFold" else []), "splits"]
    told = []
    for each in json.loads((folder / "estimates.json").read_text(encoding="utf-8")):
        told += [each[name] for name in ("value", "sd", "se", "pooled", "apparent", "gap")]
        told += [each["interval"][side] for side in ("low", "high")] if each["interval"] else []
    assert page.numbers["estimates"] == [value for value in told if value is not None]
    said = " ".join(page.words)
    assert [note for each in outcome.estimates for note in each.notes if note not in said] == []


def test_the_confusion_matrix_counts_every_row_once(recorded: Any) -> None:
    """Its cells add up to the rows that were tested, and class names are text."""
    strategy, outcome, home = recorded
    html = (artifacts(home, outcome.run_id) / "report.html").read_text(encoding="utf-8")
    assert "<i>" not in html
    if strategy == "StratifiedKFold":
        a, b, first, c, d, second = Page(html).numbers["confusion"]
        assert (a + b, c + d, first + second) == (first, second, 569)


def test_the_page_needs_nothing_but_itself(recorded: Any) -> None:
    """No address, no script; and the split run of the same record holds the split's page and pictures."""
    _, outcome, home = recorded
    html = (artifacts(home, outcome.run_id) / "report.html").read_text(encoding="utf-8")
    assert Page(html).addresses == []
    assert not re.search(r"<script|url\(|https?://", html)
    kept = {path.name for path in (artifacts(home, outcome.split_run_id) / "split").iterdir()}
    assert {"report.html", "balance.json", "sizes.png", "map.png", "classes.png"} <= kept
