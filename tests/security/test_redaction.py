"""A password in a URI is shown nowhere: not in logs, results, locks, errors or doctor."""

import json
import logging
import os
import re
from pathlib import Path
from urllib.parse import quote

import fsspec
import numpy as np
import pandas as pd
import pytest
from commands import evenfold
from evenfold.estimates import EvaluationError
from evenfold.manifests.tables.read import opened
from evenfold.splitters.errors import SplitError, redacted
from evenfold.tasks import Home
from evenfold.tasks.runtime.home import without_login
from hypothesis import example, given, strategies as st
from servers import file_server, free_port

SECRET = "SECRETPW99"
schemes = st.sampled_from(["http", "https", "postgresql", "postgresql+asyncpg", "mysql", "s3", "redis", "mongodb+srv"])
words = st.text("abcdefghijklmnopqrstuvwxyz-_.", min_size=1, max_size=12)
# Digits and capitals only, so that a password cannot stand in the rest of the sentence by chance.
passwords = st.text("ABCDEFGHIJKLMNOP0123456789", min_size=6, max_size=20)
marks = st.text("!$%^*()/?#[]{}|~`,;:@+=&\\", max_size=3)


@given(schemes, words, passwords, marks, words, st.sampled_from(["{}", "see {} there", "'{}'", "({})", "{}, {}"]))
@example("postgresql", "user", "PASSWORD", "@/:", "host", "{}")
def test_no_password_is_left(scheme: str, user: str, password: str, mark: str, host: str, sentence: str) -> None:
    """Quoted or not, with whatever marks in it, anywhere in a sentence; user and host stay readable."""
    for written in (password + mark, mark + password, quote(password + mark, safe="")):
        told = redacted(sentence.replace("{}", f"{scheme}://{user}:{written}@{host}:5432/name"))
        assert password not in told
        assert f"{scheme}://{user}:***@{host}:5432/name" in told
        assert redacted(told) == told


NAMES = ["password", "PGPASSWORD", "api_token", "aws_secret_access_key", "sslpassword", "sig", "apikey", "api_key"]


@given(passwords, st.sampled_from([*NAMES, "access_key", "X-Amz-Signature", "X-Amz-Credential"]))
def test_no_named_secret_is_left(password: str, name: str) -> None:
    """Parameters of an address, a connection's text or the environment that are called like a secret."""
    for text in ("https://host/path?{}&a=1", "host=h {} dbname=d", "{}"):
        told = redacted(text.format(f"{name}={password}"))
        assert password not in told
        assert f"{name}=***" in told


@given(st.text())
def test_what_holds_no_secret_is_left_as_it_is(text: str) -> None:
    if "://" not in text and "=" not in text:
        assert redacted(text) == text


def test_addresses_without_a_login_stay_readable() -> None:
    """A long text that names secrets without any is gone through once: a million letters took half an hour."""
    for text in (
        *("models:/flights@champion", "http://127.0.0.1:5000", "sqlite:////home/me/mlflow.db", "a@b.example"),
        *("s3://b/f", "s3://b/f.parquet?versionId=1&design=1&assignment=2", "token" * 200_000),
    ):
        assert redacted(text) == text


def test_the_login_goes_where_mlflow_looks_for_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """User and password of an http address move to the environment, which wins where it holds them already."""
    for name in ("MLFLOW_TRACKING_USERNAME", "MLFLOW_TRACKING_PASSWORD"):
        monkeypatch.delenv(name, raising=False)
    assert without_login("https://ada:p%40ss@host:5000/p?q=1") == "https://host:5000/p?q=1"
    assert (os.environ["MLFLOW_TRACKING_USERNAME"], os.environ["MLFLOW_TRACKING_PASSWORD"]) == ("ada", "p@ss")
    assert without_login("https://eve:other@host") == "https://host"
    assert os.environ["MLFLOW_TRACKING_USERNAME"] == "ada"
    assert without_login("postgresql://ada:p@host/db") == "postgresql://ada:p@host/db"


