"""Leaks of kinds that practitioners meet are found by the check of their kind, and the same table without is silent."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from audited import N, alarms, asked, plain, told
from evenfold.manifests import decide
from evenfold.manifests.audits.leaks import spelled_alike

Made = Callable[[pd.DataFrame, np.random.Generator], Any]


def _offers(frame: pd.DataFrame, random: np.random.Generator) -> Any:
    frame["y"] = np.exp(frame["a"] / 4 + random.normal(size=N) / 4) * 2000
    return [f"EUR {value / 1000:.3f}k a month" for value in frame["y"]]


def _bands(frame: pd.DataFrame, random: np.random.Generator) -> Any:
    frame["y"] = frame["a"] + random.normal(size=N)
    return pd.qcut(frame["y"], 8, labels=list("HGFEDCBA")).astype(str)


def _barcodes(frame: pd.DataFrame, random: np.random.Generator) -> Any:
    rows = zip(frame["y"], random.permutation(N), strict=True)
    return [f"TC-{1000 + place}-{'01A' if sick else '11A'}" for sick, place in rows]


def _notes(frame: pd.DataFrame, random: np.random.Generator) -> Any:
    words = ["seen", "in", "clinic", "stable", "pain", "reported", "informed", "follow", "up", "planned"]
    notes = [" ".join(random.choice(words, 7)) for _ in range(N)]
    late = (frame["y"] == 1) & (random.random(N) < 0.4)
    return [f"{note} deceased" if last else note for note, last in zip(notes, late, strict=True)]


def _encoded(of: Callable[[pd.Series, Any], Any], number: bool = False) -> Made:
    def make(frame: pd.DataFrame, random: np.random.Generator) -> Any:
        shop = random.integers(0, 120, N)
        outcome = random.normal(size=120)[shop] + frame["a"] + random.normal(size=N)
        frame["shop"], frame["y"] = [f"S{code:03d}" for code in shop], outcome if number else (outcome > 0).astype(int)
        return of(frame["y"].astype(float), frame["y"].groupby(frame["shop"]))

    return make


def _plates(frame: pd.DataFrame, random: np.random.Generator) -> Any:
    plate, drift = random.integers(0, 60, N), np.cumsum(random.normal(size=60))
    frame["y"] = drift[plate] / drift.std() + random.normal(size=N) * 0.3
    return plate


def _map(frame: pd.DataFrame, random: np.random.Generator) -> Any:
    east, frame["north"] = random.uniform(0, 9, N), random.uniform(0, 9, N)
    frame["y"] = 2 * np.sin(2.5 * east) * np.sin(2.5 * frame["north"]) + random.normal(size=N) * 0.3
    return east


def _left_out(frame: pd.DataFrame, random: np.random.Generator) -> Any:
    home = random.integers(0, 45, N)
    y, of = frame["y"], frame["y"].groupby(home)
    return ((of.transform("sum") - y) / (of.transform("size") - 1)).round(6)


@pytest.mark.parametrize(
    ("make", "check", "said"),
    [
        (_left_out, "unnamed_entities", "agree in 'leak'"),
        (_encoded(lambda y, of: of.transform("mean").rank(method="dense")), "carried_targets", "leak (the mean target"),
        (
            _encoded(lambda y, of: pd.qcut(of.transform("mean"), 10, labels=False, duplicates="drop")),
            "carried_targets",
            "of the rows of one 'shop'",
        ),
        (
            _encoded(lambda y, of: of.transform("mean") + np.random.default_rng(1).normal(size=N) * 0.05, number=True),
            "carried_targets",
            "of the rows of one 'shop'",
        ),
        (
            _encoded(
                lambda y, of: ((of.transform("sum") - y) / (of.transform("size") - 1)).where(y.index % 9 > 0),
                number=True,
            ),
            "carried_targets",
            "of the others among the rows of one 'shop'",
        ),
        (_plates, "times_left_out", "follows 'leak', which numbers the rows"),
        (_map, "places_left_out", "neighbours in 'north' and 'leak'"),
        (_offers, "computed_target", "puts the rows in its order"),
        (_bands, "computed_target", "bands that do not overlap"),
        (_barcodes, "pure_levels", "part 3 of 'leak' tells"),
        (_notes, "pure_levels", "word deceased in 'leak' has 'y' = 1"),
        (
            lambda frame, random: np.where((frame["y"] == 1) & (random.random(N) < 0.5), "MORTUARY", frame["kind"]),
            "pure_levels",
            "'leak' = MORTUARY has 'y' = 1",
        ),
        (
            lambda frame, random: np.where((frame["y"] == 1) & (random.random(N) < 0.5), random.normal(size=N), np.nan),
            "pure_levels",
            "a gap in 'leak' = False has 'y' = 1",
        ),
        (
            lambda frame, random: np.where(
                (frame["y"] == 1) & (random.random(N) < 0.6), random.choice(["c", "d"], N), "-"
            ),
            "pure_levels",
            "another value than - in 'leak' has 'y' = 1",
        ),
        (
            lambda frame, random: np.where((frame["y"] == 1) & (random.random(N) < 0.5), random.normal(size=N), -1.0),
            "pure_levels",
            "another value than -1 in 'leak' has 'y' = 1",
        ),
        (
            lambda frame, random: np.where(random.random(N) < 0.3, 0.2 + 0.01 * frame["y"], random.normal(size=N)),
            "pure_levels",
            "'leak' = 0.2",
        ),
    ],
)
def test_a_leak_is_found_by_the_check_of_its_kind_and_its_column_shuffled_is_not(
    make: Made, check: str, said: str
) -> None:
    frame, random = plain()
    leak = frame.assign(leak=make(frame, random), y=frame["y"])
    assert said in told(leak, check)
    assert not told(leak.assign(leak=random.permutation(leak["leak"])), check)


def test_groups_that_are_spelled_in_several_ways_are_named() -> None:
    frame, random = plain()
    site = random.integers(1, 60, N)
    frame["site"] = [f"St. Mary {code}" for code in site]
    spec = {"columns": {"key": "id", "target": "y", "group": "site"}}
    assert asked(decide(spec, frame), frame, "similar_keys").passed
    frame["site"] = [f"{random.choice(['St. Mary', 'st mary', 'ST MARY'])} {code:02d}" for code in site]
    frame.loc[0, "site"] = "ST-MARY 7.0"
    found = alarms(asked(decide(spec, frame), frame, "similar_keys"))["similar_keys"]
    assert "values of 'site' (899 rows) are 59 but for case, blanks, padding, accents or punctuation" in found


def test_groups_whose_names_were_mistyped_are_named() -> None:
    frame = plain()[0]
    names = ["north field", "river bend", "old orchard", "stone bridge", "green valley", "maple ridge", "upper meadow"]
    frame["site"] = [names[i % 7] for i in range(N)]
    spec = {"columns": {"key": "id", "target": "y", "group": "site"}}
    assert asked(decide(spec, frame), frame, "similar_keys").passed
    frame["site"] = [f"{name[:3]}{name[4:]}" if i < 35 else name for i, name in enumerate(frame["site"])]
    found = alarms(asked(decide(spec, frame), frame, "similar_keys"))["similar_keys"]
    assert "7 rare values of 'site' (35 rows) are a letter off a common one: 'norh field' and 'north field'" in found


def test_what_parts_two_numbers_is_no_punctuation() -> None:
    alike = (
        ["7", "07", "7.0", " 7 "],
        ["PT-01", "pt1", "Pt 1"],
        ["1-23"],
        ["12-3"],
        ["1.05"],
        ["1.5"],
        ["caf\u00e9", "CAFE"],
        ["Doe, Jo", "jo doe"],
    )

    forms = [spelled_alike(pa.array(each, pa.large_string())).to_pylist() for each in alike]
    assert all(len(set(each)) == 1 for each in forms)
    assert len({each[0] for each in forms}) == len(forms)


def _households(frame: pd.DataFrame, random: np.random.Generator) -> pd.DataFrame:
    who = random.integers(0, 300, N)
    home = pd.DataFrame({"income": random.lognormal(10, 0.6, 300).round(-2), "rooms": random.integers(1, 8, 300)})
    frame["y"] = random.normal(size=300)[who] * 1.5 + frame["a"] + random.normal(size=N)
    homes = home.assign(power=random.gamma(4, 800, 300).round()).iloc[who].reset_index(drop=True)
    return pd.concat([frame, homes], axis=1)


def _copies(frame: pd.DataFrame, random: np.random.Generator) -> pd.DataFrame:
    again = frame.iloc[:200].assign(c=random.normal(size=200), id=[f"R{i}" for i in range(200)])
    return pd.concat([frame, again], ignore_index=True)


def _windows(frame: pd.DataFrame, random: np.random.Generator) -> pd.DataFrame:
    again = frame.iloc[np.arange(N) % (N // 3)].reset_index(drop=True).assign(id=frame["id"])
    return again.assign(**{name: again[name] + random.normal(size=N) * 0.05 for name in "abcd"})


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (_households, "agree in 'power', 'income' and 'rooms'"),
        (_copies, "agree in 'a', 'b'"),
        (_windows, "follow each other closely"),
    ],
)
def test_relatives_that_no_column_names_are_found_where_they_share_the_target(make: Made, said: str) -> None:
    frame = make(*plain())
    assert said in told(frame, "relatives")
    assert not told(frame.assign(y=frame["y"].sample(frac=1, random_state=1).to_numpy()), "relatives")


def test_a_birth_date_is_no_time() -> None:
    frame, random = plain()
    who = random.integers(0, 150, N)
    frame["y"] = random.normal(size=150)[who] * 2 + random.normal(size=N)
    frame["born"] = pd.Timestamp("1950-01-01") + pd.to_timedelta(random.permutation(20_000)[:150][who], "D")
    assert not told(frame, "times_left_out")
    assert told(frame, "unnamed_entities")


def _filled(frame: pd.DataFrame, random: np.random.Generator, known: Any) -> pd.DataFrame:
    """Return the columns b and c of two decimals, cells filled by least squares on d and what is known."""
    frame[["b", "c"]] = frame[["b", "c"]].round(2)
    for name in "bc":
        gaps = random.random(N) < 0.3
        design = np.column_stack([np.ones(N), frame["d"], *known])
        frame.loc[gaps, name] = design[gaps] @ np.linalg.lstsq(design[~gaps], frame[name][~gaps], rcond=None)[0]
    return frame


@pytest.mark.parametrize("number", [True, False])
def test_cells_that_an_imputer_filled_are_found_if_it_saw_the_target(number: bool) -> None:
    frame, random = plain()
    if number:
        frame["y"] = frame["a"] + 0.5 * frame["b"] + 0.5 * frame["c"] + random.normal(size=N)
    assert not told(_filled(frame.copy(), random, []), "filled_cells")
    assert "b (100% in " in told(_filled(frame.copy(), random, [frame["y"]]), "filled_cells")


@pytest.mark.parametrize("number", [True, False])
def test_features_that_are_the_best_of_many_are_found_and_those_that_are_worth_something_are_not(number: bool) -> None:
    frame, random = plain(n=300)
    y = random.normal(size=300)
    frame["y"] = y if number else (y > 0).astype(int)
    tried = random.normal(size=(300, 2000))
    worth = 0.25 * y[:, None] + random.normal(size=(300, 20))
    best = np.argsort(-np.abs(np.corrcoef(tried.T, frame["y"])[-1, :-1]))[:20]
    for columns, said in ((tried[:, best], "20 features (g"), (worth, ""), (tried[:, :20], "")):
        genes = pd.DataFrame(columns, columns=[f"g{i}" for i in range(20)])
        found = told(pd.concat([frame[["id", "y", "kind"]], genes], axis=1), "chosen_features")
        assert (said or "nothing") in (found or "nothing")
