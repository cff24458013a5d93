"""A model of one's own project: its code is part of what was evaluated, and a changed one is another run."""

from pathlib import Path

import numpy as np
import pytest
from evenfold.flows import GateError
from evenfold.flows.later import score_later
from evenfold.tasks import Home
from own_code import SHOP, edit, write
from sklearn.linear_model import Ridge
from sklearn.metrics import r2_score
from small import champion, evaluated, named, retrain, small

MODEL = {"estimator": "shop.model:make", "metrics": ["r2"], "features": ["a", "b"]}


@pytest.fixture
def shop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.syspath_prepend(tmp_path)
    write(tmp_path, SHOP)
    small().to_parquet(tmp_path / "small.parquet")
    return tmp_path


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
