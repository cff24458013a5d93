"""An audit's sentences and figures name the rows that they are of: all of them, once, and by their own names."""

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import yaml
from audited import asked, clean, moved, split, the
from evenfold.manifests import GATES, Audit, audit, decide
from evenfold.manifests.audits.audit import CHECKS
from evenfold.manifests.joined import Joined
from evenfold.reports.texts import audit_in_markdown
from evenfold.splitters import SplitError


@pytest.mark.parametrize(("first", "again"), [(7000, "07000"), ("x\u00e9", "xe\u0301")])
def test_a_new_key_that_is_written_in_two_ways_repeats(first: Any, again: Any) -> None:
    data = clean(100)
    if isinstance(first, int):
        data["id"] = np.arange(100)
    manifest, new = split(data), data.iloc[:2].assign(id=[str(first), again])
    found = the("repeated_keys", asked(manifest, pd.concat([data.astype({"id": str}), new]), "repeated_keys"))
    assert found.figure == 1
    assert "(first: rows 100 and 101)" in found.message


def test_rows_of_two_entities_that_cross_are_counted_once() -> None:
    data = clean(100).assign(ward=lambda frame: frame.index // 20)
    manifest = split(data, columns={"group": ["patient", "ward"]}, group_mode="merge", params={"n_splits": 3})
    edited = moved(manifest, 0, (manifest.codes[0] + 1) % 3)
    found = the("group_in_two_folds", asked(edited, data, "group_in_two_folds"))
    assert (found.figure, found.figures["rows"]) == (2, 20)
    assert sorted(found.figures["folds"].values()) == [1, 19]


def test_rows_of_draws_that_cross_by_either_of_two_columns_are_counted_in_each_draw() -> None:
    data = clean(100)
    joined = Joined.of(split(data, strategy="ShuffleSplit", columns={"group": None}, params={"n_splits": 2}), data)
    pairs, first_ten = np.arange(100) // 2, np.where(np.arange(100) < 10, 0, -1)
    (rows, places), *each = (joined.crossing(*of) for of in ((pairs, first_ten), (pairs,), (first_ten,)))
    assert np.array_equal(rows, each[0][0] | each[1][0])
    for place, (train, test) in joined.sides():
        across = np.isin(pairs[test], pairs[train]) | (first_ten[test] == 0)
        assert places[place] == np.count_nonzero(across)


DATA = pd.DataFrame({"id": range(200), "y": [0, 1] * 100, "copy": [3.0, 7.0] * 100})
DATA["paid"] = DATA["y"] + np.random.default_rng(0).normal(scale=0.3, size=200)
SPEC = {"strategy": "KFold", "columns": {"key": "id", "target": "y"}}
REASON = "known when the order is placed"


def made(**spec: object) -> Audit:
    return audit(decide(SPEC | spec, DATA), DATA)


def test_every_rule_has_a_number_of_its_own_a_gate_and_a_page() -> None:
    assert len({gate.code for gate in GATES.values()}) == len(GATES)
    assert {*CHECKS} == {*GATES}
    assert GATES["unnamed_entities"].code == "EF205"
    words = yaml.safe_load((Path(__file__).parents[3] / "docs" / "findings.yaml").read_text(encoding="utf-8"))
    assert [*words] == [gate.code for gate in GATES.values()]
    assert all(of["why"].endswith(".") and of["mend"].endswith(".") and of["example"] for of in words.values())


def test_what_is_ignored_for_a_reason_fails_nothing_and_is_told_with_it() -> None:
    plain, silent = made(), made(ignore={"EF301": REASON, "giveaway_features": REASON})
    assert plain.failed == ["target_like_features"]
    assert silent.failed == []
    assert {found.code: found.reason for found in silent.ignored} == {"EF301": REASON, "EF302": REASON}
    assert silent.split_id == plain.split_id
    assert decide(SPEC | {"ignore": {"EF301": REASON}}, DATA).plan_id == decide(SPEC, DATA).plan_id


@pytest.mark.parametrize(
    ("ignore", "said"), [({"EF999": REASON}, "no check 'EF999'"), ({"EF301": "ok"}, "three words")]
)
def test_nothing_is_ignored_by_a_slip_or_without_a_reason(ignore: dict[str, str], said: str) -> None:
    with pytest.raises(SplitError, match=said):
        made(ignore=ignore)


def test_markdown_says_what_was_found_and_what_was_not_asked() -> None:
    text = audit_in_markdown(made())
    assert "\n| error | EF301 target_like_features | 1 feature all but gives 'y' away" in text
    assert "| not asked: no time column is named |" in text
