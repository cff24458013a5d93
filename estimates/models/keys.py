"""The key of a score: everything that it depends on, so that a cache misses exactly when it should."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import sklearn
from evenfold.estimates.errors import ModelError
from evenfold.splitters.importing import FUNCTION, distribution_of, resolve
from evenfold.splitters.numbers import digest_json

from .fit import FIT_VERSION
from .spec import ModelSpec


def score_key(model: ModelSpec, *, membership: str, fingerprint: str, **others: Any) -> str:
    """Return the hexadecimal SHA-256 of ``score_parts`` and the digests of the rows and of their values."""
    return digest_json({**score_parts(model, **others), "membership": membership, "fingerprint": fingerprint})


def score_parts(
    model: ModelSpec,
    *,
    seed: int,
    metrics: Sequence[str] | None = None,
    inner: Mapping[str, Any] | None = None,
    code: Mapping[str, str] | None = None,
) -> dict[str, object]:
    """Return all that a score depends on but for the rows and their values.

    ``model``: a completed specification (``Problem.model``). ``metrics``: by default the model's. ``inner``: the
    inner strategy as JSON. ``code``: the user's, by default as it is now. Added are the versions of scikit-learn,
    of the estimator's distribution and of our own fit code.
    """
    if model.estimator is None:
        raise ModelError("the model names no estimator yet; use Problem.model, which is complete.")
    more = {} if inner is None else {"inner": dict(inner)}
    paths = [*model.import_paths, *model.metric_paths]
    own = model.code if code is None else code
    more |= {"code": dict(own)} if own else {}  # what names libraries alone keeps the key that it had
    return {
        **more,
        "model": model.canonical() | {"metrics": list(model.metrics if metrics is None else metrics)},
        "seed": int(seed),
        "scikit-learn": sklearn.__version__,
        "estimator": ", ".join(dict.fromkeys(distribution_of(resolve(path, FUNCTION)) for path in paths)),
        "fit": FIT_VERSION,
    }