def test_an_outage_shows_no_password(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """A server with a password in its address is down: no file, log line or sentence holds it."""
    from evenfold import flows

    for name in ("MLFLOW_TRACKING_USERNAME", "MLFLOW_TRACKING_PASSWORD"):
        monkeypatch.setenv(name, "")  # taken back at the end, when without_login has set it
        monkeypatch.delenv(name)
    monkeypatch.setenv("MLFLOW_TRACKING_URI", f"http://admin:{SECRET}@127.0.0.1:{free_port()}")
    monkeypatch.setenv("EVENFOLD_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "0")
    monkeypatch.setattr("evenfold.tasks.runtime.progress.SOON_SECONDS", (0.1,))
    caplog.set_level(logging.DEBUG)
    rows = pd.DataFrame({"id": range(60), "a": np.arange(60) % 7, "y": np.arange(60) % 5 + 0.5})
    spec = {"name": "rows", "columns": {"key": ["id"], "target": "y"}, "strategy": "KFold"}
    with pytest.raises(EvaluationError, match="out of reach") as told:
        flows.evaluate(rows, engine="plain", spec=spec, model={"estimator": "sklearn.linear_model:Ridge"})
    home = Home.here()
    kept = [path for path in home.path.rglob("*") if path.is_file()]
    assert [str(path) for path in kept if SECRET.encode() in path.read_bytes()] == []
    assert SECRET not in str(told.value) + caplog.text
    assert f"{home.path.stat().st_mode & 0o777:o}" == "700"


def test_an_address_of_data_holds_no_password_that_is_kept(home: Home, tmp_path: Path) -> None:
    """It is refused before anything is read, with the way to give it; a token in one is not told to the record."""
    from evenfold.tasks.record.splits import data_input

    from evenfold import flows

    spec = {"name": "rows", "columns": {"key": ["id"]}, "strategy": "KFold"}
    with pytest.raises(SplitError, match=r"^http://127\.0\.0\.1:9/.* with a password.* FSSPEC_HTTP,") as refused:
        flows.split(f"http://ada:{SECRET}@127.0.0.1:9/rows.parquet", spec, engine="plain")
    assert SECRET not in str(refused.value)
    pd.DataFrame({"id": range(60)}).to_parquet(tmp_path / "rows.parquet")
    ref = flows.split(tmp_path / "rows.parquet", spec, engine="plain").split
    (tmp_path / f"token={SECRET}").mkdir()
    elsewhere = (tmp_path / "rows.parquet").rename(tmp_path / f"token={SECRET}" / "rows.parquet")
    told = data_input(ref.model_copy(update={"data": f"file://{elsewhere}"}), "0" * 64, "training").dataset
    assert SECRET not in told.source + told.name
    assert "token=***" in told.source
    assert [path for path in home.path.rglob("*") if path.is_file() and SECRET.encode() in path.read_bytes()] == []


HERE = "https://127.0.0.1:9/a.pq"
REFUSED = [
    *((f"{HERE}?a=1&{name}={{}}", HERE, "secret", "HTTPS") for name in ("token", "sig", "X-Amz-Credential", "apikey")),
    (f"{HERE}?X%2DAmz%2DSignature={{}}", HERE, "secret", "HTTPS"),
    (f"{HERE}?a=1;TOKEN={{}}", HERE, r'secret.* as JSON \({"params": {"TOKEN": "..."}}\) in', "HTTPS"),
    (f"{HERE}#token={{}}", HERE, "secret", "HTTPS"),
    ("https://ada:pa?{}@127.0.0.1:9/a.pq", HERE, "password", "HTTPS"),
    ("https://ada:{}?pa@127.0.0.1:9/a.pq?token={}", HERE, "password", "HTTPS"),
    ("https://{}@127.0.0.1:9/a.pq", HERE, "password", "HTTPS"),
    ("simplecache::ftp://ada:{}@127.0.0.1:9/a", "simplecache::ftp://127.0.0.1:9/a", "password", "FTP"),
    ("zip://a.pq::abfs://rows/a.zip?sig={}", "zip://a.pq::abfs://rows/a.zip", "secret", "ABFS"),
    ("rows?token={}&from=http://a", "rows", "secret", "HTTP"),
]


@pytest.mark.parametrize(("address", "shown", "kind", "protocol"), REFUSED)
def test_a_secret_in_an_address_is_refused_however_it_is_written(
    address: str, shown: str, kind: str, protocol: str
) -> None:
    """Before anything is asked for, by whoever reads it; where the file system takes it is said, and none is shown."""
    with pytest.raises(SplitError, match=rf"^{re.escape(shown)} is given with a {kind}.* FSSPEC_{protocol},") as told:
        opened(address.replace("{}", SECRET))
    assert SECRET not in str(told.value)


def test_a_secret_that_the_file_system_was_given_is_kept_nowhere(
    home: Home, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As the refusal advises: rows behind it are split and recorded, and an error shows none."""
    from evenfold import flows

    pd.DataFrame({"id": range(60)}).to_parquet(tmp_path / "rows.parquet")
    spec = {"name": "rows", "columns": {"key": ["id"]}, "strategy": "KFold"}
    with file_server(tmp_path, f"token={SECRET}") as host:
        monkeypatch.setitem(fsspec.config.conf, "http", {"params": {"token": SECRET}})
        assert flows.split(f"simplecache::{host}/rows.parquet", spec, engine="plain").split.n_rows == 60
        monkeypatch.setitem(fsspec.config.conf, "http", {"params": {"token": f"{SECRET}0"}})
        with pytest.raises(SplitError, match=r"cannot be read .*token=\*\*\*"):
            flows.split(f"{host}/rows.parquet", spec, engine="plain")
    assert [path for path in home.path.rglob("*") if path.is_file() and SECRET.encode() in path.read_bytes()] == []


def test_a_repository_on_github_is_no_login(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HTTPS_PROXY", "http://127.0.0.1:9")
    for address in ("github://apache:arrow-testing@main/rows.parquet", "simplecache::github://apache:arrow@main/a.pq"):
        assert redacted(address) == address
        with pytest.raises(SplitError, match=r"cannot be read .*(127\.0\.0\.1|proxy)"):
            opened(address)
    assert redacted(f"github://a:b@c,ftp://ada:{SECRET}@host") == "github://a:b@c,ftp://ada:***@host"


@pytest.mark.parametrize(
    "store", [f"http://admin:{SECRET}@127.0.0.1:9", f"postgresql://admin:{SECRET}@127.0.0.1:9/mlflow"]
)
def test_doctor_and_errors_show_no_password(store: str, tmp_path: Path) -> None:
    environment = {
        "EVENFOLD_HOME": str(tmp_path / "home"),
        "MLFLOW_HTTP_REQUEST_MAX_RETRIES": "0",
        "MLFLOW_TRACKING_URI": store,
        "PREFECT_API_URL": f"http://admin:{SECRET}@127.0.0.1:9/api",
    }
    done = evenfold(tmp_path, "doctor", "--json", **environment)
    told = {finding["check"]: finding["ok"] for finding in json.loads(done.stdout)}
    assert not told["Prefect server"]
    assert False in [ok for check, ok in told.items() if "MLflow" in check]
    assert SECRET not in done.stdout + done.stderr
