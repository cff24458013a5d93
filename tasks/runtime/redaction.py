"""Passwords stay where they were set: what is shown, logged, recorded or kept in a file goes through here."""

from __future__ import annotations

import os
import re
from urllib.parse import unquote, urlsplit

from evenfold.splitters.deployed import SHOWN, without_secrets

# Up to the last @ of the word, for passwords that hold one unquoted; github://owner:repository@branch is no login.
_USERINFO = re.compile(r"(?<!\bgithub)(://)([^\s'\"<>]*)@")
CALLED_WITH: list[str] = []  # the words of our own command line, where this process is one


def redacted(text: str) -> str:
    """Return ``text`` with ``***`` in place of every password in it: of URIs, and of parameters named like one.

    What stands before the ``@`` of a URI without a colon is hidden whole, for it may be a token. Redacting twice
    changes nothing. O(n).
    """

    def without_password(userinfo: re.Match[str]) -> str:
        user, colon, _ = userinfo[2].partition(":")
        return f"{userinfo[1]}{user}:{SHOWN}@" if colon else f"{userinfo[1]}{SHOWN}@"

    return without_secrets(_USERINFO.sub(without_password, text))


def without_login(uri: str) -> str:
    """Return an http address without user and password, which go where MLflow looks for them: the environment.

    Its errors and logs name the address of each call. What the environment holds already is kept. Other URIs are
    returned as they are: a database's driver needs the password, and names it nowhere.
    """
    parts = urlsplit(uri)
    if parts.scheme not in ("http", "https") or parts.username is None:
        return uri
    os.environ.setdefault("MLFLOW_TRACKING_USERNAME", unquote(parts.username))
    os.environ.setdefault("MLFLOW_TRACKING_PASSWORD", unquote(parts.password or ""))
    return parts._replace(netloc=parts.netloc.rpartition("@")[2]).geturl()
