"""A holdout that is looked at many times: the ledger cannot be forged unseen, and answers do not wear out."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from evenfold.estimates.holdouts.ladder import Ladder
from evenfold.estimates.holdouts.ledger import START, Ledger, level_of_look
from evenfold.estimates.holdouts.policies import require_answerable, told
from evenfold.estimates.holdouts.thresholdout import Thresholdout
from evenfold.splitters import SplitError

WHO: dict[str, Any] = {"by": "ada", "when": "2026-11-21T09:00:00Z", "reason": "release 3", "model": {"C": 1.0}}


def ledger(tmp_path: Path, looks: int = 3) -> Ledger:
    made = Ledger(tmp_path / "looks", "ab12")
    for _ in range(looks):
        made.open_look(**WHO, budget=None)
    return made


def test_each_look_names_the_one_before_it(tmp_path: Path) -> None:
    """So the last digest stands for all of them."""
    looks = ledger(tmp_path).looks()
    assert [look["look"] for look in looks] == [1, 2, 3]
    assert [look["before"] for look in looks] == [START, looks[0]["digest"], looks[1]["digest"]]
    assert ledger(tmp_path, 0).head() == looks[2]["digest"]


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
    """Verified before every look, not only when somebody thinks of it."""
    made = ledger(tmp_path)
    made.path.write_text("\n".join(forge(made.path.read_text().splitlines())) + "\n")
    with pytest.raises(SplitError, match=said):
        made.open_look(**WHO, budget=None)


def test_the_looks_at_other_rows_open_no_holdout(tmp_path: Path) -> None:
    """Each line names whose rows were looked at, so a copy of another holdout's ledger is none of this one's."""
    made = ledger(tmp_path, 1)
    other = Ledger(made.folder, "cd34")
    other.path.write_bytes(made.path.read_bytes())
    with pytest.raises(SplitError, match=r"line 1 .* was changed"):
        other.looks()


def test_a_ledger_that_lost_its_last_line_break_goes_on(tmp_path: Path) -> None:
    """Every look is whole; the next one was written onto the last line, and the holdout stayed closed for good."""
    made = ledger(tmp_path)
    made.path.write_bytes(made.path.read_bytes()[:-1])
    assert made.open_look(**WHO, budget=None)["look"] == 4
    assert [look["look"] for look in made.looks()] == [1, 2, 3, 4]


@pytest.mark.parametrize("place", [0, 200])
def test_a_byte_that_is_no_text_keeps_the_holdout_closed(tmp_path: Path, place: int) -> None:
    """And is told as any other change is, not as a UnicodeDecodeError."""
    made = ledger(tmp_path)
    whole = made.path.read_bytes()
    made.path.write_bytes(whole[:place] + b"\xff" + whole[place:])
    with pytest.raises(SplitError, match=r"line 1 .*restore it from a copy|line 1 .*restore the ledger from a copy"):
        made.open_look(**WHO, budget=None)


def test_looks_that_were_cut_off_the_end_are_found_by_a_head_kept_elsewhere(tmp_path: Path) -> None:
    """The chain alone cannot know; that is why each look's digest goes into the tracker as well."""
    made = ledger(tmp_path)
    head = made.head()
    made.path.write_text("\n".join(made.path.read_text().splitlines()[:2]) + "\n")
    assert len(made.looks()) == 2
    assert made.head() != head


def test_a_ledger_that_cannot_be_written_keeps_the_holdout_closed(tmp_path: Path) -> None:
    """A file stands where its folder should be."""
    (tmp_path / "looks").write_text("")
    with pytest.raises(SplitError, match="so the holdout stays closed"):
        Ledger(tmp_path / "looks", "ab12").open_look(**WHO, budget=None)


