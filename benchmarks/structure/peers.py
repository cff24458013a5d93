"""Other packages' splits of the same tables, made by the Python of an environment that holds them.

``python peers.py FOLDER`` reads the tables that tables.py wrote there, and writes beside each what the package made of
it, with CPU seconds. It imports nothing of ours. A package that cannot do it leaves why.
"""

from __future__ import annotations

import json
import sys
import time
import warnings
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

Made = dict[str, np.ndarray]
MOST_SECONDS = 60  # of DataSAIL's solver, on one thread


def datasail(rows: pd.DataFrame, k: int) -> Made:
    from datasail.sail import datasail as split

    names = [f"fold {i}" for i in range(k)]
    patients, devices = ([f"{side}{code}" for code in rows[side]] for side in ("patient", "device"))
    _, _, of_rows = split(
        techniques=["I2"], inter=list(zip(patients, devices, strict=True)), splits=[1 / k] * k, names=names,
        max_sec=MOST_SECONDS, epsilon=0.1, solver="SCIP", e_type="O", e_data={each: each for each in set(patients)},
        f_type="O", f_data={each: each for each in set(devices)}, threads=1,
    )  # fmt: skip
    found = of_rows["I2"][0]
    codes = [found.get(pair, "not selected") for pair in zip(patients, devices, strict=True)]
    return {"codes": np.array([names.index(code) if code in names else -3 for code in codes])}


def purgedcv(rows: pd.DataFrame, k: int) -> Made:
    from purgedcv import PurgedKFold

    made = PurgedKFold(n_splits=k, prediction_times=rows["time"], evaluation_times=rows["known"])
    return _pairs(made.split(np.zeros((len(rows), 1))), len(rows))


def skfolio(rows: pd.DataFrame, k: int) -> Made:
    """With as many rows purged as the longest label spans anywhere: fewer would let some overlap."""
    from skfolio.model_selection import CombinatorialPurgedCV

    times, ends = rows["time"].to_numpy(), rows["known"].to_numpy()
    most = int((np.searchsorted(times, ends, side="right") - np.arange(len(rows))).max())
    made = CombinatorialPurgedCV(n_folds=k, n_test_folds=2, purged_size=most)
    pairs = ((train, np.concatenate(tests)) for train, tests in made.split(np.zeros((len(rows), 1))))
    return _pairs(pairs, len(rows))


def dataset_splitter(rows: pd.DataFrame, k: int) -> Made:
    from dataset_splitter import Splitter

    named = rows.rename(columns={"patient": "patient_id", "device": "device_id"})
    made = Splitter(target="sick", group="auto", test_size=0.2, val_size=0.1, dedupe=False).split(named)
    codes = np.full(len(rows), -1)
    for code, part in enumerate(("val", "test")):
        codes[np.array(made.indices[part])] = code
    return {"codes": codes}


def verde(rows: pd.DataFrame, k: int) -> Made:
    from verde import BlockKFold

    made = BlockKFold(spacing=10, n_splits=k, shuffle=True, random_state=0)
    return _pairs(made.split(rows[["east", "north"]].to_numpy()), len(rows))


def _pairs(pairs: Any, n: int) -> Made:
    """Return a matrix (splits, rows): 1 trained on, 2 tested, 0 neither."""
    sides = []
    for train, test in pairs:
        side = np.zeros(n, dtype=np.int8)
        side[train], side[test] = 1, 2
        sides.append(side)
    return {"sides": np.array(sides)}


WORK: dict[str, tuple[str, str, Callable[[pd.DataFrame, int], Made]]] = {
    "crossing": ("datasail", "datasail", datasail),
    "linked": ("dataset-splitter", "dataset-splitter", dataset_splitter),
    "purged": ("purgedcv", "purgedcv", purgedcv),
    "combined": ("skfolio", "skfolio", skfolio),
    "places": ("verde", "verde", verde),
}


def main(folder: Path) -> None:
    warnings.simplefilter("ignore")
    told: dict[str, Any] = {}
    for path in sorted(folder.glob("*.parquet")):
        work, _, k = path.stem.split(" ")
        package, distribution, made_by = WORK[work]
        rows = pd.read_parquet(path)
        about: dict[str, Any] = {"package": package}
        started = time.process_time()
        try:
            about["package"] = f"{package} {version(distribution)}"
            made = made_by(rows, int(k))
            np.savez(path.with_suffix(".npz"), **made)
        except Exception as error:  # what a package cannot do is said
            about["error"] = f"{type(error).__name__}: {' '.join(str(error).split())[:120]}"
        about["seconds"] = time.process_time() - started
        told[path.stem] = about
        print(path.stem, about, file=sys.stderr, flush=True)
    (folder / "told.json").write_text(json.dumps(told), encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
