"""Which split and champion a retraining goes on from, and who takes the place of one that is lost or forged."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from evenfold.flows import GateError, Retraining, retraining
from evenfold.flows.later import predict_later, score_later
from evenfold.splitters import SplitError, UntrustedNameError
from evenfold.tasks import Home
from evenfold.tasks.record.models import retraining as recorded
from small import BAD, GOOD, champion, changed, named, registry, retrain
from tables import rows

from evenfold import flows

pytestmark = pytest.mark.usefixtures("first")


def test_a_retraining_keeps_to_the_line_of_its_champion(home: Home) -> None:
    """What others split under its name, as a sample of the same rules, redirects nothing; nor does a child of it."""
    rules = {"key": "id", "target": "y", "strategy": "KFold", "n_splits": 2, "name": "monthly"}
    sample = flows.split(rows(80).sample(40, random_state=1), engine="plain", **rules)
    assert sample.split.version == "2.0"
    outcome = retrain("monthly", rows(80), GOOD)
    assert (outcome.split.version, outcome.growth.added) == ("1.1", 20)
    assert outcome.growth.parent_split_id == outcome.champion.tags["evenfold.split_id"]
    with pytest.raises(
        SplitError, match=r"version 2 of monthly, the champion, stands on monthly@1\.1, which is not among"
    ):
        retrain("elsewhere", rows(80), GOOD, registered_name="monthly")
    assert not (home.splits / "elsewhere").exists()


def test_a_champion_that_changed_meanwhile_is_compared_with(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of two retrainings of one name that both find no champion, the second decides again: neither is uncompared."""
    first: list[Retraining] = []
    committed = retraining._committed

    def overtaken(*args: Any) -> Any:
        if not first:
            first.append(Retraining.model_construct())
            first[0] = retrain("early", rows(90), GOOD, registered_name="shared")
        return committed(*args)

    monkeypatch.setattr(retraining, "_committed", overtaken)
    late = retrain("late", rows(90), BAD, registered_name="shared")
    assert first[0].decision.why.startswith("it is the first version")
    assert (late.decision.champion, late.decision.winner) == ("1", "champion")
    assert late.decision.difference < 0
    assert [str(each.version) for each in registry(home).search_model_versions("name = 'shared'")] == ["1"]


def test_two_homes_that_retrain_alike_at_once_register_one_version(
    home: Home, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, empty_store: Path
) -> None:
    """They share no lock: whoever finds the other's version of the same run takes its own back."""
    monkeypatch.setenv("MLFLOW_TRACKING_URI", f"sqlite:///{shutil.copy(empty_store, tmp_path / 'shared.db')}")
    table, other, made = tmp_path / "rows.parquet", tmp_path / "other", recorded._new_version
    rows(60).to_parquet(table)

    def overtaken(*args: Any) -> str:
        with monkeypatch.context() as there:
            there.setattr(recorded, "_new_version", made)
            there.setenv("EVENFOLD_HOME", str(other))
            retrain("twins", table, GOOD)
        return made(*args)

    monkeypatch.setattr(recorded, "_new_version", overtaken)
    outcome = retrain("twins", table, GOOD)
    client = registry(home)
    assert outcome.registered.version == "1"
    assert [str(each.version) for each in client.search_model_versions("name = 'twins'")] == ["1"]
    assert champion(home, "twins") == "1"


def test_a_home_without_the_champions_split_loads_it_as_it_is_recorded(home: Home) -> None:
    """As that of a new container is: its next month joins, and nobody has to say a word."""
    shutil.rmtree(home.splits / "monthly")
    outcome = retrain("monthly", rows(80), GOOD)
    assert (outcome.split.version, outcome.growth.added, champion(home, "monthly")) == ("1.1", 20, "2")


def test_a_champion_of_another_split_is_compared_by_its_recipe() -> None:
    """Another line needs a word; then its recipe is evaluated on the new folds, and it judges none of their rows."""
    other = {"spec": {"params": {"n_splits": 4}}}
    with pytest.raises(SplitError, match=r"the champion, stands on monthly@1\.0, which has other rules .*new_major"):
        retrain("monthly", rows(60), BAD, **other)
    outcome = retrain("monthly", rows(60), BAD, **other, on_refused="new_major")
    assert outcome.split.version == "2.0"
    assert outcome.decision.winner == "champion"
    assert "another split (monthly@1.0)" in outcome.judged.sentences[0]


