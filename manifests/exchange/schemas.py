"""The JSON Schemas of what others read and write: a specification, the header of a manifest, and an audit."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from evenfold.manifests.audits.findings import Audit
from evenfold.manifests.spec import SplitSpec
from evenfold.manifests.store.header import SCHEMA
from evenfold.manifests.strict import Strict
from evenfold.manifests.tables.canonical import ColumnType
from pydantic import BaseModel, Field

Digest = Annotated[str, Field(pattern="^[0-9a-f]{64}$", description="SHA-256 in lower-case hexadecimal.")]
Count = Annotated[int, Field(ge=0)]
VERSION = SCHEMA.rpartition("/")[2]


class Algorithm(Strict):
    """What decided: the same name and version decide the same folds."""

    name: str
    version: int | str
    locking: int | None = Field(default=None, description="Version of what locked whole groups before the strategy.")
    classes: int | None = Field(default=None, description="Version of what took whole floats for classes.")
    growing: int | None = Field(default=None, description="Version of what placed the rows that joined later.")
    portable: bool = Field(description="Whether every machine and every library version decides the same.")


class Part(Strict):
    """A named part: the code of its rows, and the share of all rows that was asked for."""

    name: str
    code: int
    share: float | None


class Remembered(Strict):
    """What the next extension starts from: shares of the codes, strata, and rows by repeat, code and stratum."""

    shares: list[tuple[int, float]] = []
    edges: list[float] = []
    classes: list[Any] = []
    counts: list[list[list[Count]]] = []


class Generation(Strict):
    """How many rows joined with a generation."""

    n: Count
    rows: Count


class ListedFile(Strict):
    """A Parquet file of the folder: its bytes are proved by ``sha256``, its rows by a digest per million."""

    path: str = Field(pattern=r"^[a-z]+(-\d{4})?\.parquet$")
    sha256: Digest
    bytes: Count
    rows: Count
    blocks: list[Annotated[str, Field(pattern="^[0-9a-f]{16}$")]]


class Header(Strict):
    """``manifest.json``: what was asked, what was decided, and each file with its SHA-256.

    It is the authority: a reader refuses another ``schema``, a file whose bytes differ, a Parquet file that is not
    listed, and a folder whose recomputed ``split_id`` differs.
    """

    schema_: Literal["evenfold-manifest/1"] = Field(alias="schema")
    name: str
    version: str = Field(pattern=r"^\d+\.\d+$", description="<major>.<minor>; the minor number is the generation.")
    kind: Literal["labels", "draws", "pairs"]
    spec: SplitSpec
    types: dict[str, ColumnType | Annotated[str, Field(pattern="^hmac-sha256-(64|128):([0-9a-f]{16}|2-[0-9a-f]{32})$")]]
    fingerprint: Digest
    plan_id: Digest
    split_id: Digest
    parent_split_id: Digest | None
    algorithm: Algorithm
    n_rows: Count
    n_splits: Count
    counts: dict[Annotated[str, Field(pattern=r"^-?\d+$")], Count] = Field(description="Rows in use of each code.")
    parts: list[Part]
    state: Remembered | None
    generations: list[Generation]
    versions: dict[str, str] = Field(description="Of the libraries that wrote it; no part of the identity.")
    files: list[ListedFile]


def json_schemas() -> dict[str, dict[str, Any]]:
    """Return each schema by its file name, ``evenfold-<what>-<version>.schema.json``: spec, manifest and audit.

    JSON Schema 2020-12, made from the very models that read and write. The number is that of the format: what a reader
    of it relies on does not change under the same number; a field that readers may ignore can join.
    """
    models: dict[str, type[BaseModel]] = {"spec": SplitSpec, "manifest": Header, "audit": Audit}
    return {f"evenfold-{name}-{VERSION}.schema.json": _schema(name, model) for name, model in models.items()}


def _schema(name: str, model: type[BaseModel]) -> dict[str, Any]:
    schema = model.model_json_schema(by_alias=True)
    dialect = "https://json-schema.org/draft/2020-12/schema"
    return {"$schema": dialect, "$id": f"urn:evenfold:{name}:{VERSION}"} | schema