def test_a_look_and_a_secret_are_on_the_disk_before_anybody_goes_by_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whole, when the system is told to write: after a power cut neither a look nor the noise can be had anew."""
    written: list[tuple[str, bytes]] = []

    def fsync(number: int) -> None:
        path = Path(os.readlink(f"/proc/self/fd/{number}"))
        written.append((path.name, path.read_bytes()))

    monkeypatch.setattr(os, "fsync", fsync)
    made = ledger(tmp_path, 1)
    made.noise()
    assert written == [(path.name, path.read_bytes()) for path in (made.path, made.folder / "secret")]


def test_looks_that_only_another_record_knows_of_count(tmp_path: Path) -> None:
    """Deleting the file gives nobody a look back."""
    made = ledger(tmp_path)
    made.path.unlink()
    with pytest.raises(SplitError, match="looked at 3 times and its budget is 3"):
        made.open_look(**WHO, budget=3, elsewhere=3)
    assert made.open_look(**WHO, budget=None, elsewhere=3)["look"] == 4
    assert made.open_look(**WHO, budget=None)["look"] == 5


def test_a_budget_can_be_lowered_and_never_raised(tmp_path: Path) -> None:
    """What one look was under holds for all after it."""
    made = Ledger(tmp_path / "looks", "ab12")
    made.open_look(**WHO, budget=2)
    made.open_look(**WHO, budget=9)
    with pytest.raises(SplitError, match="its budget is 2"):
        made.open_look(**WHO, budget=9)


def test_the_levels_of_all_looks_hold_together() -> None:
    """The error is shared out among however many looks."""
    assert level_of_look(1, 0.9) == pytest.approx(0.95)
    assert sum(1 - level_of_look(k, 0.95) for k in range(1, 10_000)) <= 0.05
    assert sum(1 - level_of_look(k, 0.95, budget=5) for k in range(1, 6)) == pytest.approx(0.05)
    assert level_of_look(3, 0.95, budget=2) == level_of_look(3, 0.95) == pytest.approx(1 - 0.05 / 12)


@pytest.mark.parametrize("lost", [False, True])
@pytest.mark.parametrize("budgets", [[None, 5, 5, 5, 5], [None, None, 3], [5, 5, 3], [4, 4, 4, 4]])
def test_the_levels_hold_together_where_a_budget_comes_later(
    tmp_path: Path, budgets: list[int | None], lost: bool
) -> None:
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


def test_intervals_of_five_looks_hold_together_as_often_as_they_say() -> None:
    """Of 2,000 simulated holdouts of 400 rows with five honest models each."""
    from scipy.stats import norm

    random = np.random.default_rng(0)
    means = random.normal(size=(2000, 5)) / np.sqrt(400)
    half = np.array([norm.isf((1 - level_of_look(k, 0.9)) / 2) for k in range(1, 6)]) / np.sqrt(400)
    assert 0.9 <= np.mean((np.abs(means) <= half).all(axis=1)) <= 0.95


def test_thresholdout_tells_the_training_value_where_the_two_agree_and_spends_nothing() -> None:
    """Nothing of the holdout is told, so nothing wears out."""
    made = Thresholdout(budget=2, threshold=0.1, noise=0.001)
    assert [made.answer(0.7, 0.71) for _ in range(100)] == [0.7] * 100
    assert made.left == 2
    assert made.answer(0.9, 0.5) == pytest.approx(0.5, abs=0.02)
    made.answer(0.9, 0.5)
    with pytest.raises(SplitError, match="the 2 answers that this holdout can give are spent"):
        made.answer(0.7, 0.7)


def test_questions_that_are_replayed_leave_the_noise_where_answering_left_it() -> None:
    asked, again, spent = Thresholdout(9), Thresholdout(9), []
    for training in (0.9, 0.7, 0.9):
        left = asked.left
        asked.answer(training, 0.7)
        spent.append(asked.left < left)
    assert spent == [True, False, True]
    again.replay(spent)
    assert again.left == asked.left == 7
    assert [again.answer(0.9, 0.5) for _ in range(3)] == [asked.answer(0.9, 0.5) for _ in range(3)]


def test_thresholdout_answers_the_same_for_a_seed() -> None:
    """Its noise is the project's own stream."""
    answers = [[Thresholdout(9, seed=seed).answer(0.9, 0.5) for _ in range(3)] for seed in (1, 1, 2)]
    assert answers[0] == answers[1] != answers[2]
    assert answers[0][0] == pytest.approx(0.524440033279227)  # as earlier versions told it


def test_the_noise_follows_from_a_secret_that_nobody_else_may_read(tmp_path: Path) -> None:
    """Not from the locked rows, whose digest is on every page; each home has its own noise, and always the same."""
    ledger, other = Ledger(tmp_path / "a", "0123"), Ledger(tmp_path / "b", "0123")
    assert ledger.noise() == ledger.noise()
    assert ledger.noise()[0] != other.noise()[0]
    assert ledger.noise()[0] != Ledger(tmp_path / "a", "4567").noise()[0]
    assert (tmp_path / "a" / "secret").stat().st_mode & 0o777 == 0o600
    (tmp_path / "a" / "secret").write_bytes(bytes(32))
    # As earlier versions made it: an answer that is asked for again is the same.
    assert ledger.noise() == (168666155057612, "22007804dd634b1e")
    assert Thresholdout(9, seed=ledger.noise()[0]).answer(0.9, 0.5) != Thresholdout(9, seed=0x0123).answer(0.9, 0.5)