@pytest.mark.parametrize(
    ("recipe", "why", "gates"),
    [
        ('{"estimator": "a_package_that_left:Model", "metrics": ["r2"]}', "a_package_that_left", True),
        ('{"estimator": "sklearn.linear_model:Ridge", "params": {"alpha": -1}, "metrics": ["r2"]}', "alpha", True),
        (None, "it names no recipe", False),
    ],
    ids=["gone", "fails", "deleted"],
)
def test_a_champion_that_cannot_be_evaluated_does_not_give_way(
    home: Home, monkeypatch: pytest.MonkeyPatch, recipe: str | None, why: str, gates: bool
) -> None:
    """Whoever may edit a tag makes no candidate champion, whatever the gates; the sentence says who decides."""
    monkeypatch.setenv("EVENFOLD_ALLOWED_MODULES", "sklearn,a_package_that_left")
    changed(home, "monthly", "1", "evenfold.model", recipe)
    with pytest.raises(GateError, match=rf"version 1 of monthly, the champion, cannot be compared .*{why}.* decides"):
        retrain("monthly", rows(80), GOOD, gates=gates)
    assert champion(home, "monthly") == "1"
    assert [folder.name for folder in (home.splits / "monthly").iterdir()] == ["1.0"]


def test_a_champion_that_names_what_it_may_not_stops_a_deployed_retraining(
    home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where somebody who may has signed it: nothing is imported, and the candidate does not become champion."""
    theirs = json.dumps({"estimator": "os:system", "params": {"command": "touch tagged"}})
    changed(home, "monthly", "1", "evenfold.model", theirs)
    monkeypatch.setenv("EVENFOLD_CLOSED", "1")
    with pytest.raises(UntrustedNameError, match="os:system"):
        retrain("monthly", rows(80), GOOD)
    assert champion(home, "monthly") == "1"
    assert [run.info.status for run in named(home, "retrain/monthly")] == ["FAILED", "FINISHED"]


def test_the_outcome_of_a_finished_retraining_is_believed_where_it_is_signed(home: Home, tmp_path: Path) -> None:
    (first,) = named(home, "retrain/monthly")
    assert retrain("monthly", rows(60), GOOD).reused
    kept = Path(registry(home).download_artifacts(first.info.run_id, "retrain.json", str(tmp_path))).read_text()
    registry(home).log_text(first.info.run_id, kept.replace("first version", "best version"), "retrain.json")
    again = retrain("monthly", rows(60), GOOD)
    assert (again.reused, "best version" in str(again)) == (False, False)


PIPELINE = """
from sklearn.linear_model import Ridge
from sklearn.pipeline import make_pipeline

def pipeline():
    return make_pipeline(Ridge())
"""


def test_ones_own_champion_works_where_it_was_made_and_its_signature_is_why(
    home: Home, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Predict, score, another candidate; a deployed run keeps its list of modules, and another key signs nothing."""
    (tmp_path / "own_shop.py").write_text(PIPELINE)
    monkeypatch.syspath_prepend(tmp_path)
    retrain("own", rows(60), {"estimator": "own_shop:pipeline", "metrics": ["r2"]})
    later = rows(100)[60:]
    assert len(predict_later("models:/own@champion", later)) == 40
    assert score_later("models:/own/1", later).rows == 40
    assert retrain("own", rows(80), GOOD).judged.rows == 20
    monkeypatch.setenv("EVENFOLD_CLOSED", "1")
    with pytest.raises(UntrustedNameError, match="'own_shop:pipeline' may not be imported for a deployed run"):
        predict_later("models:/own/1", later)
    monkeypatch.delenv("EVENFOLD_CLOSED")
    (home.path / "signing.key").unlink()
    with pytest.raises(UntrustedNameError, match="version 1 of own in MLflow was not signed by this home"):
        predict_later("models:/own/1", later)
    assert champion(home, "own") in "12"


def test_a_malformed_tag_is_a_sentence_and_makes_no_champion(home: Home) -> None:
    """What stops a retraining names the tag, whose it is and what to do; put right, the same retraining goes on."""
    (first,) = named(home, "retrain/monthly")
    for tag, bad in (("model", "[" * 3_000), ("scores", '{"a":' * 900)):
        kept = registry(home).get_model_version("monthly", "1").tags[f"evenfold.{tag}"]
        changed(home, "monthly", "1", f"evenfold.{tag}", bad)
        words = rf"a tag of version 1 of monthly, the champion, in MLflow cannot be read \(evenfold\.{tag}: Inv"
        with pytest.raises(SplitError, match=words):
            retrain("monthly", rows(80), GOOD)
        assert champion(home, "monthly") == "1"
        changed(home, "monthly", "1", f"evenfold.{tag}", kept)
    kept = first.data.tags["evenfold.decision"]
    registry(home).set_tag(first.info.run_id, "evenfold.decision", '{"spent": -100}')
    with pytest.raises(SplitError, match=rf"of run {first.info.run_id} in MLflow cannot be read \(evenfold.decision"):
        retrain("monthly", rows(80), BAD)
    registry(home).set_tag(first.info.run_id, "evenfold.decision", kept)
    for run in named(home, "retrain/monthly"):
        if run.info.status == "FAILED":  # the one that goes on: what it had decided is decided anew
            registry(home).set_tag(run.info.run_id, "evenfold.decision", "{")
    assert retrain("monthly", rows(80), GOOD).registered
    assert champion(home, "monthly") == "2"
