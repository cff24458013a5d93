"""Months of retraining with broken files in between: the champion is the right one after each."""

from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from evenfold.flows import GateError
from evenfold.tasks import Home
from mlflow.tracking import MlflowClient
from year import RIDGE, SPEC, flights, live_through

from evenfold import flows


def test_five_months_with_broken_files_in_between(home: Home, tmp_path: Path) -> None:
    """Nothing that is empty, doubled, cut short, rescaled, shuffled or renamed becomes champion; late rows join.

    A month that the champion refuses leaves its record alone; the figures of those it let in are in MLflow.
    """
    months = flights(150)
    faults = [
        [],
        ["cut short", "in seconds", "empty"],
        ["duplicated", "target renamed", "feature as text"],
        ["shuffled", "feature renamed", "in seconds from now on", "the month alone"],
    ]
    done = live_through(home, tmp_path, months[:4], faults)
    assert [each["champion"][0] for each in done if not each["fault"]] == ["1", "2", "3", "4"]
    assert sum(bool(each["fault"]) for each in done) == 10

    def retrained(month: pd.DataFrame) -> Any:
        pd.concat([*months[:4], month]).to_parquet(tmp_path / "months.parquet")
        return flows.retrain(str(tmp_path / "months.parquet"), SPEC, RIDGE, engine="plain")

    shuffled = months[4].assign(arr_delay=months[4]["arr_delay"].sample(frac=1, random_state=1).to_numpy())
    with pytest.raises(GateError, match=r"year 1\.4 is refused: The slope of arr_delay .* looks like shuffled"):
        retrained(shuffled)
    assert not (home.splits / "year" / "1.4").exists()
    last = retrained(months[4])
    assert (last.split.version, last.registered.version, last.judged.verdict) == ("1.4", "5", "sound")
    client = MlflowClient(home.tracking_uri)
    for name in ("slope", "slope_low", "slope_high", "error", "error_low", "error_high"):
        points = {point.step: point.value for point in client.get_metric_history(last.run_id, f"month/{name}")}
        assert points == last.judged.series[f"month/{name}"]
        assert sorted(points) == [1, 2, 3, 4]
    assert last.page().html().count("What came against what the champion p") >= 2
    experiment = client.get_run(last.run_id).info.experiment_id
    failed = client.search_runs([experiment], "attributes.status = 'FAILED'")
    assert min(run.data.metrics.get("month/slope", 1.0) for run in failed) < 0.3