@pytest.mark.parametrize(
    ("spoil", "said"),
    [
        (lambda path: path.unlink(), "cannot be read or made .* stays closed"),
        (lambda path: path.write_bytes(bytes(32)), "followed from another secret"),
        (lambda path: path.write_bytes(b"short"), "it was cut"),
        (lambda path: path.chmod(0o644), r"others may read it \(mode 644\)"),
        (lambda path: path.chmod(0o640), r"others may read it \(mode 640\)"),
    ],
)
def test_a_secret_that_is_not_that_of_earlier_answers_keeps_the_holdout_closed(
    spoil: Any, said: str, tmp_path: Path
) -> None:
    """Or whoever deletes it would roll the dice again."""
    ledger = Ledger(tmp_path, "0123")
    ledger.open_look("ann", "now", "try", {}, 5, policy="thresholdout")
    ledger.answered(1, {"accuracy": 0.5}, True, ledger.noise()[1])
    assert ledger.noise()
    spoil(tmp_path / "secret")
    with pytest.raises(SplitError, match=said):
        ledger.noise()


def test_a_look_that_broke_off_before_its_answer_has_spent_one(tmp_path: Path) -> None:
    """What it may have seen is not known; one that was told the training score has spent none."""
    made = Ledger(tmp_path, "0123")
    for _ in range(2):
        made.open_look(**WHO, budget=2, policy="thresholdout")
    made.answered(1, {"accuracy": 0.5}, spent=False)
    assert made.spent() == 1
    made.open_look(**WHO, budget=2, policy="thresholdout")
    with pytest.raises(SplitError, match="gave answers of its own 2 times and its budget is 2"):
        made.open_look(**WHO, budget=2, policy="thresholdout")


def test_an_answer_to_a_look_that_nobody_took_keeps_the_holdout_closed(tmp_path: Path) -> None:
    made = ledger(tmp_path, 1)
    made.answered(2, {"accuracy": 0.5}, spent=True)
    with pytest.raises(SplitError, match="a look is missing before line 2"):
        made.looks()


def test_the_ladder_moves_by_steps_and_never_up() -> None:
    """A gain below the step is not told."""
    made, rows = Ladder(step=0.1), np.ones(100)
    assert [made.answer(rows * loss) for loss in (0.52, 0.47, 0.33, 0.9)] == pytest.approx([0.5, 0.5, 0.3, 0.3])
    exact, free = Ladder(step=0.25), Ladder()
    assert [exact.answer(rows * loss) for loss in (0.75, 0.5)] == [0.75, 0.75], "a gain of the step alone neither"
    # Losses differ by 1 in one row of 4: a mean of 1/4, whose standard error is 1/4.
    assert [free.answer(np.array([first, 1.0, 0.0, 0.0])) for first in (1.0, 0.0)] == [0.5, 0.5]


def test_a_policy_says_of_a_score_that_is_told_again_that_it_is_not_better_and_tells_shares_alone() -> None:
    """The Ladder's own answer is another than before; noise takes no share beyond 1."""
    asked: Any = {"metric": "accuracy", "budget": 9, "step": 0.1}
    first = told("ladder", training=0.9, holdout=0.7, earlier=[], seed=0, **asked)
    before: Any = [{"told": {"accuracy": first[0]}, "spent": first[1]}]
    again = told("ladder", training=0.9, holdout=0.75, earlier=before, seed=0, **asked)
    assert (first, again) == ((pytest.approx(0.7), True), (pytest.approx(0.7), False))
    answers = [told("thresholdout", training=0.5, holdout=1.0, earlier=[], seed=seed, **asked) for seed in range(9)]
    assert {own for _, own in answers} == {True}
    assert max(value for value, _ in answers) == 1.0
    with pytest.raises(SplitError, match="accuracy, precision are asked for"):
        require_answerable("ladder", ["accuracy", "precision"])


@pytest.mark.parametrize("step", [0.02, None])
def test_the_ladder_withstands_a_vote_of_lucky_models(step: float | None) -> None:
    """Blum and Hardt's attack: random guesses that the board calls good are voted together. The plain board falls."""
    random = np.random.default_rng(3)
    truth = random.integers(0, 2, 2000)
    plain, told = _attack(truth, lambda losses: losses.mean()), _attack(truth, Ladder(step).answer)
    assert plain < 0.40
    assert told > 0.46


def _attack(truth: np.ndarray, board: Any) -> float:
    random = np.random.default_rng(4)
    guesses = random.integers(0, 2, (400, truth.size))
    best, kept = np.inf, []
    for guess in guesses:
        told = board((guess != truth).astype(float))
        if told < min(best, 0.5) if isinstance(getattr(board, "__self__", None), Ladder) else told < 0.5:
            kept.append(guess)
        best = min(best, told)
    vote = (np.mean(kept, axis=0) > 0.5).astype(int) if kept else guesses[0]
    return float(board((vote != truth).astype(float)))


def test_bad_parameters_are_refused_in_numbers() -> None:
    """What is, then what would work."""
    for make in (lambda: Thresholdout(0), lambda: Ladder(0.0), lambda: Ladder(1.0), lambda: level_of_look(0)):
        with pytest.raises(SplitError):
            make()
    with pytest.raises(SplitError, match="scale them first"):
        Ladder().answer(np.array([3.0]))
