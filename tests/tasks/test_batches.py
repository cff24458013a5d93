"""A table that does not fit is parted by its folds once, and models that learn batch by batch are fitted on it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from evenfold.estimates import ModelError
from evenfold.manifests import decide
from evenfold.manifests.anywhere import joining
from evenfold.splitters import SplitError
from evenfold.tasks import Home, SplitRef, fit_batches, fit_fold, split
from evenfold.tasks.steps.running import finished, run, running

BAYES = {"estimator": "sklearn.naive_bayes:GaussianNB", "features": ["x", "z"], "metrics": ["accuracy", "roc_auc"]}


@pytest.fixture
def made(home: Home, tmp_path: Path) -> SplitRef:
    """Return a grouped split of 20,000 rows with columns that no model reads."""
    rng, n = np.random.default_rng(0), 20_000
    x, z = rng.normal(size=(2, n))
    label = np.where(x + z + rng.normal(size=n) > 0, "yes", "no")
    columns = {"id": rng.permutation(n), "g": rng.integers(0, 500, n), "y": label, "x": x, "z": z}
    columns |= {f"wide{number}": rng.random(n) for number in range(10)}
    pq.write_table(pa.table(columns), tmp_path / "rows.parquet")
    spec = {"name": "rows", "columns": {"target": "y", "group": "g", "key": "id"}}
    stored = decide(spec, tmp_path / "rows.parquet", to=home.splits)
    return SplitRef.of(stored, stored.folder, str(tmp_path / "rows.parquet"))


def test_scores_are_those_of_the_whole_table_and_are_kept(
    made: SplitRef, home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A model that batches do not change: the scores of each fold, its rows and keys; a second time is found."""
    with running("plain"):
        wanted = [run(fit_fold, made, i, BAYES) for i in range(2)]
        monkeypatch.setattr("evenfold.tasks.work.read_table", lambda *_, **__: pytest.fail("the table was read whole"))
        found = [run(fit_batches, made, i, BAYES, memory="4MB") for i in range(2)]
        monkeypatch.setattr(joining, "_fill", lambda *_: pytest.fail("the table was parted again"))
        again = finished(fit_batches, made, 1, BAYES, memory="4MB")
    assert again.cached
    for mine, theirs in zip(found, wanted, strict=True):
        assert mine.score.test == pytest.approx(theirs.score.test, abs=2e-3)
        assert (mine.score.n_train, mine.score.n_test) == (theirs.score.n_train, theirs.score.n_test)
        ours, others = (pq.read_table(each.predictions.path).to_pandas() for each in (mine, theirs))
        assert ours[["id", "y"]].equals(others[["id", "y"]])
        assert np.allclose(ours["proba_yes"], others["proba_yes"], atol=1e-3)
    assert len(list((home.shared / "parted").iterdir())) == 1


REFUSED: list[tuple[dict[str, Any], type[Exception], str]] = [
    ({"features": None}, SplitError, "name its features"),
    ({"estimator": "sklearn.linear_model:LogisticRegression"}, ModelError, r"no partial_fit.*SGDRegressor"),
    ({"balance": "undersample"}, ModelError, "does not learn batch by batch"),
    ({"weights": "wide0"}, ModelError, "weights and fit_params are not handed on"),
]


@pytest.mark.parametrize(("change", "kind", "message"), REFUSED)
def test_what_cannot_learn_so_says_what_can(
    change: dict[str, Any], kind: type[Exception], message: str, made: SplitRef
) -> None:
    """A sentence each, before anything is learnt."""
    with running("plain"), pytest.raises(kind, match=message):
        run(fit_batches, made, 0, BAYES | change)


def test_test_rows_that_do_not_fit_are_refused_with_their_size(made: SplitRef) -> None:
    """They are scored together, so they have to."""
    with running("plain"), pytest.raises(SplitError, match=r"rows of 4 columns take about .* GB"):
        run(fit_batches, made, 0, BAYES, memory="300kB")


def test_of_two_targets_in_one_split_each_has_its_own_scores(
    home: Home, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """HashSplit reads no target, so the rows are parted alike; by batches the files say nothing of the columns."""
    rng, n = np.random.default_rng(0), 8_000
    features = [f"f{i}" for i in range(20)]
    columns = {"id": np.arange(n), **dict(zip(features, rng.normal(size=(20, n)), strict=True))}
    columns |= {"y": columns["f0"] + 0.1 * rng.normal(size=n), "noise": rng.normal(size=n)}
    path = str(tmp_path / "rows.parquet")
    pq.write_table(pa.table(columns), path)
    learns = {"estimator": "sklearn.linear_model:SGDRegressor", "features": features, "metrics": ["r2"]}
    made = [split.fn(path, key="id", target=y, strategy="HashSplit", n_splits=5, name=y) for y in ("y", "noise")]
    assert made[0].split_id == made[1].split_id
    monkeypatch.setenv("EVENFOLD_MEMORY", "1.6MB")
    for fit in (fit_fold, fit_batches):
        with running("plain"):
            known, other = (finished(fit, each, 0, learns) for each in made)
        assert not other.cached
        assert known.value.score.test["r2"] > 0.9 > 0.1 > other.value.score.test["r2"]


def test_what_is_kept_of_batches_depends_on_what_other_fits_depend_on(
    made: SplitRef, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As on the version of our own fit code, among others: see ``score_key``."""
    with running("plain"):
        run(fit_batches, made, 0, BAYES)
        monkeypatch.setattr("evenfold.estimates.models.keys.FIT_VERSION", "another")
        assert not finished(fit_batches, made, 0, BAYES).cached
    with running("plain"), pytest.raises(ModelError, match="no estimator is named; choose one"):
        run(fit_batches, made, 0, {"features": ["x"]})
