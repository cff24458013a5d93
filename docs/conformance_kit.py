"""Write the conformance kit: folders of evenfold-manifest/1, good and broken, and the verdict on each.

Run by hand when the format changes: the bytes of Parquet follow the version of pyarrow, and the kit is to stay.
"""

import hashlib
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
from evenfold.manifests import Manifest, decide, extend, write_manifest

KIT = Path(__file__).parents[1] / "tests" / "kit"
Header = dict[str, Any]


def rows(n: int = 24) -> pd.DataFrame:
    frame = pd.DataFrame({"number": range(-5, n - 5)})
    frame["text"] = [f"{letter}{i:02d}" for i, letter in zip(range(n), "zéжa日\U0001f600" * n, strict=False)]
    frame["share"] = frame["number"] / 8
    frame["when"] = pd.Timestamp("2024-02-28 23:59:59.999999", tz="UTC") + pd.to_timedelta(frame["number"] * 7, "h")
    frame["day"] = frame["when"].dt.date
    frame["flag"] = frame["number"] % 2 == 0
    frame["group"] = [f"g{i // 3}" for i in range(n)]
    frame["y"] = [("yes", "no", "no")[i % 3] for i in range(n)]
    return frame.sample(frac=1, random_state=1, ignore_index=True)


def grown() -> Manifest:
    first = decide({"columns": {"key": "text", "target": "y"}, "params": {"n_splits": 3}}, rows().query("number < 12"))
    second = extend(first, rows().query("number > -3 and number < 16"), max_missing=0.5).manifest
    return extend(second, rows().query("number > -4"), max_missing=0.5).manifest


def good() -> dict[str, Manifest]:
    parts = {"parts": {"train": 0.5, "validation": 0.25, "test": 0.25}}
    repeated = {"strategy": {"strategy": "KFold", "params": {"n_splits": 3}}, "n_repeats": 2}
    specs: dict[str, dict[str, Any]] = {
        "integer-key": {"columns": {"key": "number", "target": "y"}, "params": {"n_splits": 3}},
        "text-key": {"columns": {"key": "text", "target": "y"}, "params": {"n_splits": 3}},
        "float-key": {"columns": {"key": "share"}, "params": {"n_splits": 3}},
        "composite-key": {"columns": {"key": ["flag", "day", "when"]}, "params": {"n_splits": 3}},
        "no-key": {"columns": {}, "strategy": "KFold", "params": {"n_splits": 3}},
        "whole-groups": {"columns": {"key": "text", "group": "group"}, "params": {"n_splits": 3}},
        "repeats": {"columns": {"key": "number"}, "strategy": "Repeated", "params": repeated},
        "parts": {"columns": {"key": "text"}, "strategy": "HashSplit", "params": parts},
        "locked-rows": {"columns": {"key": "number", "target": "y"}, "holdout": 0.25, "params": {"n_splits": 2}},
        "pairs": {
            "columns": {"key": "number", "time": "when"},
            "strategy": "ForwardChaining",
            "params": {"n_splits": 3},
        },
        "draws": {"columns": {"key": "text"}, "strategy": "Bootstrap", "params": {"n_splits": 3}},
    }
    return {name: decide({"name": name, **spec}, rows()) for name, spec in specs.items()} | {"grown": grown()}


def rewritten(folder: Path, change: Callable[[Header], None], name: str = "", table: Any = None) -> None:
    header = json.loads((folder / "manifest.json").read_text(encoding="utf-8"))
    change(header)
    copy = json.dumps({field: value for field, value in header.items() if field != "files"}, ensure_ascii=False)
    for entry in header["files"]:
        path = folder / entry["path"]
        rows = table(pq.read_table(path)) if entry["path"] == name else pq.read_table(path)
        pq.write_table(rows.replace_schema_metadata({b"evenfold": copy.encode()}), path, compression="zstd")
        entry["sha256"], entry["bytes"] = hashlib.sha256(path.read_bytes()).hexdigest(), path.stat().st_size
    (folder / "manifest.json").write_text(json.dumps(header, ensure_ascii=False, indent=1), encoding="utf-8")


def header_alone(folder: Path, change: Callable[[Header], None]) -> None:
    header = json.loads((folder / "manifest.json").read_text(encoding="utf-8"))
    change(header)
    (folder / "manifest.json").write_text(json.dumps(header, ensure_ascii=False, indent=1), encoding="utf-8")


def one_row_moved(table: pa.Table) -> pa.Table:
    folds = table.column("fold").to_pylist()
    moved = pa.array([(folds[0] + 1) % 3, *folds[1:]], table.schema.field("fold").type)
    return table.set_column(table.column_names.index("fold"), "fold", moved)


def flip(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)


ROWS = "assignments-0000.parquet"
# How a copy of text-key is broken, by the reason for which a reader refuses it.
BROKEN: dict[str, Callable[[Path], Any]] = {
    "header": lambda f: (f / "manifest.json").write_text((f / "manifest.json").read_text("utf-8")[:-40], "utf-8"),
    "schema": lambda f: rewritten(f, lambda header: header.update(schema="evenfold-manifest/2")),
    "sha256": lambda f: flip(f / ROWS),
    "missing": lambda f: (f / ROWS).unlink(),
    "unlisted": lambda f: shutil.copy(f / ROWS, f / "assignments-0001.parquet"),
    "path": lambda f: header_alone(f, lambda header: header["files"][0].update(path="../text-key/" + ROWS)),
    "copy": lambda f: header_alone(f, lambda header: header.update(fingerprint="0" * 64)),
    "split_id": lambda f: rewritten(f, lambda header: header.update(split_id="0" * 64)),
    "split_id-of-a-moved-row": lambda f: rewritten(f, lambda header: None, ROWS, one_row_moved),
    "split_id-without-a-row": lambda f: rewritten(f, lambda header: None, ROWS, lambda table: table.slice(1)),
}


def main() -> None:
    expected: dict[str, Any] = {}
    for verdict in ("good", "broken"):
        shutil.rmtree(KIT / verdict, ignore_errors=True)
    for name, manifest in good().items():
        folder = write_manifest(manifest, KIT / "aside")
        shutil.copytree(folder, KIT / "good" / name)
        splits = [manifest.in_use.digest(i) for i in range(manifest.n_splits)]
        expected[f"good/{name}"] = {"verdict": "good", "split_id": manifest.split_id, "splits": splits}
    shutil.rmtree(KIT / "aside")
    for reason, harm in BROKEN.items():
        folder = shutil.copytree(KIT / "good" / "text-key", KIT / "broken" / reason)
        harm(folder)
        expected[f"broken/{reason}"] = {"verdict": "refused", "because": reason.partition("-")[0]}
    (KIT / "expected.json").write_text(json.dumps(expected, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
