"""A year of flights that come month by month, and what goes wrong with files in between."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from evenfold.estimates import ModelError
from evenfold.flows import GateError
from evenfold.splitters import SplitError
from evenfold.tasks import Home

from evenfold import flows

FLIGHTS = Path(__file__).parents[1] / "examples" / "flights.parquet"
SPEC: dict[str, Any] = {
    "name": "year",
    "columns": {"key": "flight_id", "target": "arr_delay", "group": "date", "time": "time_hour"},
    "strategy": "BalancedGroupKFold",
    "params": {"n_splits": 3},
    "gates": {"time_overlap": "off"},  # whole days are kept together, and not in the order of time
}
RIDGE = {"estimator": "sklearn.linear_model:Ridge", "metrics": ["r2"], "features": ["hour", "distance", "dep_delay"]}
Fault = Callable[[pd.DataFrame, pd.DataFrame], pd.DataFrame]  # of the rows known so far, and those of the new month


def flights(per_month: int) -> list[pd.DataFrame]:
    rows = pd.read_parquet(FLIGHTS).dropna(subset=["arr_delay", "dep_delay"])
    rows = rows.sample(frac=1, random_state=0).groupby("month").head(per_month).sort_values(["date", "flight_id"])
    return [month for _, month in rows.groupby("month")]


def _shuffled(known: pd.DataFrame, new: pd.DataFrame) -> pd.DataFrame:
    whole = pd.concat([known, new])
    return whole.assign(arr_delay=np.random.default_rng(0).permutation(whole["arr_delay"]))


# Each is what a feed has done to somebody; with the sentence that stops it.
FAULTS: dict[str, tuple[Fault, str]] = {
    "empty": (lambda known, new: known.head(0), "0 rows"),
    "duplicated": (lambda known, new: pd.concat([known, new, new]), "flight_id"),
    "cut short": (lambda known, new: pd.concat([known, new]).tail(len(new) // 2), "known rows .* are not in the data"),
    "the month alone": (lambda known, new: new, "known rows .* are not in the data"),
    "in seconds": (
        lambda known, new: pd.concat([known, new]).assign(arr_delay=lambda rows: rows["arr_delay"] * 60),
        "have another arr_delay",
    ),
    "in seconds from now on": (
        lambda known, new: pd.concat([known, new.assign(arr_delay=new["arr_delay"] * 60)]),
        "arr_delay of .* new rows is .* apart|what the champion predicted is .* a target in other units",
    ),
    "shuffled": (_shuffled, "have another arr_delay"),
    "target renamed": (lambda known, new: pd.concat([known, new]).rename(columns={"arr_delay": "delay"}), "arr_delay"),
    "feature renamed": (lambda known, new: pd.concat([known, new]).rename(columns={"hour": "Hour"}), "column 'hour'"),
    "feature as text": (
        lambda known, new: pd.concat([known, new]).assign(distance=lambda rows: rows["distance"].astype(str) + " mi"),
        "distance holds texts, not numbers",
    ),
}


def live_through(home: Home, folder: Path, months: list[pd.DataFrame], faults: list[list[str]]) -> list[dict[str, Any]]:
    """Retrain month by month, with the faults of a month before its file comes right; return what was done.

    Every third month comes with its last third missing, which comes with the next one. Asserted after each file: a
    fault stops it with its sentence, and the champion is the newest model of a table that was right.
    """
    from mlflow.tracking import MlflowClient

    client, known, late, log = MlflowClient(home.tracking_uri), months[0].head(0), months[0].head(0), []

    def retrain(table: pd.DataFrame) -> Any:
        path = folder / f"{len(log)}.parquet"
        table.sample(frac=1, random_state=len(log)).to_parquet(path)  # rows come in any order
        return flows.retrain(str(path), SPEC, RIDGE, engine="plain")

    def champion() -> tuple[str, int]:
        version = client.get_model_version_by_alias("year", "champion")
        return str(version.version), int(version.tags["evenfold.n_train"])

    before = None
    for number, month in enumerate(months):
        for name in faults[number]:
            change, sentence = FAULTS[name]
            with pytest.raises((GateError, SplitError, ModelError), match=sentence):
                retrain(change(known, month))
            assert champion() == before, name
            log.append({"month": number + 1, "fault": name, "champion": before})
        cut = len(month) * 2 // 3 if number % 3 == 2 else len(month)
        known = pd.concat([known, late, month.head(cut)])
        late = month.iloc[cut:]
        outcome = retrain(known)
        before = (str(number + 1), len(known))
        assert champion() == before, outcome.decision.why
        assert outcome.growth.moved == 0
        log.append({"month": number + 1, "fault": "", "champion": before})
    return log
