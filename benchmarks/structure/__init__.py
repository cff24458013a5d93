"""Splits of rows that hang together in more ways than one column can say, against packages that do the same.

Entities that cross (DataSAIL's identity split in two dimensions) or are linked (dataset-splitter), labels that overlap
in time (purgedcv, skfolio), and blocks of a map (verde). The packages run in an environment of their own
(``make bench``), on the same tables, and what they made is measured by the same code.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pandas as pd
from evenfold.splitters import (
    BalancedGroupKFold,
    BalancedGroupSplit,
    CombinatorialPurgedKFold,
    Crossed,
    PurgedKFold,
    SpatialBlockKFold,
)

from .tables import labels_in_time, places, visits

PEERS_PYTHON = Path(os.environ.get("EVENFOLD_SPLITTERS_PYTHON", ".venv-splitters/bin/python"))
Array = np.ndarray[Any, np.dtype[Any]]
BUFFER = 3.0
TABLES: dict[str, Callable[[], pd.DataFrame]] = {
    "crossing small 4": lambda: visits(20, 0.05, n=600),
    "crossing large 5": lambda: visits(40, 0.05),
    "linked one 3": lambda: visits(60, 0.002),
    "purged one 5": labels_in_time,
    "combined one 6": labels_in_time,
    "places one 5": places,
}


def rows() -> list[dict[str, Any]]:
    """Return one line per comparison."""
    frames = {name: made() for name, made in TABLES.items()}
    with TemporaryDirectory() as made:
        folder = Path(made)
        for name, frame in frames.items():
            frame.to_parquet(folder / f"{name}.parquet")
        subprocess.run(
            [PEERS_PYTHON.absolute(), Path(__file__).with_name("peers.py"), folder], check=True, stdout=sys.stderr
        )
        told = json.loads((folder / "told.json").read_text(encoding="utf-8"))
        files = {name: folder / f"{name}.npz" for name in frames}
        peers = {name: dict(np.load(file)) if file.exists() else None for name, file in files.items()}
    lines = []
    for name, frame in frames.items():
        work, _, k = name.split(" ")
        lines += _LINES[work](frame, int(k), peers[name], told[name])
    return lines


def _line(work: str, ours: str, peer: str, ratio: str, target: str, met: Any) -> dict[str, Any]:
    return {"work": work, "ours": ours, "peer": peer, "ratio": ratio, "target": target, "met": bool(met)}


def _timed(work: Callable[[], Any]) -> tuple[Any, float]:
    started = time.process_time()
    return work(), time.process_time() - started


def _spread(codes: Array, wanted: Array) -> float:
    """Return the largest relative deviation of a part's rows from its share of those that are kept."""
    sizes = np.array([np.count_nonzero(codes == code) for code in range(wanted.size)])
    return float(np.abs(sizes / (wanted * sizes.sum()) - 1).max())


def crossing(frame: pd.DataFrame, k: int, peer: Any, about: dict[str, Any]) -> list[dict[str, Any]]:
    entities = frame[["patient", "device"]]
    codes, seconds = _timed(lambda: Crossed(BalancedGroupKFold(k)).assign(y=frame["sick"], groups=entities))
    random = np.random.default_rng(0)
    alone = [random.integers(0, k, int(frame[name].max()) + 1)[frame[name]] for name in entities]
    chance = float(np.mean(alone[0] == alone[1]))
    shares = np.full(k, 1 / k)
    kept = float(np.mean(codes >= 0))
    name = (
        f"{len(frame):,} visits of {frame['patient'].nunique()} patients and {frame['device'].nunique()} devices, k={k}"
    )
    ours = f"{kept:.1%} kept, sizes within {_spread(codes, shares):.0%}, {seconds:.2f} s"
    lines = [
        _line(
            f"{name}: rows kept where no entity is on two sides", ours, f"{chance:.1%} (each entity in a random fold)",
            f"{kept / chance:.1f}", "at least 2", kept >= 2 * chance,
        )
    ]  # fmt: skip
    said, ratio, met = f"{about['package']}: none ({about.get('error')})", "-", True
    if peer is not None:
        theirs = float(np.mean(peer["codes"] >= 0))
        said = f"{about['package']}: {theirs:.1%} kept, sizes within {_spread(peer['codes'], shares):.0%}"
        said += f", {about['seconds']:.2f} s"
        ratio, met = f"{kept / max(theirs, 1e-9):.2f}, time {seconds / about['seconds']:.2f}", kept >= theirs
    return [*lines, _line("the same, against an integer program", ours, said, ratio, "at least 1", met)]


def linked(frame: pd.DataFrame, k: int, peer: Any, about: dict[str, Any]) -> list[dict[str, Any]]:
    parts = {"train": 0.7, "validation": 0.1, "test": 0.2}
    entities = frame[["patient", "device"]]
    codes, seconds = _timed(lambda: BalancedGroupSplit(parts).assign(y=frame["sick"], groups=entities))
    order, shares = [-1, 0, -2], np.array(list(parts.values()))
    ours = _deviations(np.array([order.index(code) for code in codes.tolist()]), shares, frame)
    assert peer is not None, about
    theirs = _deviations(np.array([{-1: 0, 0: 1, 1: 2}[code] for code in peer["codes"].tolist()]), shares, frame)
    parted = frame.assign(part=peer["codes"]).groupby
    torn = sum(int((parted(name)["part"].nunique() > 1).sum()) for name in entities)
    return [
        _line(
            f"{len(frame):,} visits, entities linked, parts of 70, 10 and 20 %: a part's size, share of sick",
            f"within {ours[0]:.1%} and {ours[1]:.2f} points, {seconds:.3f} s",
            f"{about['package']}: within {theirs[0]:.1%} and {theirs[1]:.2f} points, {torn} entities on two sides, "
            f"{about['seconds']:.3f} s",
            f"{ours[0] / max(theirs[0], 1e-9):.2f}, {ours[1] / max(theirs[1], 1e-9):.2f}",
            "both <= 1/2",
            ours[0] <= theirs[0] / 2 and ours[1] <= theirs[1] / 2,
        )
    ]


