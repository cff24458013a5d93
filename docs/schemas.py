"""Write the JSON Schemas that are published with the docs, from the models that read and write the formats."""

from __future__ import annotations

import json
from pathlib import Path

from evenfold.manifests import json_schemas

FOLDER = Path(__file__).parent / "schemas"


def published() -> dict[str, str]:
    """Return the text of each schema by its file name."""
    return {name: json.dumps(schema, indent=1, ensure_ascii=False) + "\n" for name, schema in json_schemas().items()}


if __name__ == "__main__":
    FOLDER.mkdir(exist_ok=True)
    for name, text in published().items():
        (FOLDER / name).write_text(text, encoding="utf-8")
