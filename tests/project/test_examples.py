"""Each example ends in one picture and three sentences, and what it says is so."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "examples"


def ran(command: list[str], folder: Path, **environment: str) -> list[str]:
    done = subprocess.run(
        [sys.executable, *command], cwd=folder, env={**os.environ, **environment}, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr[-3000:]
    picture, *sentences = done.stdout.splitlines()
    assert Path(picture).read_bytes()[:4] == b"\x89PNG"
    assert len(sentences) == 3
    assert all(sentence.endswith(".") for sentence in sentences)
    return sentences


@pytest.mark.soak
def test_flights_leak_by_date_and_grow_without_moving(tmp_path: Path) -> None:
    leak, even, growth = ran([str(EXAMPLES / "flights_growth.py"), str(tmp_path)], ROOT)
    promised, honest = (float(each) for each in re.findall(r"\d\.\d\d", leak))
    assert promised > 2 * honest
    sorted_ks, random_ks = (float(each) for each in re.findall(r"0\.\d+", even))
    assert sorted_ks < random_ks / 20
    assert "appends 0 rows moved" in growth


@pytest.mark.soak
def test_632_is_too_good_where_a_model_learns_by_heart(tmp_path: Path) -> None:
    """Of a coin .632 knows too much; .632+ and cross-validation do not."""
    _, by_heart, honest = ran([str(EXAMPLES / "breast_cancer.py"), str(tmp_path), "5"], ROOT)
    assert float(re.findall(r"says (0\.\d+)", by_heart)[0]) < 0.4
    assert min(float(each) for each in re.findall(r"0\.\d+", honest)) > 0.42


@pytest.mark.soak
def test_single_students_promise_more_than_next_year_gives(tmp_path: Path) -> None:
    mixed, whole, _ = ran([str(EXAMPLES / "students.py"), str(tmp_path), "4"], ROOT)
    promised, came = (float(each) for each in re.findall(r"0\.\d\d", mixed))
    assert promised > came + 0.03
    grouped, both, grouped_came, both_came = (float(each) for each in re.findall(r"0\.\d\d", whole))
    assert max(grouped - grouped_came, both - both_came) < promised - came
