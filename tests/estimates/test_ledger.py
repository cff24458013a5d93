"""A holdout that is looked at many times: the ledger cannot be forged unseen."""

import json
import os
from pathlib import Path
from typing import Any

import pytest
from evenfold.estimates.ledger import START, Ledger, level_of_look
from evenfold.splitters import SplitError

WHO: dict[str, Any] = {"by": "ada", "when": "2026-11-21T09:00:00Z", "reason": "release 3", "model": {"C": 1.0}}


def ledger(tmp_path: Path, looks: int = 3) -> Ledger:
    made = Ledger(tmp_path / "looks", "ab12")
    for _ in range(looks):
        made.open_look(**WHO, budget=None)
    return made


def test_each_look_names_the_one_before_it(tmp_path: Path) -> None:
    looks = ledger(tmp_path).looks()
    assert [look["look"] for look in looks] == [1, 2, 3]
    assert [look["before"] for look in looks] == [START, looks[0]["digest"], looks[1]["digest"]]
    made = ledger(tmp_path, 0)
    third = {looks[2]["digest"]: "third"}
    assert made.missing(third) == []
    made.path.write_text("\n".join(made.path.read_text().splitlines()[:2]) + "\n")
    assert len(made.looks()) == 2, "the chain alone cannot know of a look that was cut off its end"
    assert made.missing(third) == ["third"]


def test_a_look_beyond_the_budget_is_refused_and_nothing_is_written(tmp_path: Path) -> None:
    """Whatever is asked, the file stays as it was."""
    made = ledger(tmp_path, 2)
    before = made.path.read_bytes()
    with pytest.raises(SplitError, match="looked at 2 times and its budget is 2; lock fresh rows away"):
        made.open_look(**WHO, budget=2)
    assert made.path.read_bytes() == before


@pytest.mark.parametrize(
    ("forge", "said"),
    [
        (lambda lines: [*lines[:1], *lines[2:]], "missing before line 2"),
        (lambda lines: lines[1:], "missing before line 1"),
        (lambda lines: [lines[0], lines[1].replace("release 3", "release 4"), lines[2]], "line 2 .* was changed"),
        (lambda lines: [lines[0], lines[2], lines[1]], "missing before line 2"),
        (lambda lines: [*lines[:2], lines[2][:40]], "line 3 .* is not a whole record"),
        (lambda lines: [lines[0], json.dumps({**json.loads(lines[1]), "note": 1}), lines[2]], "is not a whole record"),
    ],
    ids=["removed", "first removed", "changed", "swapped", "cut", "extended"],
)
def test_a_forged_ledger_is_found_and_keeps_the_holdout_closed(tmp_path: Path, forge: Any, said: str) -> None:
    made = ledger(tmp_path)
    whole = made.path.read_bytes()
    made.path.write_text("\n".join(forge(whole.decode().splitlines())) + "\n")
    with pytest.raises(SplitError, match=said):
        made.open_look(**WHO, budget=None)
    for place in (0, 200):  # a byte that is no text was a UnicodeDecodeError
        made.path.write_bytes(whole[:place] + b"\xff" + whole[place:])
        with pytest.raises(SplitError, match=r"line 1 .*restore (it|the ledger) from a copy"):
            made.open_look(**WHO, budget=None)
    other = Ledger(made.folder, "cd34")  # each line names whose rows were looked at
    other.path.write_bytes(whole)
    with pytest.raises(SplitError, match=r"line 1 .* was changed"):
        other.looks()


def test_a_ledger_that_lost_its_last_line_break_goes_on(tmp_path: Path) -> None:
    """Every look is whole; the next one was written onto the last line, and the holdout stayed closed for good."""
    made = ledger(tmp_path)
    made.path.write_bytes(made.path.read_bytes()[:-1])
    assert made.open_look(**WHO, budget=None)["look"] == 4
    assert [look["look"] for look in made.looks()] == [1, 2, 3, 4]


def test_a_ledger_that_cannot_be_written_keeps_the_holdout_closed(tmp_path: Path) -> None:
    (tmp_path / "looks").write_text("")
    with pytest.raises(SplitError, match="so the holdout stays closed"):
        Ledger(tmp_path / "looks", "ab12").open_look(**WHO, budget=None)


def test_a_look_is_on_the_disk_before_anybody_goes_by_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    written: list[tuple[str, bytes]] = []

    def fsync(number: int) -> None:
        path = Path(os.readlink(f"/proc/self/fd/{number}"))
        written.append((path.name, path.read_bytes()))

    monkeypatch.setattr(os, "fsync", fsync)
    made = ledger(tmp_path, 1)
    assert written == [(made.path.name, made.path.read_bytes())]


def test_looks_that_only_another_record_knows_of_count(tmp_path: Path) -> None:
    made = ledger(tmp_path)
    made.path.unlink()
    with pytest.raises(SplitError, match="looked at 3 times and its budget is 3"):
        made.open_look(**WHO, budget=3, elsewhere=3)
    assert made.open_look(**WHO, budget=None, elsewhere=3)["look"] == 4
    assert made.open_look(**WHO, budget=None)["look"] == 5


def test_a_budget_can_be_lowered_and_never_raised(tmp_path: Path) -> None:
    """What one look was under holds for all after it."""
    made = Ledger(tmp_path / "a new home" / "looks", "ab12")
    made.open_look(**WHO, budget=2)
    made.open_look(**WHO, budget=9)
    with pytest.raises(SplitError, match="its budget is 2"):
        made.open_look(**WHO, budget=9)


def test_the_levels_of_all_looks_hold_together() -> None:
    assert level_of_look(1, 0.9) == pytest.approx(0.95)
    assert sum(1 - level_of_look(k, 0.95) for k in range(1, 10_000)) <= 0.05
    assert sum(1 - level_of_look(k, 0.95, budget=5) for k in range(1, 6)) == pytest.approx(0.05)
    with pytest.raises(SplitError, match=r"look 0 at level 0\.95; looks count from 1"):
        level_of_look(0)
    assert level_of_look(3, 0.95, budget=2) == level_of_look(3, 0.95) == pytest.approx(1 - 0.05 / 12)


@pytest.mark.parametrize(
    ("budgets", "lost"),
    [([None, 5, 5, 5, 5], False), ([None, None, 3], True), ([5, 5, 3], False), ([4, 4, 4, 4], True), ([4] * 4, False)],
)
def test_the_levels_hold_together_where_a_budget_comes_later(tmp_path: Path, budgets: Any, lost: bool) -> None:
    """A first look without one spent half of the error, and five equal parts of it were spent after that."""
    made, spent = Ledger(tmp_path, "ab12"), 0.0
    for number, budget in enumerate(budgets, start=1):
        look = made.open_look(**WHO, budget=budget, elsewhere=number - 1)
        spent += 1 - level_of_look(number, 0.95, made.sharing(look))
        if lost and number == 2:
            made.path.unlink()
    assert spent <= 0.05 + 1e-12
    if not lost and None not in budgets:
        assert made.sharing(look) == budgets[-1]
