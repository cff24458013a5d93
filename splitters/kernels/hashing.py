"""Hashes of keys, alike in every language and engine; canonical JSON and its digest, alike on every machine."""

from __future__ import annotations

import hashlib
import json
from hashlib import sha256
from typing import Any

import numpy as np
from evenfold.splitters.errors import SplitError
from numpy.typing import NDArray


def hashed(key: NDArray[Any], salt: str) -> NDArray[np.uint64]:
    """Return the first 64 bits of SHA-256(salt + "|" + key) for each key.

    Integers are hashed as their decimal digits, text as its UTF-8 bytes as they are. Other keys have no text that
    every engine agrees on and are a SplitError. O(n), about a microsecond a key.
    """
    values = key.tolist()
    unfit = (
        next((value for value in values if type(value) not in (str, int)), None) if key.dtype.kind not in "iu" else None
    )
    if unfit is not None:
        raise SplitError(
            f"key holds {unfit!r} ({type(unfit).__name__}); pass integers or text, which hash alike anywhere."
        )
    digests = (sha256(f"{salt}|{value}".encode()).digest()[:8] for value in values)
    return np.frombuffer(b"".join(digests), dtype=">u8").astype(np.uint64)


def scaled(words: NDArray[np.uint64], bound: int) -> NDArray[np.int64]:
    """Return floor(u x bound) for u = (the first 52 bits of each word) / 2**52, exactly, for any bound below 2**31."""
    # Two halves of 26 bits: times a bound below 2**31 each stays below 2**57, where 52 bits at once would overflow.
    high, low = words >> np.uint64(38), words >> np.uint64(12) & np.uint64(2**26 - 1)
    factor = np.uint64(bound)
    return ((high * factor + (low * factor >> np.uint64(26))) >> np.uint64(26)).view(np.int64)


_MIX_1, _MIX_2, _STEP = np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB), 0x9E3779B97F4A7C15


def mixed(words: NDArray[np.uint64], turn: int) -> NDArray[np.uint64]:
    """Return number ``turn`` of the sequence that each word starts: splitmix64, in integers modulo 2**64.

    Number 0 follows one step after the word itself. Source: Steele, Lea and Flood (2014), Fast splittable
    pseudorandom number generators.
    """
    state = words + np.uint64((turn + 1) * _STEP & 0xFFFFFFFFFFFFFFFF)
    state ^= state >> np.uint64(30)
    state *= _MIX_1
    state ^= state >> np.uint64(27)
    state *= _MIX_2
    state ^= state >> np.uint64(31)
    return state


def combined(columns: NDArray[np.int64]) -> NDArray[np.uint64]:
    """Return one 64-bit code per place of ``columns`` (columns, places): equal places have equal codes.

    Places that differ nearly always have different ones: the sum of column j times an odd number to the power j + 1,
    modulo 2**64. O(columns x places).
    """
    # Powers of an odd number are odd and can be undone: places that differ in one column alone never share a code.
    powers = np.array([pow(_STEP, j + 1, 2**64) for j in range(columns.shape[0])], dtype=np.uint64)
    return np.asarray(np.einsum("j,jp->p", powers, columns.view(np.uint64)))


def canonical_json(value: Any) -> str:
    """Return JSON with sorted keys and no spaces: the same text for the same value everywhere."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False, default=_plain)


def _plain(value: Any) -> Any:
    if isinstance(value, (np.generic, np.ndarray)):
        return value.tolist()
    raise TypeError(f"{type(value).__name__} has no canonical JSON")


def digest_json(value: Any) -> str:
    """Return the SHA-256 of the canonical JSON of ``value``, as 64 hex digits."""
    return hashlib.sha256(canonical_json(value).encode()).hexdigest()
