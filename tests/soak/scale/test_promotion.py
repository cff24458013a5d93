"""The promotion rule over many simulated years: what it promises, counted anew."""

from pathlib import Path

import pytest

pytestmark = pytest.mark.soak
YEARS = 300


def test_the_rule_keeps_its_yearly_error(monkeypatch: pytest.MonkeyPatch) -> None:
    """Equal recipes within .10 a year, by two Monte Carlo errors; and power by accuracy beside the rule before it."""
    monkeypatch.syspath_prepend(Path(__file__).parents[3])
    from benchmarks import promotion

    found = {(row["case"], row["rule"]): row["12"] for row in promotion.curve(YEARS) if row["metric"] == "accuracy"}
    for case in ("equal", "equal, another one each month"):
        assert found[case, promotion.OURS] <= 0.10 + 2 * (0.10 * 0.90 / YEARS) ** 0.5
    better = "2.5 points better"
    assert found[better, promotion.OURS] > found[better, "half of what is left"]
