"""What tests of flows share beside the homes."""

from pathlib import Path

import pytest
from small import small


@pytest.fixture
def data(tmp_path: Path) -> Path:
    small().to_parquet(tmp_path / "small.parquet")
    return tmp_path / "small.parquet"
