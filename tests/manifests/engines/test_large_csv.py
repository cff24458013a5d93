"""A CSV of any size: how many rows it holds is judged by its beginning, and what its types are too."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from evenfold.manifests import decide, fits_in_memory, require_room
from evenfold.manifests.tables import csv_files
from evenfold.manifests.tables.csv_files import about_rows
from evenfold.splitters import SplitError
from tables import table


def test_a_column_that_begins_with_a_megabyte_of_nothing_is_declared_out_of_core(tmp_path: Path) -> None:
    n = 130_000  # of nine bytes
    lines = ["id,y,z\n", *(f"{i},{i / 2 if i > n - 99 else ''},{i % 3}\n" for i in range(n))]
    (tmp_path / "data.csv").write_text("".join(lines))
    spec = {"columns": {"key": "id", "target": "y"}, "strategy": "SortedStratifiedKFold"}
    with pytest.raises(SplitError, match=r"'y' has no value in any row that was read.*declare its type"):
        decide(spec, tmp_path / "data.csv", engine="duckdb", to=tmp_path / "splits")
    with pytest.raises(SplitError, match=r"'y' is missing .*in 129,902 of 130,000 rows"):
        decide(spec | {"types": {"y": "float"}}, tmp_path / "data.csv", engine="duckdb", to=tmp_path / "splits")


def test_what_is_wrong_in_later_rows_of_a_file_is_a_sentence_out_of_core(tmp_path: Path) -> None:
    (tmp_path / "data.csv").write_text("id,y\n" + "".join(f"{i},{i}\n" for i in range(100_000)) + "100000,a lot\n")
    with pytest.raises(SplitError, match=r"^[^\n]*data.csv cannot be read as CSV .*declare the column's type\.$"):
        decide(
            {"columns": {"key": "id", "target": "y"}}, tmp_path / "data.csv", engine="duckdb", to=tmp_path / "splits"
        )


def test_the_room_that_a_model_needs_is_judged_of_csv_and_of_named_columns(tmp_path: Path) -> None:
    rows = table(5_000).drop(columns="when")
    rows.to_csv(tmp_path / "rows.csv", index=False)
    rows.to_csv(tmp_path / "rows.csv.gz", index=False)
    with pytest.raises(
        SplitError, match=r"about (4,9\d\d|5,0\d\d) rows of 8 columns take about .* GB .*name fewer features"
    ):
        require_room(tmp_path / "rows.csv", "1MB")
    require_room(tmp_path / "rows.csv", "10MB")
    require_room(tmp_path / "rows.csv", "1MB", ["id", "number"])
    with pytest.raises(SplitError, match=r"rows of 2 columns take .*pass a table with fewer rows"):
        require_room(tmp_path / "rows.csv", "100kB", ["id", "number"])
    with pytest.raises(SplitError, match=r"about 5,000 rows of 8 columns"):
        require_room(tmp_path / "rows.csv.gz", "1MB")
    require_room(tmp_path / "rows.csv.gz", "10MB")


@pytest.fixture(scope="module")
def numbers() -> bytes:
    """Return 120,000 rows of digits as CSV, which are packed in several blocks by whatever packs them."""
    drawn = np.random.default_rng(0).normal(size=120_000)
    return ("row,number\n" + "".join(f"{row:06},{number:.9f}\n" for row, number in enumerate(drawn))).encode()


@pytest.mark.parametrize("suffix", ["", ".gz", ".zst"])
def test_the_rows_of_a_csv_are_judged_by_how_tightly_its_beginning_is_packed(
    tmp_path: Path, suffix: str, numbers: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / f"rows.csv{suffix}"
    with pa.output_stream(str(file), compression="detect") as stream:
        stream.write(numbers)
    assert about_rows([file]) == pytest.approx(120_000, rel=0.02)
    monkeypatch.setattr(csv_files, "UNPACKED_BYTES", 1_000_000)
    assert about_rows([file]) == pytest.approx(120_000, rel=0.5)
    assert not fits_in_memory(file, ["row"], "1MB")
