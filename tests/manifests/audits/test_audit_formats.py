"""An audit as Markdown and JSON; checks that are ignored for a reason; rules that are complete."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from evenfold.manifests import GATES, Audit, audit, decide
from evenfold.manifests.audits.formats import formatted
from evenfold.manifests.audits.rules import RULES
from evenfold.splitters import SplitError

DATA = pd.DataFrame({"id": range(200), "y": [0, 1] * 100, "copy": [3.0, 7.0] * 100})
DATA["paid"] = DATA["y"] + np.random.default_rng(0).normal(scale=0.3, size=200)
SPEC = {"strategy": "KFold", "columns": {"key": "id", "target": "y"}}
REASON = "known when the order is placed"


def made(**spec: object) -> Audit:
    return audit(decide(SPEC | spec, DATA), DATA)


def test_every_rule_has_a_number_of_its_own_a_gate_and_a_page() -> None:
    assert [rule.check for rule in RULES] == list(GATES)
    assert len({rule.code for rule in RULES}) == len(RULES)
    assert {rule.code: rule.check for rule in RULES}["EF205"] == "unnamed_entities"
    assert all(rule.why.endswith(".") and rule.mend.endswith(".") and rule.example for rule in RULES)


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
    """An unknown number would silence nothing, and a word explains nothing."""
    with pytest.raises(SplitError, match=said):
        made(ignore=ignore)


def test_markdown_and_json_say_the_same() -> None:
    found = made()
    text = formatted(found, "md")
    assert text.splitlines()[2].startswith("1 failed, 1 warning, ")
    assert "| **failed** | EF301 target_like_features | 1 feature all but gives 'y' away" in text
    assert Audit.model_validate_json(formatted(found, "json")) == found
