"""A team keeps its own loop: its folds are adopted, recorded and grown, and what the loop scores is recorded too."""

import mlflow
import numpy as np
import pytest
from evenfold.tasks import Home
from scipy import stats
from sklearn.linear_model import Ridge
from sklearn.model_selection import KFold, cross_validate
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


def test_scores_of_an_own_loop_are_recorded_once_with_interval_and_audit(home: Home) -> None:
    """cross_validate's answer, a mapping or one list; other scores are another run, wrong ones none."""
    rows = small(60)
    split = evenfold.adopt(rows, KFold(3, shuffle=True, random_state=5), key="id", target="y", name="ours").split
    made = cross_validate(Ridge(), rows[["a", "b"]], rows["y"], cv=split.manifest().as_cv(rows), scoring=["r2"])
    first = evenfold.log_scores(split.manifest(), made, model=Ridge(), data=rows)
    again = evenfold.log_scores(split, {"r2": made["test_r2"]}, model="Ridge", data=rows)
    other = evenfold.log_scores(split, made["test_r2"].tolist(), model="Ridge")
    assert (first.run_id == again.run_id, first.run_id == other.run_id) == (True, False)
    run = mlflow.MlflowClient(home.tracking_uri).get_run(first.run_id)
    assert run.data.tags["evenfold.split_id"] == split.split_id
    assert run.data.metrics["value/r2"] == pytest.approx(np.mean(made["test_r2"]))
    spread = np.std(made["test_r2"], ddof=1) * np.sqrt(1 / 3 + 20 / 40)
    half = stats.t.ppf(0.975, 2) * spread
    assert run.data.metrics["high/r2"] - run.data.metrics["value/r2"] == pytest.approx(half)
    held = {file.path for file in mlflow.MlflowClient(home.tracking_uri).list_artifacts(first.run_id)}
    assert held == {"report.html", "scores.json", "audit.json"}
    assert repr(first).startswith("Ridge @ ours 1.0: r2 ")
    for wrong in ([0.1, 0.2], [0.1, 0.2, float("nan")], {}):
        with pytest.raises(evenfold.EvenfoldError, match=r"ours 1.0 has 3 splits, and a score is one finite number"):
            evenfold.log_scores(split, wrong, model="Ridge")
