"""Other tools' audits of the same tables, run by the Python of an environment that holds them.

``python peers.py FOLDER KEPT SECONDS`` reads the tables that study.py wrote into a folder, and adds to a file what each
tool warns of and the seconds that it took; what stands there for the same version and table is not asked again. No
tool begins another table after so many seconds of processor time. It imports nothing of ours: the tools' versions need
not fit ours. Each tool gets the most that it can use: every fold is its test set once where it asks for one, and a
table is shown with and without its key column.
"""

from __future__ import annotations

import json
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pandas as pd
from kept import Answer, Kept

Alarms = set[str]
Audited = Callable[[pd.DataFrame, pd.Series, str, dict[str, str]], Alarms]


def halves(data: pd.DataFrame, folds: pd.Series) -> Iterator[tuple[pd.DataFrame, pd.DataFrame]]:
    for fold in sorted(folds.unique()):
        yield data[folds != fold], data[folds == fold]


def leaklens(data: pd.DataFrame, folds: pd.Series, target: str, roles: dict[str, str]) -> Alarms:
    from leaklens import leakage

    found = leakage.scan(data, target)
    for train, test in halves(data, folds):
        found += leakage.split_overlap(train, test)
        if "time" in roles:
            found += leakage.temporal_overlap(train, test, roles["time"])
        if "group" in roles:
            found += leakage.group_overlap(train, test, roles["group"])
    return {f"{finding.kind} {finding.column}" for finding in found if finding.severity in ("high", "medium")}


def trustcv(data: pd.DataFrame, folds: pd.Series, target: str, roles: dict[str, str]) -> Alarms:
    from trustcv import DataLeakageChecker

    X, y = data.drop(columns=target), data[target]
    pairs = [((folds != fold).to_numpy().nonzero()[0], (folds == fold).to_numpy().nonzero()[0]) for fold in set(folds)]
    checker = DataLeakageChecker(verbose=False)
    group, when = (data[roles[role]] if role in roles else None for role in ("group", "time"))
    report = checker.check(X.select_dtypes("number"), y, groups=group, timestamps=when, folds=pairs)
    alarms = set(report.leakage_types)
    for feature in checker.check_feature_target_leakage(X.select_dtypes("number"), y)["suspicious_features"]:
        alarms.add(f"target {feature['index']}")
    return alarms


def tabaudit(data: pd.DataFrame, folds: pd.Series, target: str, roles: dict[str, str]) -> Alarms:
    from tabaudit import run_audit

    alarms: Alarms = set()
    for train, test in halves(data, folds):
        for finding in run_audit(train, target, test).findings:
            if finding.severity.value in ("critical", "high", "medium"):
                alarms.add(f"{finding.check} {' '.join(map(str, sorted(finding.columns)))}")
    return alarms


def leakhound(data: pd.DataFrame, folds: pd.Series, target: str, roles: dict[str, str]) -> Alarms:
    from leakhound import audit

    # It stops at a missing value, so the gaps are filled.
    data = data.fillna(data.median(numeric_only=True))
    data = data.fillna({name: "missing" for name in data.select_dtypes(exclude="number")})
    alarms: Alarms = set()
    for train, test in halves(data, folds):
        report = audit(train, test, target=target, time_col=roles.get("time"), group_col=roles.get("group"))
        alarms |= {f"{finding.check} {finding.evidence.get('column', '')}".strip() for finding in report.leaks}
    return alarms


TOOLS: dict[str, Audited] = {
    "leaklens-ml": leaklens,
    "trustcv": trustcv,
    "leakhound-ml": leakhound,
    "tabaudit": tabaudit,
}


def _answer(audited: Audited, shown: pd.DataFrame, folds: pd.Series, about: dict[str, Any]) -> Answer:
    try:
        return sorted(audited(shown, folds, about["target"], about["roles"])), ""
    except Exception as error:  # a tool that fails on a table has found nothing there, and it is said
        return [], f"{type(error).__name__}: {error}"[:200]


def main(folder: Path, kept: Kept, seconds: float) -> None:
    warnings.simplefilter("ignore")
    every = json.loads((folder / "tables.json").read_text(encoding="utf-8"))
    for tool, audited in TOOLS.items():
        started, asked = time.process_time(), version(tool)
        new = {name: about for name, about in every.items() if (tool, asked, about["digest"]) not in kept.known}
        for name, about in new.items():
            if time.process_time() - started > seconds:
                break
            data = pd.read_parquet(folder / f"{name}.parquet")
            folds = data.pop("fold")
            without = data.drop(columns=about["key"], errors="ignore")
            tables = [without, data] if about["planted"] else [without]
            looks = partial(map, partial(_answer, audited, folds=folds, about=about), tables)
            kept.ask(tool, asked, about["digest"], looks)
            print(tool, name, file=sys.stderr, flush=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]), Kept(Path(sys.argv[2])), float(sys.argv[3]))
