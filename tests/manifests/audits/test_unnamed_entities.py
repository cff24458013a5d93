"""Entities that nobody named are found, and what is none is not taken for one."""

from __future__ import annotations

import re

import numpy as np
import pandas as pd
from audited import N, alarms, asked, plain, told
from evenfold.manifests import decide


def _levels(frame: pd.DataFrame, random: np.random.Generator, levels: int) -> np.ndarray:
    codes = random.integers(0, levels, N)
    effect = random.normal(size=levels)[codes] * 2
    frame["y"] = (effect + frame["a"] + random.normal(size=N) > 0).astype(int)
    return codes


def test_an_entity_of_numbers_is_found_and_the_line_is_proposed() -> None:
    """Its numbers say nothing by their order, unlike an age."""
    frame, random = plain()
    frame["patient"] = _levels(frame, random, 120)
    assert "`group: patient`" in told(frame, "unnamed_entities")
    smooth = (frame["patient"] / 60 - 1 + random.normal(size=N) > 0).astype(int)
    assert not told(frame.assign(y=smooth), "unnamed_entities")


def test_an_entity_of_numbers_that_no_float_tells_apart_is_found() -> None:
    frame, random = plain()
    accounts = pd.Series(10**18 + _levels(frame, random, 120), dtype="Int64")
    accounts[[3, 5]] = pd.NA
    assert "`group: account`" in told(frame.assign(account=accounts), "unnamed_entities")


def test_an_entity_in_a_part_of_the_key_is_found() -> None:
    """As in S0012-V3, of which S0012 is the subject."""
    frame, random = plain()
    codes = pd.Series(_levels(frame, random, 120))
    frame["id"] = [f"S{code:04d}-V{i}" for code, i in zip(codes, codes.groupby(codes).cumcount(), strict=True)]
    said = told(frame, "unnamed_entities")
    assert "of the key 'id'" in said
    _follow(said, frame)


def _follow(said: str, table: pd.DataFrame) -> None:
    told = re.search(r"\(in pandas (table\['(\w+)'\] = .*)\) and split with `group: (\w+)` \(--group (\w+)\)", said)
    assert told is not None, said
    exec(told[1], {"table": table})
    assert told[2] == told[3] == told[4]
    manifest = decide({"columns": {"key": "id", "target": "y", "group": told[4]}}, table)
    assert not alarms(asked(manifest, table, "unnamed_entities"))


def test_a_second_entity_is_found_beside_the_named_one() -> None:
    frame, random = plain()
    wards = random.integers(0, 40, 240)
    patients = random.integers(0, 240, N)
    effect = random.normal(size=40)[wards[patients]] * 2
    frame["y"] = (effect + frame["a"] + random.normal(size=N) > 0).astype(int)
    frame["patient"], frame["ward"] = patients, [f"W{code:02d}" for code in wards[patients]]
    manifest = decide({"columns": {"key": "id", "target": "y", "group": "patient"}}, frame)
    assert "`group: ward`" in alarms(asked(manifest, frame, "unnamed_entities"))["unnamed_entities"]


def test_an_entity_of_a_seventh_of_the_variance_is_found_and_one_of_a_twentieth_is_no_alarm() -> None:
    """Each of 60 teachers has 20 rows. Flights of one number are as weakly alike, and nobody is warned of them."""
    frame, random = plain()
    codes = random.integers(0, 60, N)
    teachers, own = random.normal(size=60)[codes], random.normal(size=N)
    named = frame.assign(teacher=[f"T{code:02d}" for code in codes])
    assert "`group: teacher`" in told(named.assign(y=teachers * 0.5 + own), "unnamed_entities")
    assert not told(named.assign(y=teachers * 0.22 + own), "unnamed_entities")


def test_an_entity_of_as_many_rows_each_is_found() -> None:
    frame, random = plain()
    codes = random.permutation(np.repeat(np.arange(N // 3), 3))
    frame["y"] = random.normal(size=N // 3)[codes] + frame["a"]
    assert "`group: patient`" in told(frame.assign(patient=codes), "unnamed_entities")


def test_an_entity_of_two_columns_is_found_by_both_and_by_neither_alone() -> None:
    """As pupils are, numbered anew in each class."""
    frame, random = plain()
    codes = _levels(frame, random, 120)
    frame["room"], frame["number"] = codes // 12, codes % 12
    assert "'number' with 'room'" in told(frame, "unnamed_entities")
    _follow(told(frame, "unnamed_entities"), frame)
