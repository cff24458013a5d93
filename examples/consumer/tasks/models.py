"""Train this project's model on one fold."""

from __future__ import annotations

import pandas as pd
from prefect import task
from prefect.cache_policies import NO_CACHE
from sklearn.linear_model import Ridge
from sklearn.metrics import mean_absolute_error

from tasks.splits import fetched

FEATURES = ["month", "hour", "distance"]


@task(cache_policy=NO_CACHE)
def fold_error(data: str, found: dict[str, str], fold: int) -> float:
    """Return the mean absolute error (minutes) on one fold of the shared split."""
    frame = pd.read_parquet(data).sample(frac=1, random_state=fold)  # any order: rows are joined by key
    train, test = list(fetched(found).as_cv(frame).split())[fold]
    model = Ridge().fit(frame[FEATURES].iloc[train], frame["arr_delay"].iloc[train])
    return float(mean_absolute_error(frame["arr_delay"].iloc[test], model.predict(frame[FEATURES].iloc[test])))
