"""A champion whose recipe is a function of one's own project, at the terminal of that project."""

from pathlib import Path

import pytest
from evenfold.flows.later import predict_later, score_later
from evenfold.splitters import UntrustedNameError
from evenfold.tasks import Home
from small import GOOD, champion, retrain
from tables import rows

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
    retrain("own", rows(120), {"estimator": "own_shop:pipeline", "metrics": ["r2"]})
    later = rows(160)[120:]
    assert len(predict_later("models:/own@champion", later)) == 40
    assert score_later("models:/own/1", later).rows == 40
    assert retrain("own", rows(150), GOOD).judged.rows == 30
    monkeypatch.setenv("EVENFOLD_CLOSED", "1")
    with pytest.raises(UntrustedNameError, match="'own_shop:pipeline' may not be imported for a deployed run"):
        predict_later("models:/own/1", later)
    monkeypatch.delenv("EVENFOLD_CLOSED")
    (home.path / "signing.key").unlink()
    with pytest.raises(UntrustedNameError, match="version 1 of own in MLflow was not signed by this home"):
        predict_later("models:/own/1", later)
    assert champion(home, "own") in "12"
