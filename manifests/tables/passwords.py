"""Names of secrets, and addresses that hold one: whoever is told where data lies would be told it."""

from __future__ import annotations

import re
from urllib.parse import unquote

from evenfold.splitters import SplitError

# Names of parameters, by what they hold anywhere (X-Amz-Signature, aws_secret_access_key), or whole (Azure's sig). That
# a name is one is asked first: a long text without any is gone through once.
_PARTS = "password|passwd|pwd|token|secret|signature|credential|api[_-]?key|access[_-]?key"
_NAME = rf"(?<![\w.-])(?=[\w.-]+=)(?:[\w.-]*(?:{_PARTS})[\w.-]*|sig)"
_NAMED = re.compile(rf"(?i)({_NAME}=)([^\s'\"&<>]+)")
_IN_QUERY = re.compile(rf"(?i)[?&;#]({_NAME})=[^&;#]")
SHOWN = "***"
# github://owner:repository@branch is no login, nor abfs://container@account; https://token@host is one.
_LOGIN = re.compile(r"(?i)([\w+.-]*)(?<!\bgithub)://(?:[^/@]*:[^/]*|(?<=\bhttp://)[^/?#]+|(?<=\bhttps://)[^/?#]+)@")


def without_secrets(text: str) -> str:
    """Return ``text`` with ``***`` in place of what every parameter holds that is called like a secret. O(n)."""
    return _NAMED.sub(rf"\1{SHOWN}", text)


def require_no_password(address: str) -> None:
    """Raise SplitError for an address with a password, or with a secret among its parameters."""
    without = _LOGIN.sub(r"\1://", address)  # first: a password may hold a question mark
    plain = re.split("[?#]", without, maxsplit=1)[0]
    if login := _LOGIN.search(address):
        kind, what, protocol, written = "password", "login", login[1], "JSON"
    elif secret := _IN_QUERY.search(unquote(address[len(plain) :])):
        kind, what = "secret", secret[1]
        protocol = re.findall(r"([\w+.-]*)://", plain if "://" in plain else address)[-1]
        written = f'JSON ({{"params": {{"{what}": "..."}}}})' if protocol in ("http", "https") else "JSON"
    else:
        return
    raise SplitError(
        f"{plain} is given with a {kind}, which every result and record would keep; leave "
        f"the {what} out of the address, and give it as fsspec's file system takes it: as {written} in the "
        f"environment's FSSPEC_{protocol.upper()}, or in a file in ~/.config/fsspec."
    )
