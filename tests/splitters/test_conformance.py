"""Every strategy keeps every promise, at sizes that divide evenly, do not, and are as small as it can bear."""

import pytest
from cases import CASES
from evenfold.splitters import Splitter, all_strategies
from evenfold.splitters.conformance import CHECKS, Check, data_for


@pytest.mark.parametrize("each", CHECKS, ids=lambda each: each.name)
@pytest.mark.parametrize("n", [60, 97, 30])
@pytest.mark.parametrize("splitter", CASES, ids=repr)
def test_a_strategy_keeps_its_promises(splitter: Splitter, n: int, each: Check) -> None:
    """A splitter does what each check that applies to it says."""
    if each.applies(splitter):
        assert each.run(splitter, data_for(splitter, n)), f"{splitter!r} with {n} rows: {each.name}"


def test_every_strategy_has_a_case() -> None:
    """No exported strategy escapes the suite."""
    assert {type(splitter).__name__ for splitter in CASES} == set(all_strategies())


def test_every_promise_has_a_check() -> None:
    """A word nobody checks is no promise."""
    promised = {promise for splitter in CASES for promise in splitter.promises}
    assert promised == {each.promise for each in CHECKS} - {None}
