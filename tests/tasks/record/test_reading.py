"""What is read back from the record is what was asked for, or a sentence that says why there is none."""

import json
import math
import shutil
from dataclasses import replace
from pathlib import Path

import pytest
from evenfold.estimates import Choice, Estimate
from evenfold.estimates.results import Interval
from evenfold.manifests import decide
from evenfold.splitters import SplitError
from evenfold.tasks import Home
from evenfold.tasks.record.entries import Entry
from evenfold.tasks.record.looks import _promised
from evenfold.tasks.record.reading import read_recipe, read_split
from evenfold.tasks.record.tracker import Tracker
from small import SPEC, small

from evenfold import flows


def test_an_underscore_in_a_name_stands_for_no_other_letter(home: Home) -> None:
    """The store's LIKE takes it for any: a split that nobody named would have been used instead."""
    made = flows.split(small(), key="id", target="y", name="my-split", strategy="KFold", engine="plain")
    assert read_split("my-split").split_id == made.split.split_id
    for name in ("my_split", "my%"):
        with pytest.raises(SplitError, match="there is no split"):
            read_split(name)


def test_a_version_that_there_is_not_is_answered_with_those_that_there_are(home: Home) -> None:
    """Recorded ones, and those that only lie below the home, as imported ones do; a name alone is their newest."""
    made = flows.split(small(), key="id", target="y", name="rows", strategy="KFold", engine="plain").split
    shutil.copytree(made.uri, home.splits / "alone" / "1.9")
    shutil.copytree(made.uri, home.splits / "alone" / "1.10")
    for wrong, known in {
        "rows@9.0": "rows has 1.0",
        "rows@": "rows has 1.0",
        "alone@2": "alone has 1.9 and 1.10",
    }.items():
        with pytest.raises(SplitError, match=rf"there is no split '{wrong}' in .*; {known}\.$"):
            read_split(wrong)
    assert str(read_split("alone").uri).endswith("alone/1.10")
    shutil.copytree(made.uri, home.splits / "rows" / "1.1")
    assert str(read_split("rows").uri).endswith("rows/1.1"), "newer than what is recorded"
    with pytest.raises(SplitError, match="there is no split 'xxx"):
        read_split("x" * 300)
    with pytest.raises(SplitError, match=r"there is no split '\.\./x' in"):
        read_split("../x")


def test_a_name_of_several_projects_is_this_ones_or_refused_and_what_is_loaded_grows_here(
    home: Home, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The newest of one name in a shared store is anybody's; by its id a split is loaded under its own name."""
    monkeypatch.setenv("MLFLOW_TRACKING_URI", home.own_store)
    ids = []
    for seed, project in enumerate("ab"):
        monkeypatch.setenv("EVENFOLD_HOME", str(tmp_path / project))
        asked = {"key": "id", "target": "y", "name": "rows", "strategy": "KFold", "seed": seed}
        ids.append(flows.split(small(), engine="plain", **asked).split.split_id)
    monkeypatch.setenv("EVENFOLD_HOME", str(tmp_path / "a"))
    assert [read_split(reference).split_id for reference in ("rows", "rows@1.0")] == [ids[0], ids[0]]
    monkeypatch.setenv("EVENFOLD_HOME", str(tmp_path / "c"))
    for reference in ("rows", "rows@1.0"):
        with pytest.raises(SplitError, match=rf"^rows@1\.0 names 2 splits in .*{min(ids)[:16]}, {max(ids)[:16]}"):
            read_split(reference)
    loaded = flows.load_split(ids[0][:16])
    assert (Path(str(loaded.uri)), loaded.split_id) == (tmp_path / "c" / "splits" / "rows" / "1.0", ids[0])
    grown = flows.extend("rows@1.0", small(n=150), engine="plain").split
    assert Path(grown.uri) == tmp_path / "c" / "splits" / "rows" / "1.1"
    assert read_split(ids[1]).split_id == ids[1]  # apart, for rows@1.0 is taken here
    assert read_split("rows").split_id == grown.split_id


def test_a_tuning_promises_what_is_expected_of_its_choice_without_its_luck() -> None:
    """By the metric that chose; any other stays, and an interval that there is not is none."""
    luck = Estimate("r2", "cross-validation", 0.408, 0.1, None, 5, interval=Interval(0.321, 0.495, 0.95, "a method"))
    other = replace(luck, metric="neg_mean_squared_error")
    honest, same = _promised([luck, other], Choice(0, 0, 0.408, 0.39, 0.3, 0.48), "r2")
    assert (honest.value, honest.interval.low, honest.interval.high, same) == (0.39, 0.3, 0.48, other)
    assert _promised([luck], Choice(0, 0, 0.408, 0.39, math.nan, math.nan), "r2")[0].interval is None


def test_looking_for_a_split_that_lies_below_the_home_makes_no_store(home: Home) -> None:
    (home.path / "mlflow.db").unlink()
    made = decide(SPEC | {"name": "rows"}, small(), to=home.splits)
    assert read_split("rows").split_id == made.split_id
    for wrong in ("rows@9.0", "rows@", "rows@1"):
        with pytest.raises(SplitError, match=rf"there is no split '{wrong}' in .*; rows has 1\.0\.$"):
            read_split(wrong)
    assert not (home.path / "mlflow.db").exists()


def test_a_damaged_recipe_is_said_to_be(home: Home) -> None:
    """Whoever may write to the store may damage it; a command ends with a sentence."""
    tracker = Tracker(home, "rows")
    with tracker.run(Entry(key="a", name="Ridge @ rows 1.0", tags={}, params={}, metrics={})) as run_id:
        pass
    for text in ("{}", "[]", "null", '{"split": {}}', '{"split": "rows"}'):
        tracker.client.log_text(run_id, text, "recipe.json")
        with pytest.raises(SplitError, match=r"recipe\.json of run .* \(Ridge @ rows 1\.0\) is damaged"):
            read_recipe(run_id)


def test_a_model_that_is_logged_to_a_run_changes_none_of_its_files(
    home: Home, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """MLflow's client puts a model's files over those of the run that are called alike, whoever has logged it."""
    monkeypatch.setenv("MLFLOW_TRACKING_URI", home.own_store)
    monkeypatch.chdir(tmp_path)  # whose store the environment names keeps its files in ./mlruns
    tracker = Tracker(home, "rows")
    with tracker.run(Entry(key="a", name="rows 1.0 split", tags={}, params={}, metrics={})) as run_id:
        tracker.keep(run_id, "split/manifest.json", {"rows": 3})
    model = tracker.client.create_logged_model(tracker.experiment_id, "split", source_run_id=run_id)
    (tmp_path / "model").mkdir()
    for name in ("manifest.json", "MLmodel"):
        (tmp_path / "model" / name).write_text("{}")
    tracker.client.log_model_artifacts(model.model_id, str(tmp_path / "model"))
    for number, reader in enumerate((tracker, Tracker(home, ""))):
        fetched = reader.fetch(run_id, "split", tmp_path / str(number))
        assert [path.name for path in fetched.iterdir()] == ["manifest.json"]
        assert json.loads((fetched / "manifest.json").read_text()) == {"rows": 3}
