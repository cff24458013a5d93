"""Preimages of the keys of results, kept beside them: a miss says what differs, and in how many rows."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, Literal

from evenfold.manifests import digest_json
from evenfold.manifests.tables.sketch import Sketch
from evenfold.tasks.outcomes import Outcome
from pydantic import Field


class Marks(Sketch, Outcome):
    """The sketch of the columns that results were made of, as it is kept."""


class Preimage(Outcome):
    """The preimage of the keys of results of one ``kind`` for a split: ``parts``, with what each column holds, as JSON.

    ``seconds``: of such a fit of ``n_train`` rows and its scores. ``marks`` makes what counts changed rows later.
    """

    kind: Literal["split", "fits", "audit", "record"]
    name: str
    parts: dict[str, Any]
    seconds: float = 0.0
    n_train: int = 1
    marks: Callable[[], Marks] | None = Field(default=None, exclude=True, repr=False)

    @property
    def folder(self) -> str:
        """Return the folder of its kind and name; frames that nobody named are named by their content."""
        return f"asked/{self.kind}/{'frame' if re.fullmatch('table-[0-9a-f]{8}', self.name) else self.name}"

    @property
    def key(self) -> str:
        """Return its own path."""
        return f"{self.folder}/{digest_json(self.parts)[:32]}"

    @property
    def key_of_marks(self) -> str:
        """Return where the marks of its columns are kept."""
        return f"marks/{digest_json({name: self.parts[name] for name in ('rows', 'columns')})[:32]}"
