"""The JSON Schemas of what others read and write: a specification, the header of a manifest, and an audit."""

from __future__ import annotations

from typing import Annotated, Any

from evenfold.manifests.audits.findings import Audit
from evenfold.manifests.spec import SplitSpec
from evenfold.manifests.store.header import SCHEMA, Header
from evenfold.manifests.strict import WRITTEN
from evenfold.manifests.tables.canonical import ColumnType
from pydantic import ConfigDict, Field, TypeAdapter, with_config

VERSION = SCHEMA.rpartition("/")[2]


@with_config(ConfigDict(**WRITTEN, title="Header"))
class _Header(Header):
    spec: SplitSpec  # type: ignore[misc]
    types: dict[str, ColumnType | Annotated[str, Field(pattern="^hmac-sha256-(64|128):([0-9a-f]{16}|2-[0-9a-f]{32})$")]]


_Header.__doc__ = Header.__doc__


def json_schemas() -> dict[str, dict[str, Any]]:
    """Return each schema by its file name, ``evenfold-<what>-<version>.schema.json``: spec, manifest and audit.

    JSON Schema 2020-12, made from the very models that read and write. The number is that of the format: what a reader
    of it relies on does not change under the same number; a field that readers may ignore can join.
    """
    dialect, schemas = "https://json-schema.org/draft/2020-12/schema", dict[str, dict[str, Any]]()
    for name, model in (("spec", SplitSpec), ("manifest", _Header), ("audit", Audit)):
        about = {"$schema": dialect, "$id": f"urn:evenfold:{name}:{VERSION}"}
        schemas[f"evenfold-{name}-{VERSION}.schema.json"] = about | TypeAdapter(model).json_schema()
    return schemas
