"""A month is judged by the champion before it is committed: a broken one leaves its record alone."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from evenfold.flows import GateError
from evenfold.tasks import Home
from mlflow.tracking import MlflowClient

from evenfold import flows
from tests.year import RIDGE, SPEC, flights


def retrained(folder: Path, months: list[pd.DataFrame], **more: Any) -> Any:
    pd.concat(months).to_parquet(folder / "months.parquet")
    return flows.retrain(
        str(folder / "months.parquet"), SPEC | more.pop("spec", {}), more.pop("model", RIDGE), engine="plain", **more
    )


def test_a_shuffled_month_is_refused_and_the_right_one_joins_after_it(home: Home, tmp_path: Path) -> None:
    """Both figures of each month stand in MLflow and on the page; those of the one that was refused in its own run."""
    months = flights(150)
    first = months[:4]
    retrained(tmp_path, first)
    shuffled = months[4].assign(arr_delay=months[4]["arr_delay"].sample(frac=1, random_state=1).to_numpy())
    with pytest.raises(GateError, match=r"year 1\.1 is refused: The slope of arr_delay .* looks like shuffled"):
        retrained(tmp_path, [*first, shuffled])
    assert [path.name for path in (home.splits / "year").iterdir()] == ["1.0"]
    assert retrained(tmp_path, months[:5]).judged.verdict == "sound"
    last = retrained(tmp_path, months[:6])
    assert (last.split.version, last.registered.version) == ("1.2", "3")
    client = MlflowClient(home.tracking_uri)
    for name in ("slope", "slope_low", "slope_high", "error", "error_low", "error_high"):
        points = {point.step: point.value for point in client.get_metric_history(last.run_id, f"month/{name}")}
        assert points == last.judged.series[f"month/{name}"]
        assert sorted(points) == [1, 2]
    page = last.page().html()
    assert page.count("What came against what the champion p") >= 2
    experiment = client.get_run(last.run_id).info.experiment_id
    failed = client.search_runs([experiment], "attributes.status = 'FAILED'")
    assert failed[0].data.metrics["month/slope"] < 0.3


def test_a_weak_champion_lets_a_month_in_with_a_warning_unless_it_is_to_stop(home: Home, tmp_path: Path) -> None:
    months = flights(150)
    weak: dict[str, Any] = {"spec": {"name": "weak"}, "model": RIDGE | {"features": ["hour", "distance"]}}
    retrained(tmp_path, months[:4], **weak)
    with pytest.raises(GateError, match=r"cannot be judged .*too weak to judge the new rows"):
        retrained(tmp_path, months[:5], **weak, on_unclear="stop")
    told = retrained(tmp_path, months[:5], **weak)
    assert (told.judged.verdict, told.split.version) == ("unclear", "1.1")
