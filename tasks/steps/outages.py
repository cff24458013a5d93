"""When an error is an outage: what it asks for may answer later, and nobody's request is to blame."""

from __future__ import annotations


def unreachable(error: BaseException | None) -> bool:
    """Return whether an error comes from a server or store that could not be reached, is overloaded, or failed."""
    while error is not None:
        kinds = {(kind.__module__.partition(".")[0], kind.__name__) for kind in type(error).__mro__}
        client = type(error).__module__.partition(".")[0] in _CLIENTS
        busy = "database is locked" in str(error)  # as SQLite says of a store that another process holds
        if client or busy or isinstance(error, ConnectionError) or kinds & _ERRORS:
            return True
        answer = getattr(error, "response", None)
        if ("httpx", "HTTPStatusError") in kinds and answer is not None and answer.status_code >= 500:
            return True  # as Prefect answers while its database is away
        error = error.__cause__ or error.__context__
    return False


_CLIENTS = ("requests", "urllib3", "http")
_ERRORS = {("httpx", "TransportError"), ("botocore", "HTTPClientError"), ("aiohttp", "ClientConnectionError")}
