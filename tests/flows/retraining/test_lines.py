"""Which split and which champion a retraining goes on from, whatever others do at the same time."""

import shutil
from pathlib import Path
from typing import Any

import pytest
from evenfold.flows import Retraining, retraining
from evenfold.splitters import SplitError
from evenfold.tasks import Home
from evenfold.tasks.record.models import registry as recorded
from small import BAD, GOOD, champion, registry, retrain
from tables import rows

from evenfold import flows


@pytest.mark.usefixtures("first")
def test_a_retraining_keeps_to_the_line_of_its_champion(home: Home) -> None:
    """What others split under its name, as a sample of the same rules, redirects nothing; nor does a child of it."""
    rules = {"key": "id", "target": "y", "strategy": "KFold", "n_splits": 2, "name": "monthly"}
    sample = flows.split(rows(150).sample(60, random_state=1), engine="plain", **rules)
    assert sample.split.version == "2.0"
    outcome = retrain("monthly", rows(150), GOOD)
    assert (outcome.split.version, outcome.growth.added) == ("1.1", 30)
    assert outcome.growth.parent_split_id == outcome.champion.tags["evenfold.split_id"]
    with pytest.raises(
        SplitError, match=r"version 2 of monthly, the champion, stands on monthly@1\.1, which is not among"
    ):
        retrain("elsewhere", rows(150), GOOD, registered_name="monthly")
    assert not (home.splits / "elsewhere").exists()


def test_a_champion_that_changed_meanwhile_is_compared_with(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of two retrainings of one name that both find no champion, the second decides again: neither is uncompared."""
    first: list[Retraining] = []
    fitted = retraining._new_model

    def overtaken(*args: Any) -> Any:
        if not first:
            first.append(Retraining.model_construct())
            first[0] = retrain("early", rows(200), GOOD, registered_name="shared")
        return fitted(*args)

    monkeypatch.setattr(retraining, "_new_model", overtaken)
    late = retrain("late", rows(200), BAD, registered_name="shared")
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
    rows(120).to_parquet(table)

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


@pytest.mark.usefixtures("first")
def test_a_home_without_the_champions_split_loads_it_as_it_is_recorded(home: Home) -> None:
    """As that of a new container is: its next month joins, and nobody has to say a word."""
    shutil.rmtree(home.splits / "monthly")
    outcome = retrain("monthly", rows(150), GOOD)
    assert (outcome.split.version, outcome.growth.added, champion(home, "monthly")) == ("1.1", 30, "2")


@pytest.mark.usefixtures("first")
def test_a_champion_of_another_split_is_compared_by_its_recipe() -> None:
    """Another line needs a word; then its recipe is evaluated on the new folds, and it judges none of their rows."""
    other = {"spec": {"params": {"n_splits": 4}}}
    with pytest.raises(SplitError, match=r"the champion, stands on monthly@1\.0, which has other rules .*new_major"):
        retrain("monthly", rows(120), BAD, **other)
    outcome = retrain("monthly", rows(120), BAD, **other, on_refused="new_major")
    assert outcome.split.version == "2.0"
    assert outcome.decision.winner == "champion"
    assert "another split (monthly@1.0)" in outcome.judged.sentences[0]
