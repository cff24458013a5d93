"""What tests of exchange share."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pytest
from evenfold.manifests import Manifest, extend, read_manifest, write_manifest
from tables import split, visits


@pytest.fixture
def grown(tmp_path: Path) -> Manifest:
    first = split(visits())
    write_manifest(first, tmp_path / "splits")
    later = pd.concat([visits(340).query("number >= 2100"), visits().query("number >= 70")])
    return read_manifest(write_manifest(extend(first, later).manifest, tmp_path / "splits"))
