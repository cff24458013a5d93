"""Signatures: what this home, or its team, has made is known again wherever it lay meanwhile, and loaded only then.

A file of a model can run anything when it is loaded, whatever the types are called that it names. So nothing of it is
looked at before a keyed digest (HMAC-SHA256) of its bytes, and of what they are said to be, was found right.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import os
import secrets
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from evenfold.manifests.tables.aside import read_plain, write_aside
from evenfold.splitters.errors import SplitError, is_deployed

from .home import Home, Settings, locked

SHORTEST = 32
NEW_KEY = 'python -c "import secrets; print(secrets.token_hex(32))"'


def sign(kind: str, claim: Mapping[str, Any]) -> str:
    """Return the signature of a ``claim``, plain JSON, of one ``kind``: by the team's key, or this home's own.

    Raises SplitError in a deployed run among shared results that has no team's key: nobody else could check it.
    """
    require_team_key()
    return _signature(_team_key() or _own_key(Home.here(), make=True), kind, claim)


def is_signed(kind: str, claim: Mapping[str, Any], signatures: Iterable[object]) -> bool:
    """Return whether one of ``signatures`` is the team's, or this home's, of exactly this claim."""
    keys = [key for key in (_team_key(), _own_key(Home.here())) if key]
    right = [_signature(key, kind, claim).encode() for key in keys]
    held = [each.encode() for each in signatures if isinstance(each, str)]
    return any(hmac.compare_digest(one, other) for one in right for other in held)


def require_team_key() -> None:
    """Raise SplitError where runs that nobody watches share their results and have no key in common to sign them."""
    shared = Settings.here().results
    if is_deployed() and shared and not _team_key():
        raise SplitError(
            f"results are shared (EVENFOLD_RESULTS), and a model among them is loaded only if it was signed; set "
            f"EVENFOLD_SIGNING_KEY to one secret text wherever they are used, such as {NEW_KEY} prints."
        )


def _signature(key: bytes, kind: str, claim: Mapping[str, Any]) -> str:
    text = json.dumps([f"evenfold {kind}", claim], sort_keys=True)
    return hmac.new(key, text.encode(), hashlib.sha256).hexdigest()


def _team_key() -> bytes | None:
    secret = Settings.here().signing_key
    key = secret.get_secret_value().strip().encode() if secret else b""
    if 0 < len(key) < SHORTEST:
        raise SplitError(
            f"EVENFOLD_SIGNING_KEY has {len(key)} characters, which can be guessed from what it signed; take "
            f"{SHORTEST} or more, such as {NEW_KEY} prints."
        )
    return key or None


def _own_key(home: Home, make: bool = False) -> bytes:
    """Return the key of a home, made once if need be; empty where there is none yet. Only its owner may read it."""
    path = home.path / "signing.key"
    if make and not path.exists():
        home.make()
        with locked(home.locks, f"signing key/{home.path}"):
            if not path.exists():
                write_aside(path, _write_key)
    try:
        key = read_plain(path, private=True).strip()
        if len(key) < SHORTEST:
            raise OSError(0, "it is cut short")
    except FileNotFoundError:
        return b""
    except OSError as error:
        raise SplitError(
            f"the signing key {path} cannot be used ({error.strerror}); put that right, set EVENFOLD_SIGNING_KEY, or "
            "remove it and sign again what you trust (evenfold trust NAME@VERSION)."
        ) from None
    return key


def _write_key(aside: Path) -> None:
    with os.fdopen(os.open(aside, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
        file.write(secrets.token_hex(32))
