"""A team's own code and loop: code is part of what was evaluated, folds of others are adopted and recorded."""

from pathlib import Path
from typing import Any

import mlflow
import numpy as np
import pytest
from evenfold.flows import GateError
from evenfold.flows.cli import app
from evenfold.flows.later import score_later
from evenfold.tasks import Home
from own_code import SHOP, edit, write
from scipy import stats
from sklearn.linear_model import Ridge
from sklearn.metrics import r2_score
from sklearn.model_selection import KFold, cross_validate
from small import champion, evaluated, named, retrain, small

import evenfold

MODEL = {"estimator": "shop.model:make", "metrics": ["r2"], "features": ["a", "b"]}


@pytest.fixture
def shop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.syspath_prepend(tmp_path)
    write(tmp_path, SHOP)
    small().to_parquet(tmp_path / "small.parquet")
    return tmp_path


def test_a_split_says_which_module_of_its_strategy_has_changed(
    shop: Path, home: Home, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(shop)
    command = "split small.parquet --key id --name own --strategy shop.folds:Mine --engine plain"
    app(command.split(), standalone_mode=False)
    edit(shop, "shop/folds.py", "shift = 0", "shift = 1")
    app(command.split(), standalone_mode=False)
    assert "2.0, for shop.folds changed; 1.0 stays" in capsys.readouterr().out


def bare(outcome: object, factor: list[float]) -> float:
    table = small().set_index("id").sort_index()
    said = np.empty(len(table))
    for train, test in outcome.split.manifest().pairs():  # type: ignore[attr-defined]
        X = table[["a", "b"]] * factor
        said[test] = Ridge().fit(X.iloc[train], table["y"].iloc[train]).predict(X.iloc[test])
    return float(r2_score(table["y"], said))


def test_a_changed_transformer_is_another_score_and_another_run(
    shop: Path, home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where it is computed anew; a comment is neither, and the way back finds the first one."""
    data = shop / "small.parquet"
    first = evaluated(data, model=MODEL)
    assert first.estimates[0].value == pytest.approx(bare(first, [1.0, 1.0]))
    edit(shop, "shop/features.py", "return X", "# as it is\n        return X")
    again = evaluated(data, model=MODEL)
    assert (again.n_cached, again.run_id, again.since) == (3, first.run_id, "")
    edit(shop, "shop/features.py", "[1.0, 1.0]", "[0.0, 1.0]")
    other = evaluated(data, model=MODEL, refresh=True)
    assert other.n_cached == 0
    assert other.run_id != first.run_id
    assert other.estimates[0].value == pytest.approx(bare(first, [0.0, 1.0])) != first.estimates[0].value
    assert other.since == f"shop.features changed since run {first.run_id[:8]}"
    assert len(named(home, "make @ small 1.0")) == 2
    monkeypatch.setenv("EVENFOLD_ALLOWED_MODULES", "shop.model:make")
    later = [score_later(first.run_id, small(40).assign(id=lambda rows: -1 - rows["id"]))]
    assert later[0].notes[0].startswith(other.since)
    edit(shop, "shop/features.py", "[0.0, 1.0]", "[1.0, 1.0]")
    later += [score_later(first.run_id, small(40).assign(id=lambda rows: -1 - rows["id"]))]
    assert (later[1].notes, later[1].run_id == later[0].run_id) == ([], False)
    back = evaluated(data, model=MODEL)
    assert (back.n_cached, back.run_id) == (3, first.run_id)
    assert back.estimates == first.estimates


def test_retraining_weighs_changed_code_against_the_scores_of_the_code_before(shop: Path, home: Home) -> None:
    """A break is refused, by what is kept of the champion; on new rows nothing is, so that it stops."""
    retrain("shop", small(), MODEL)
    assert champion(home, "shop") == "1"
    edit(shop, "shop/features.py", "[1.0, 1.0]", "[0.0, 1.0]")
    broken = retrain("shop", small(), MODEL)
    assert (broken.reused, broken.decision.why, broken.registered) == (False, "the candidate is worse", None)
    assert broken.decision.words.startswith("shop.features changed since version 1.")
    assert broken.judged.sentences == [], "nothing is new that could be judged"
    assert retrain("shop", small(), MODEL).reused
    more = small(130).assign(id=range(130))
    spec = {"gates": dict.fromkeys(["changed_targets", "vanished_rows"], "off")}
    with pytest.raises(GateError, match=r"cannot be compared .* changed since version 1, and no scores"):
        retrain("shop", more, MODEL, spec=spec, gates=False)
    assert champion(home, "shop") == "1"


OURS: Any = {"folds": KFold(3, shuffle=True, random_state=5), "key": "id", "target": "y", "name": "ours",
             "engine": "plain"}  # fmt: skip


def test_adopted_folds_are_recorded_audited_evaluated_and_grown(home: Home) -> None:
    """The second call finds the first; whatever table comes later needs no column of folds."""
    more = small(90)
    rows = more.head(60)
    adopted = evenfold.adopt(rows, **OURS)
    again = evenfold.adopt(rows, **OURS)
    assert (adopted.cached, again.cached, again.split.split_id) == (False, True, adopted.split.split_id)
    assert adopted.audit is not None
    client = mlflow.MlflowClient(home.tracking_uri)
    assert client.get_run(adopted.run_id).data.tags["evenfold.split_id"] == adopted.split.split_id
    evaluated = evenfold.evaluate(rows, model=Ridge(), manifest="ours", engine="plain")
    assert (evaluated.split.split_id, "fold" in evaluated.features) == (adopted.split.split_id, False)
    grown = evenfold.extend(adopted.split.uri, more, engine="plain")
    assert (grown.added, grown.moved, grown.split.version) == (30, 0, "1.1")
    assert "fold is gone" not in grown.model_dump_json()
    folds = grown.split.manifest().fold_of(more)
    assert np.array_equal(folds[:60], adopted.split.manifest().fold_of(rows))
    assert evenfold.evaluate(more, model=Ridge(), manifest="ours", engine="plain").split.version == "1.1"


def test_scores_of_an_own_loop_are_recorded_once_with_interval_and_audit(home: Home) -> None:
    """cross_validate's answer, a mapping or one list; other scores are another run, wrong ones none."""
    rows = small(60)
    split = evenfold.adopt(rows, **OURS).split
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
