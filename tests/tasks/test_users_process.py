"""A flow is a guest in the user's process: what the user logs, asks for and sets stays the user's."""

import logging
import multiprocessing
import os
import tempfile
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from evenfold.flows import evaluate
from evenfold.flows.flow import _quiet
from evenfold.splitters import SplitError
from evenfold.tasks import Home
from evenfold.tasks.runtime.files import data_reference
from evenfold.tasks.runtime.limits import limited
from evenfold.tasks.runtime.settings import CONSOLE
from mlflow.tracking import MlflowClient
from prefect.logging.handlers import PrefectConsoleHandler
from prefect.settings import PREFECT_LOGGING_LEVEL, temporary_settings
from sklearn.linear_model import Ridge
from sklearn.tree import DecisionTreeRegressor

ROWS = pd.DataFrame({"id": range(40), "a": [float(i % 7) for i in range(40)], "y": [float(i) for i in range(40)]})
SPLIT: Any = {"key": "id", "target": "y", "strategy": "KFold", "n_splits": 2, "name": "rows", "engine": "plain"}


@pytest.fixture
def logged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Turn MLflow's autologging on, with a store of the user's; return what counts its runs."""
    import mlflow

    monkeypatch.chdir(tmp_path)
    mlflow.set_tracking_uri(f"sqlite:///{tmp_path / 'users.db'}")
    os.environ.pop("MLFLOW_TRACKING_URI")  # a home of its own
    mlflow.sklearn.autolog(log_models=False, log_datasets=False, silent=True)
    try:
        yield lambda: len(MlflowClient(f"sqlite:///{tmp_path / 'users.db'}").search_runs(["0"]))
    finally:
        mlflow.sklearn.autolog(disable=True, silent=True)
        mlflow.set_tracking_uri(None)  # type: ignore[arg-type]  # back to what the environment says


@pytest.mark.usefixtures("home")
def test_fits_of_ours_are_not_in_the_users_runs(logged: Any) -> None:
    """Neither those of folds nor of all rows; what the user fits before and afterwards is."""
    Ridge().fit(ROWS[["a"]], ROWS["y"])
    assert logged() == 1
    evaluate(ROWS, model="sklearn.linear_model:Ridge", log_models="final", **SPLIT)
    assert logged() == 1
    Ridge().fit(ROWS[["a"]], ROWS["y"])
    assert logged() == 2


def test_of_two_fits_at_once_the_first_to_end_logs_nothing_of_the_other(logged: Any) -> None:
    """Nor does it end the user's own block in which nothing is logged."""
    from mlflow.utils.autologging_utils import disable_autologging

    first, second = limited(1), limited(1)
    first.__enter__()
    second.__enter__()
    first.__exit__(None, None, None)
    DecisionTreeRegressor().fit(ROWS[["a"]], ROWS["y"])
    second.__exit__(None, None, None)
    with disable_autologging():
        with limited(1):
            pass
        DecisionTreeRegressor().fit(ROWS[["a"]], ROWS["y"])
    assert logged() == 0


@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_a_right_that_is_missing_below_the_home_is_a_sentence_or_no_hindrance() -> None:
    """In a home of several users, who keep files from one another."""

    def name() -> None:
        if os.geteuid() == 0:  # who has every right
            os.setuid(65_534)
        try:
            os._exit(Path(data_reference(ROWS, home)) != named)
        except SplitError as error:
            os._exit(2 if "cannot be written (Permission denied); set EVENFOLD_HOME" in str(error) else 3)

    def ended() -> int | None:
        process = multiprocessing.get_context("fork").Process(target=name)
        process.start()
        process.join()
        return process.exitcode

    with tempfile.TemporaryDirectory() as place:
        Path(place).chmod(0o755)
        home = Home(Path(place) / "home")
        named = Path(data_reference(ROWS, home))
        home.path.chmod(0o755)
        named.chmod(0)
        assert ended() == 0  # what reads it says that it cannot
        home.path.chmod(0)
        assert ended() == 2
        home.path.chmod(0o755)


def test_logging_is_as_it_was_after_the_last_flow(monkeypatch: pytest.MonkeyPatch) -> None:
    """Until the last of flows that overlap has ended Prefect's console is silent, but where a level is asked."""
    for name in ("PREFECT_LOGGING_LEVEL", CONSOLE):
        monkeypatch.delenv(name, raising=False)
    handler, theirs = PrefectConsoleHandler(level="INFO"), logging.StreamHandler()
    for each in (handler, theirs):
        logging.getLogger().addHandler(each)
    try:
        first, second = _quiet(), _quiet()
        first.__enter__()
        second.__enter__()
        first.__exit__(None, None, None)
        assert (handler.level, theirs.level, os.environ[CONSOLE]) == (logging.CRITICAL, logging.NOTSET, "CRITICAL")
        second.__exit__(None, None, None)
        assert handler.level == logging.INFO
        assert CONSOLE not in os.environ
        with temporary_settings({PREFECT_LOGGING_LEVEL: "DEBUG"}), _quiet():
            assert handler.level == logging.INFO
    finally:
        for each in (handler, theirs):
            logging.getLogger().removeHandler(each)
