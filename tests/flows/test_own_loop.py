"""A team keeps its own loop: its folds are adopted, recorded and grown, and what the loop scores is recorded too."""

from __future__ import annotations

import mlflow
import numpy as np
from evenfold.tasks import Home
from sklearn.linear_model import Ridge
from sklearn.model_selection import KFold
from small import small

import evenfold


def test_adopted_folds_are_recorded_audited_evaluated_and_grown(home: Home) -> None:
    """The second call finds the first; whatever table comes later needs no column of folds."""
    more = small(90)
    rows = more.head(60)
    adopted = evenfold.adopt(rows, KFold(3, shuffle=True, random_state=5), key="id", target="y", name="ours")
    again = evenfold.adopt(rows, KFold(3, shuffle=True, random_state=5), key="id", target="y", name="ours")
    assert (adopted.cached, again.cached, again.split.split_id) == (False, True, adopted.split.split_id)
    assert adopted.audit is not None
    client = mlflow.MlflowClient(home.tracking_uri)
    assert client.get_run(adopted.run_id).data.tags["evenfold.split_id"] == adopted.split.split_id
    evaluated = evenfold.evaluate(rows, model=Ridge(), manifest="ours", engine="plain")
    assert (evaluated.split.split_id, "fold" in evaluated.features) == (adopted.split.split_id, False)
    grown = evenfold.extend(adopted.split.uri, more, engine="plain")
    assert (grown.added, grown.moved, grown.split.version) == (30, 0, "1.1")
    folds = grown.split.manifest().fold_of(more)
    assert np.array_equal(folds[:60], adopted.split.manifest().fold_of(rows))
    assert evenfold.evaluate(more, model=Ridge(), manifest="ours", engine="plain").split.version == "1.1"
