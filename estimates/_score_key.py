"""The name under which a score is kept: it changes exactly when the score could."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

import sklearn
from evenfold.splitters import distribution_of, import_named

from ._errors import ModelError
from ._fit import FIT_VERSION
from .model_spec import ModelSpec


def score_key(
    model: ModelSpec,
    *,
    membership: str,
    fingerprint: str,
    seed: int,
    metrics: Sequence[str] | None = None,
    inner: Mapping[str, Any] | None = None,
) -> str:
    """Return the SHA-256, in hexadecimal, of everything that a score of one split or block depends on.

    ``membership``: the digest of this split's or block's rows. ``fingerprint``: of the values of
    ``Problem.columns_read`` in key order. ``model``: a completed specification (``Problem.model``); its metrics count
    unless ``metrics`` says others. ``inner``: the inner strategy as JSON, where one is passed to ``fit_and_score``;
    validation rows belong to the membership. Added are the versions of scikit-learn, of the estimator's distribution
    and of our own fit code.
    """
    if model.estimator is None:
        raise ModelError("the model names no estimator yet; use Problem.model, which is complete.")
    more = {} if inner is None else {"inner": dict(inner)}
    return digest(
        {
            **more,
            "membership": membership,
            "fingerprint": fingerprint,
            "model": model.canonical() | {"metrics": list(model.metrics if metrics is None else metrics)},
            "seed": int(seed),
            "scikit-learn": sklearn.__version__,
            "estimator": _distribution(model.estimator),
            "fit": FIT_VERSION,
        }
    )


@cache
def _distribution(path: str) -> str:
    # Reading every installed package's files takes tenths of a second, and there is a key per fold.
    return distribution_of(import_named(path))


def digest(value: dict[str, Any]) -> str:
    """Return the SHA-256 of a value's canonical JSON (sorted keys, no spaces, UTF-8)."""
    text = json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
    return hashlib.sha256(text.encode("utf-8")).hexdigest()
