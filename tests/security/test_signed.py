"""A model is loaded only where this home, or its team, signed it; what lies in MLflow is somebody else's."""

import json
import os
import stat
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from commands import evenfold
from evenfold.estimates import ModelSpec, Problem
from evenfold.estimates.models.fit import fitted
from evenfold.flows.later import predict_later, score_later
from evenfold.splitters import SplitError, UntrustedNameError
from evenfold.tasks import Home
from evenfold.tasks.record.entries import RECIPE
from evenfold.tasks.record.models.versions import Tags, load_final, require_signed_version
from evenfold.tasks.record.reading import read_evaluation
from evenfold.tasks.record.tracker import Tracker
from evenfold.tasks.runtime.signing import is_signed, require_team_key, sign
from kept import kept_after, put_back
from mlflow.tracking import MlflowClient
from small import BAD, GOOD, called, changed, final_of, registry, retrain
from tables import rows

TEAM, OTHER = "t" * 32, "o" * 32


def test_a_forged_model_runs_nothing_and_no_other_file_is_read(tmp_path: Path) -> None:
    """Whatever its parts are called and however it is signed; the same model, signed by its reader, runs."""
    (tmp_path / "evil.py").write_text("open('mark', 'w')\nclass X: pass\n")
    environment = {**os.environ, "EVENFOLD_HOME": str(tmp_path / "home")}
    attacks = [sys.executable, str(Path(__file__).with_name("signed_attacks.py"))]
    done = subprocess.run(attacks, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr[-2000:]
    told = json.loads(done.stdout)
    ours = ("by whoever reads it, ", "another under its key, loaded")
    forged = [each for each in told if not any(words in each[0] for words in ours)]
    assert len(forged) == 31 + 5 * 4
    assert [each for each in forged if not each[1].startswith(("nothing", "UntrustedNameError: "))] == []
    assert [each for each in forged if each[2]] == []
    assert [each[1] for each in told if each not in forged and "results" in each[0]] == ["accepted"] * 6
    assert {each[0]: any("touch mark" in seen for seen in each[2]) for each in told}[
        "system, by whoever reads it, loaded"
    ]


def test_a_signature_is_of_one_kind_and_claim(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of nothing else; by a team's key it holds in every home, and what the home's own key signed goes on to hold."""
    own = sign("model", {"a": 1})
    assert is_signed("model", {"a": 1}, [None, 7, own])
    assert not any(is_signed(*other, [own]) for other in (("version", {"a": 1}), ("model", {"a": "1"}), ("model", {})))
    monkeypatch.setenv("EVENFOLD_SIGNING_KEY", TEAM)
    teams = sign("model", {"a": 1})
    assert is_signed("model", {"a": 1}, [own])
    monkeypatch.setenv("EVENFOLD_HOME", str(home.path / "another"))
    assert [is_signed("model", {"a": 1}, [each]) for each in (own, teams)] == [False, True]
    monkeypatch.setenv("EVENFOLD_SIGNING_KEY", OTHER)
    assert not is_signed("model", {"a": 1}, [teams])
    monkeypatch.setenv("EVENFOLD_SIGNING_KEY", "guess me")
    with pytest.raises(SplitError, match="has 8 characters, which can be guessed") as refused:
        sign("model", {})
    assert "guess me" not in str(refused.value)


def test_the_key_of_a_home_is_made_once_for_its_owner_alone(home: Home) -> None:
    """By however many at once; one that others may read, that is cut short or a link is refused by its place."""
    with ThreadPoolExecutor(8) as pool:
        assert len(set(pool.map(lambda _: sign("model", {}), range(8)))) == 1
    key = home.path / "signing.key"
    assert stat.S_IMODE(key.stat().st_mode) == 0o600
    whole = key.read_bytes()
    key.chmod(0o640)
    with pytest.raises(SplitError, match=r"signing\.key cannot be used \(others may read or write it, mode 640"):
        is_signed("model", {}, [])
    key.chmod(0o600)
    key.write_bytes(whole[:8])
    with pytest.raises(SplitError, match="cut short"):
        sign("model", {})
    key.rename(home.path / "elsewhere")
    key.symlink_to(home.path / "elsewhere")
    with pytest.raises(SplitError, match=r"cannot be used .* set EVENFOLD_SIGNING_KEY"):
        sign("model", {})


def test_a_deployed_home_of_shared_results_has_a_teams_key(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without one a flow stops before anything is read; a terminal, and a home that shares nothing, do not."""
    from evenfold import flows

    monkeypatch.setenv("EVENFOLD_RESULTS", str(home.path / "shared"))
    require_team_key()
    monkeypatch.setenv("EVENFOLD_CLOSED", "1")
    with pytest.raises(SplitError, match=r"results are shared .* set EVENFOLD_SIGNING_KEY to one secret text"):
        flows.split("absent.csv", key="id", engine="plain")
    monkeypatch.setenv("EVENFOLD_SIGNING_KEY", TEAM)
    require_team_key()
    monkeypatch.delenv("EVENFOLD_SIGNING_KEY")
    monkeypatch.delenv("EVENFOLD_RESULTS")
    require_team_key()


ROWS = pd.DataFrame({"a": np.arange(80.0) % 9, "kind": ["x", "y"] * 40, "y": ["p", "q", "q", "q"] * 20})
ROWS["z"] = np.arange(80.0) + 1


RECIPES: list[tuple[str, dict[str, Any]]] = [
    ("y", {}),
    ("z", {"target_transform": "box-cox"}),
    ("y", {"balance": "undersample", "estimator": "evenfold.estimates:scaled_logistic_regression"}),
    ("y", {"balance": "oversample"}),
    ("y", {"threshold": "tuned", "features": ["a"], "estimator": "sklearn.naive_bayes:GaussianNB"}),
    ("z", {"estimator": "sklearn.ensemble:RandomForestRegressor", "params": {"n_estimators": 3}, "text": "ordinal"}),
    ("z", {"estimator": "sklearn.neighbors:KNeighborsRegressor"}),
    ("z", {"estimator": "sklearn.neural_network:MLPRegressor", "params": {"max_iter": 3}}),
]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.usefixtures("home")
def test_models_that_evenfold_makes_are_loaded() -> None:
    for target, recipe in RECIPES:
        problem = Problem.of(ROWS.drop(columns={"y", "z"} - {target}), ModelSpec.of(recipe), target)
        model = fitted(problem, np.arange(80), seed=0, name="the model")
        loaded, _ = load_final(final_of(model))
        said = "predict_proba" if target == "y" else "predict"
        assert (getattr(loaded, said)(problem.X) == getattr(model, said)(problem.X)).all(), recipe


@pytest.fixture(scope="module")
def _shop(_module_home: Home, tmp_path_factory: pytest.TempPathFactory) -> Path:
    def done() -> None:
        for n in (60, 80):
            retrain("shop", rows(n), GOOD)
        retrain("other", rows(60), BAD)

    return kept_after(_module_home, tmp_path_factory.mktemp("kept"), done)[1]


@pytest.fixture
def shop(shared_home: Home, _shop: Path) -> MlflowClient:
    """Return a client of a registry in which version 2 of shop is champion; nothing has been edited in it."""
    put_back(shared_home, _shop)
    return registry(shared_home)


def _tag(tag: str, value: str) -> Any:
    return lambda client: client.set_model_version_tag("shop", "2", tag, value)


def _cloned(client: MlflowClient, name: str, version: str) -> None:
    """Make a copy of a version, with its files and its tags, the champion of shop."""
    theirs = client.get_model_version(name, version)
    if name != "shop":
        client.rename_registered_model("shop", "kept")
        client.create_registered_model("shop")
    made = client.create_model_version("shop", theirs.source, theirs.run_id, tags=theirs.tags)
    client.set_registered_model_alias("shop", "champion", made.version)


def _relabelled(client: MlflowClient) -> None:
    now, then = (client.get_model_version("shop", version).tags for version in "21")
    for tag in now:
        client.delete_model_version_tag("shop", "2", tag)
    for tag, value in then.items():
        client.set_model_version_tag("shop", "2", tag, value)


def _unsigned(client: MlflowClient) -> None:
    for tag in client.get_model_version("shop", "2").tags:
        if tag.startswith("evenfold.signature"):
            client.delete_model_version_tag("shop", "2", tag)


EDITS: dict[str, Any] = {
    "another recipe": _tag("evenfold.model", json.dumps(BAD)),
    "a better score": _tag("evenfold.scores", "[]"),
    "another evaluation": _tag("evenfold.evaluation_run_id", "0" * 32),
    "another split": _tag("evenfold.split_id", "0" * 64),
    "another run": _tag("evenfold.run_key", "0" * 64),
    "another file": _tag("evenfold.model_sha256", "0" * 64),
    "one more tag": _tag("evenfold.note", "a"),
    "no recipe": lambda client: client.delete_model_version_tag("shop", "2", "evenfold.model"),
    "no evaluation": lambda client: client.delete_model_version_tag("shop", "2", "evenfold.evaluation_run_id"),
    "no signature": _unsigned,
    "what an old version says": _relabelled,
    "an old version anew": lambda client: _cloned(client, "shop", "1"),
    "the version of another name": lambda client: _cloned(client, "other", "1"),
}


def test_every_edit_of_a_champion_breaks_its_signature(
    shared_home: Home, shop: MlflowClient, request: pytest.FixtureRequest
) -> None:
    kept = request.getfixturevalue("_shop")
    for edit in EDITS.values():
        edit(shop)
        version = str(shop.get_model_version_by_alias("shop", "champion").version)
        with pytest.raises(UntrustedNameError, match=f"version {version} of shop in MLflow was not signed"):
            require_signed_version(shop.get_model_version("shop", version))
        put_back(shared_home, kept)
    require_signed_version(shop.get_model_version("shop", "2"))


@pytest.mark.parametrize("edit", ["another recipe", "no signature", "an old version anew"])
def test_an_edited_champion_is_refused_until_a_person_trusts_it(shop: MlflowClient, edit: str, tmp_path: Path) -> None:
    """By everything that would go by it or load it, in a sentence with what to say; nothing is registered meanwhile."""
    EDITS[edit](shop)
    version = str(shop.get_model_version_by_alias("shop", "champion").version)
    words = rf"version {version} of shop in MLflow was not signed .* say evenfold trust shop@{version} at a terminal"
    for refused in (
        lambda: predict_later("models:/shop@champion", rows(9)),
        lambda: score_later(f"models:/shop/{version}", rows(9)),
        lambda: retrain("shop", rows(99), GOOD),
    ):
        with pytest.raises(UntrustedNameError, match=words):
            refused()
    assert str(shop.get_model_version_by_alias("shop", "champion").version) == version
    assert evenfold(tmp_path, "trust", f"shop@{version}").returncode == 2, "nobody is there to be asked"
    if edit != "another recipe":
        told = evenfold(tmp_path, "trust", f"shop@{version}", "--yes")
        assert told.returncode == 0, told.stderr
        digest = shop.get_model_version("shop", version).tags["evenfold.model_sha256"]
        assert '"estimator": "sklearn.linear_model:Ridge"' in told.stderr
        assert digest in told.stderr
        require_signed_version(shop.get_model_version("shop", version))
        assert evenfold(tmp_path, "trust", f"shop@{version}", "--yes", EVENFOLD_CLOSED="1").returncode == 2


def test_a_persons_trust_covers_the_evaluation_of_a_version(
    shared_home: Home, shop: MlflowClient, tmp_path: Path
) -> None:
    run_id = shop.get_model_version("shop", "2").tags["evenfold.evaluation_run_id"]
    tracker = Tracker(shared_home, "shop")
    recipe, _ = tracker.read_signed(run_id, RECIPE)
    shop.log_dict(run_id, recipe | {"signatures": []}, RECIPE)  # as another home's, or of an earlier release
    assert not tracker.read_signed(run_id, RECIPE)[1]
    assert evenfold(tmp_path, "trust", "shop@2", "--yes").returncode == 0
    assert tracker.read_signed(run_id, RECIPE)[1]


def _forged(client: MlflowClient, run_id: str, kept: dict[str, str]) -> None:
    won = {"winner": "candidate", "promote": True, "why": "so I say", "metric": "r2", "champion": "2"}
    client.set_tag(run_id, "evenfold.decision", json.dumps(won))


def _of_another_run(client: MlflowClient, run_id: str, kept: dict[str, str]) -> None:
    for tag in ("evenfold.decision", "evenfold.signature"):
        client.set_tag(run_id, tag, kept[tag])


@pytest.mark.parametrize("edit", [_forged, _of_another_run])
def test_an_edited_decision_promotes_nobody(shop: MlflowClient, monkeypatch: pytest.MonkeyPatch, edit: Any) -> None:
    """A retraining that was killed goes on with its own decision, and with no other: it is made again."""
    with monkeypatch.context() as killed:
        killed.setattr(*called("flows.retraining", "committing"), lambda *_: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            retrain("shop", rows(80), BAD)
    runs = shop.search_runs([shop.get_experiment_by_name("shop").experiment_id], "attributes.run_name = 'retrain/shop'")
    (first,) = (run for run in runs if run.info.status == "FINISHED" and "first version" in str(run.data.tags))
    edit(shop, next(run.info.run_id for run in runs if run.info.status == "FAILED"), first.data.tags)
    assert retrain("shop", rows(80), BAD).decision.why == "the candidate is worse"
    assert shop.get_model_version_by_alias("shop", "champion").version in (2, "2")


def test_a_trusted_version_without_an_evaluation_says_so(shared_home: Home, shop: MlflowClient) -> None:
    changed(shared_home, "shop", "2", "evenfold.evaluation_run_id")
    with pytest.raises(SplitError, match="version 2 of shop names no evaluation"):
        predict_later("models:/shop/2", rows(9))


def test_forged_predictions_and_recipes_of_an_evaluation_decide_nothing(shop: MlflowClient, tmp_path: Path) -> None:
    """They are signed for their run: predictions of somebody else's count as gone, and no model is made by a recipe."""
    run_id = shop.get_model_version("shop", "2").tags["evenfold.evaluation_run_id"]
    read_evaluation(run_id, ours=True)
    path = Path(shop.download_artifacts(run_id, "predictions.parquet", str(tmp_path)))
    frame = pd.read_parquet(path)
    frame.assign(prediction=frame["y"]).to_parquet(path)
    shop.log_artifact(run_id, str(path))
    with pytest.raises(SplitError, match=r"predictions of run .* were not signed by this home"):
        read_evaluation(run_id, ours=True)
    older = shop.get_model_version("shop", "1").tags["evenfold.evaluation_run_id"]
    shop.log_artifact(run_id, shop.download_artifacts(older, "recipe.json", str(tmp_path)))
    with pytest.raises(UntrustedNameError, match=r"recipe\.json of run .* was not signed by this home"):
        predict_later("models:/shop@champion", rows(9))


def test_a_hostile_name_registers_nothing_and_is_not_looked_up(shop: MlflowClient, tmp_path: Path) -> None:
    for name in ("..", "-rf", "a\nb", "a\u202eb", "", " ", ".hidden", "a/b"):
        with pytest.raises(SplitError, match="cannot name a model"):
            retrain("shop", rows(60), GOOD, registered_name=name)
        told = evenfold(tmp_path, "trust", "--yes", "--", f"{name}@1")
        assert (told.returncode, told.stderr.count("\n"), "\u202e" in told.stderr) == (2, 1, False), name


def test_changed_tags_name_no_folder(home: Home) -> None:
    from evenfold.tasks.record.splits import read_split

    tracker = Tracker(home, "splits")
    for i, (spec, split_id) in enumerate(
        [("../../evil@1.0", "a" * 64), ("fine@1.0", "../../evil"), ("x@../..", "b" * 64)]
    ):
        tags = {"evenfold.spec": spec, "evenfold.split_id": split_id, "evenfold.plan_id": f"{i:064x}"}
        tracker.client.create_run(tracker.experiment_id, tags=tags | {"evenfold.record": "split"})
        with pytest.raises(SplitError, match="there is no split"):
            read_split(f"{i:064x}", home)
    assert not (home.path / "fetched").exists()


def test_a_look_that_knows_everything_is_refused() -> None:
    """Two such looks would leave no doubt about the next, whatever it came to."""
    for number in ("Infinity", "NaN", "-1"):
        tag = f'{{"winner": "champion", "promote": false, "why": "", "metric": "r2", "information": {number}}}'
        with pytest.raises(
            SplitError, match=r"run 1f in MLflow cannot be read \(evenfold\.decision\.information: Input should be"
        ):
            Tags.of({"evenfold.decision": tag}, "run 1f")


def test_a_recipe_of_others_names_no_file_to_read(tmp_path: Path) -> None:
    (tmp_path / "model.yaml").write_text("estimator: sklearn.linear_model:Ridge")
    assert ModelSpec.of(tmp_path / "model.yaml").estimator
    theirs: Any = str(tmp_path / "model.yaml")
    with pytest.raises(TypeError, match="a str is no specification"):
        ModelSpec.of_others(theirs, ModelSpec())
