"""Whatever names a split is taken wherever one is asked for: the thing itself, what came of it, a name, a path."""

from collections.abc import Callable
from itertools import cycle
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from evenfold.manifests import StoredManifest, decide, read_manifest
from evenfold.tasks import Home
from tables import rows

import evenfold
from evenfold import flows, manifests, tasks

ASKED: Any = {"key": "id", "target": "y", "strategy": "KFold", "n_splits": 3}
RIDGE = {"estimator": "sklearn.linear_model:Ridge", "metrics": ["r2"]}
FORMS: dict[str, Callable[[Any], Any]] = {
    "outcome": lambda made: made,
    "reference": lambda made: made.split,
    "name": lambda _: "shop",
    "version": lambda _: "shop@1.0",
    "short id": lambda made: made.split.split_id[:12],
    "folder": lambda made: Path(made.split.uri),
    "path": lambda made: made.split.uri,
    "stored": lambda made: StoredManifest(made.split.uri),
    "read": lambda made: read_manifest(made.split.uri),
    "decided": lambda _: decide({"name": "shop"}, rows(60), **ASKED),
}
VERBS: dict[str, Callable[[Any], str]] = {
    "as_cv": lambda it: manifests.as_cv(it, rows(60)).manifest.split_id,
    "measure": lambda it: evenfold.measure(it, rows(60)).split_id,
    "audit": lambda it: evenfold.audit(it, rows(60)).split_id,
    "extend": lambda it: manifests.extend(it, rows(60)).manifest.split_id,
    "diff": lambda it: "" if manifests.diff(it, "shop").n_moved else manifests.diff("shop", it).a[-13:-1],
    "join": lambda it: "" if manifests.join_rows(it, rows(60), 0, "test").num_rows != 20 else "shop",
    "evaluate": lambda it: flows.evaluate(rows(60), model=RIDGE, manifest=it, engine="plain").split.split_id,
    "task": lambda it: tasks.load_split.fn(it).split_id,
    "load_split": lambda it: flows.load_split(it).split_id,
    "verify": lambda it: evenfold.verify(it).intact * "shop",
}


@pytest.fixture(scope="module")
def made(_module_home: Home) -> Any:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("EVENFOLD_HOME", str(_module_home.path))
        return flows.split(rows(60), name="shop", engine="plain", **ASKED)


def test_a_split_is_asked_for_in_every_form(made: Any, shared_home: Home) -> None:
    """Every verb takes the outcome, and one verb after the other each further form."""
    for verb, form in [*((verb, "outcome") for verb in VERBS), *zip(cycle(VERBS), FORMS, strict=False)]:
        answer = VERBS[verb](FORMS[form](made))
        assert answer, (verb, form)
        assert answer == "shop" or made.split.split_id.startswith(answer), (verb, form)


def test_another_decision_of_a_name_is_kept_beside_it(made: Any, shared_home: Home) -> None:
    """A manifest that was only in memory is written where the flow that takes it finds it, and once."""
    other = decide(rows(60), name="shop", seed=7, **ASKED)
    for _ in range(2):
        found = flows.evaluate(rows(60), model=RIDGE, manifest=other, engine="plain").split
        assert (found.split_id, found.version) == (other.split_id, "2.0")


@pytest.mark.parametrize("spec", [{}, {"strategy": "Bootstrap", "n_splits": 3}], ids=["labels", "draws"])
def test_the_known_rows_of_a_part_or_of_more_are_taken_on_request_and_counted(spec: dict[str, Any]) -> None:
    manifest = decide(rows(60), **ASKED | spec)
    some = rows(60).iloc[::2]
    table = pd.concat([some, some.assign(id=some["id"] + 10_000)])
    with pytest.raises(evenfold.EvenfoldError, match=r"30 rows have no fold .* and 30 rows of the manifest are not in"):
        manifest.as_cv(table)
    with pytest.warns(UserWarning, match="30 rows have no fold .* and 30 rows of the .*; left out"):
        pairs = list(manifest.as_cv(table, rows="known").split())
    whole = rows(60)["id"].to_numpy()
    for known, every in zip(pairs, manifest.as_cv(rows(60)).split(), strict=True):
        for side, all_of_it in zip(known, every, strict=True):
            ids = whole[all_of_it]
            assert table["id"].to_numpy()[side].tolist() == ids[np.isin(ids, some["id"])].tolist()
    if not spec:
        with pytest.warns(UserWarning, match="left out"):
            folds = manifest.fold_of(table, rows="known")
        assert folds.tolist() == [*manifest.fold_of(rows(60))[::2], *[-3] * 30]


def test_what_is_split_is_said_by_flat_keywords_too() -> None:
    spec = {"columns": {"key": "id", "target": "y"}, "strategy": "KFold", "params": {"n_splits": 3}}
    ids = {decide(spec, rows(60)).split_id, decide(rows(60), spec).split_id, decide(rows(60), **ASKED).split_id}
    assert len(ids) == 1
    with pytest.raises(evenfold.EvenfoldError, match=r"^a Series is no specification; name columns, target='y'"):
        flows.evaluate(rows(60), rows(60)["y"])
