"""What tests of flows share beside the homes."""

from __future__ import annotations

from pathlib import Path

import pytest
from small import small


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """Return a file that holds ``small()``."""
    small().to_parquet(tmp_path / "small.parquet")
    return tmp_path / "small.parquet"