def _deviations(codes: Array, shares: Array, frame: pd.DataFrame) -> tuple[float, float]:
    rates = [float(frame["sick"][codes == code].mean()) for code in range(shares.size)]
    return _spread(codes, shares), 100 * max(abs(rate - float(frame["sick"].mean())) for rate in rates)


def _sides(pairs: Any, n: int) -> Array:
    sides = []
    for train, test in pairs:
        side = np.zeros(n, dtype=np.int8)
        side[train], side[test] = 1, 2
        sides.append(side)
    return np.array(sides)


def overlaps(frame: pd.DataFrame, sides: Array) -> tuple[int, int]:
    """Return how many training rows overlap a tested label, and how many rows overlap none and are not trained on.

    Asked row by row, for each row against the tested ones alone: of those that begin before its label is known, the
    latest end; by sorting and a running maximum.
    """
    time, known = frame["time"].to_numpy(), frame["known"].to_numpy()
    leaks = left_out = 0
    for side in sides:
        tested = np.flatnonzero(side == 2)
        tested = tested[np.argsort(time[tested], kind="stable")]
        latest = np.maximum.accumulate(known[tested])
        before = np.searchsorted(time[tested], known, side="right") - 1
        overlapping = (before >= 0) & (latest[np.maximum(before, 0)] >= time)
        leaks += int(np.count_nonzero((side == 1) & overlapping))
        left_out += int(np.count_nonzero((side == 0) & ~overlapping))
    return leaks, left_out


def in_time(frame: pd.DataFrame, k: int, peer: Any, about: dict[str, Any]) -> list[dict[str, Any]]:
    strategy: Any = PurgedKFold(k) if "purgedcv" in about["package"] else CombinatorialPurgedKFold(k, 2)
    roles = {"time": frame["time"], "label_end": frame["known"]}
    sides, seconds = _timed(lambda: _sides(strategy.split(None, **roles), len(frame)))
    (leaks, lost), (their_leaks, their_lost) = overlaps(frame, sides), overlaps(frame, peer["sides"])
    return [
        _line(
            f"{len(frame):,} rows of {frame['time'].nunique():,} times, {len(sides)} splits: training rows whose label "
            "overlaps a tested one; rows left out for nothing",
            f"{leaks:,}; {lost:,} in {seconds:.3f} s",
            f"{about['package']}: {their_leaks:,}; {their_lost:,} in {about['seconds']:.3f} s",
            f"time {seconds / about['seconds']:.2f}",
            "0; 0, and no more than theirs",
            leaks == 0 and lost == 0,
        )
    ]


def on_a_map(frame: pd.DataFrame, k: int, peer: Any, about: dict[str, Any]) -> list[dict[str, Any]]:
    where = frame[["east", "north"]].to_numpy()
    strategy = SpatialBlockKFold(k, block_size=10, buffer=BUFFER)
    sides, seconds = _timed(lambda: _sides(strategy.split(None, frame["kind"], coordinates=where), len(frame)))
    figures = []
    for each in (sides, peer["sides"]):
        sizes = np.array([(side == 2).sum() for side in each]) * k / len(frame)
        rates = np.array([(frame["kind"][side == 2] == "rare").mean() for side in each])
        near = sum(_near(where[side == 1], where[side == 2]) for side in each) / len(frame) / (k - 1)
        figures.append((np.abs(sizes - 1).max(), 100 * np.abs(rates - (frame["kind"] == "rare").mean()).max(), near))
    (size, rate, near), (their_size, their_rate, their_near) = figures
    return [
        _line(
            f"{len(frame):,} places in blocks of 10 by 10, k={k}: a fold's size, share of a class, training rows "
            f"within {BUFFER:g} of a tested one",
            f"within {size:.1%}, {rate:.1f} points, {near:.0%}, {seconds:.3f} s",
            f"{about['package']}: within {their_size:.1%}, {their_rate:.1f} points, {their_near:.0%} (no buffer), "
            f"{about['seconds']:.3f} s",
            f"{size / their_size:.2f}, {rate / their_rate:.2f}, {near / their_near:.2f}",
            "<= 1, <= 1/2, 0",
            size <= their_size and rate <= their_rate / 2 and near == 0,
        )
    ]


def _near(train: Array, test: Array) -> int:
    return sum(
        int((np.hypot(*(part[:, None] - test).T).min(axis=0) <= BUFFER).sum()) for part in np.array_split(train, 20)
    )


_LINES: dict[str, Callable[..., list[dict[str, Any]]]] = {
    "crossing": crossing,
    "linked": linked,
    "purged": in_time,
    "combined": in_time,
    "places": on_a_map,
}


def notes() -> str:
    """Return what a reader of the table should know."""
    return (
        "Seconds are CPU seconds, with what a package imports when it is first asked. What a split leaves in and out "
        "is counted by the same code for both, row by row. DataSAIL solves its identity split in two dimensions (I2) "
        "as an integer program by SCIP, on one thread, within 60 s and a tenth of the sizes; its objective is "
        "constant, so what satisfies the sizes ends it. skfolio purges a number of rows, so it was given the most "
        "that any label spans. Blocks of a map have no buffer in verde."
    )
