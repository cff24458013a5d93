"""Prefect and MLflow by what they document: an inner name of theirs may be another with their next release."""

from __future__ import annotations

import re

import pytest
from servers import ROOT

ROOMS = ("flows", "tasks/runtime", "tasks/steps", "tasks/results")
INNER = re.compile(
    r"""(prefect|mlflow)(\.\w+)*\.(_[a-z]\w*|results|transactions)\b  # modules of their own
    |PREFECT__|__var__|ResultRecord|_sync=|\._(storage|entrypoint)\b""",
    re.VERBOSE,
)


@pytest.mark.parametrize("room", ROOMS)
def test_no_inner_name_of_prefect_or_mlflow_is_used(room: str) -> None:
    files = sorted((ROOT / room).rglob("*.py"))
    assert files
    found = [f"{file}: {hit[0]}" for file in files for hit in INNER.finditer(file.read_text(encoding="utf-8"))]
    assert found == []


def test_an_inner_name_would_be_seen() -> None:
    for line in ("from prefect._internal.x import y", "import prefect.results", "Transaction.__var__.set(None)"):
        assert INNER.search(line)
    assert not INNER.search("from prefect.settings import PREFECT_HOME; kept_results = prefect.__version__")
