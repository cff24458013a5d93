"""What is called like a secret, and addresses that hold one: whoever is told where data lies would be told it."""

from __future__ import annotations

import re

from evenfold.splitters import SplitError

# Names of parameters, by what they hold anywhere (X-Amz-Signature, aws_secret_access_key), or whole (Azure's sig).
_PARTS = "password|passwd|pwd|token|secret|signature|credential|api[_-]?key|access[_-]?key"
_NAME = rf"(?<![\w.-])(?:[\w.-]*(?:{_PARTS})[\w.-]*|sig)"
_NAMED = re.compile(rf"(?i)({_NAME}=)([^\s'\"&<>]+)")
_IN_QUERY = re.compile(rf"(?i)[?&]({_NAME})=[^&]")
SHOWN = "***"
# github://owner:repository@branch is no login.
_LOGIN = re.compile(r"([\w+.-]*)(?<!\bgithub)://[^/@]*:[^/]*@")


def without_secrets(text: str) -> str:
    """Return ``text`` with ``***`` in place of what every parameter holds that is called like a secret."""
    return _NAMED.sub(rf"\1{SHOWN}", text)


def require_no_password(address: str) -> None:
    """Raise SplitError for an address with a password, or with a secret among its parameters."""
    place, mark, query = address.partition("?")
    if login := _LOGIN.search(address):
        shown, kind, what = _LOGIN.sub(r"\1://", place), "password", "login"
        protocol, written = login[1], "JSON"
    elif named := _IN_QUERY.search(mark + query):
        shown, kind, what = place, "secret", named[1]
        protocol = re.findall(r"([\w+.-]*)://", place)[-1]
        written = f'JSON ({{"params": {{"{what}": "..."}}}})' if protocol in ("http", "https") else "JSON"
    else:
        return
    raise SplitError(
        f"{shown} is given with a {kind}, which every result and record would keep; leave "
        f"the {what} out of the address, and give it as fsspec's file system takes it: as {written} in the "
        f"environment's FSSPEC_{protocol.upper()}, or in a file in ~/.config/fsspec."
    )
