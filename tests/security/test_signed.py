"""A model is loaded only where this home, or its team, signed it as it lies there: every forgery, watched by a hook."""

import json
import os
import stat
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from evenfold.splitters import SplitError
from evenfold.tasks import Home
from evenfold.tasks.runtime.signing import is_signed, require_team_key, sign

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
