"""The folds are what they were: after every change, on every CPU, with any number of threads."""

import json
import os
import subprocess
import sys
from typing import Any

import pytest
from evenfold.splitters import PredefinedPairs
from evenfold.splitters.conformance import trial_of
from golden_digests import IDENTITIES, NAMES, digest, digests, identities, pinned
from numpy._core._multiarray_umath import __cpu_dispatch__, __cpu_features__  # numpy documents no public list

FEATURES = [feature for feature in __cpu_dispatch__ if __cpu_features__[feature]]
EXP = """
import hashlib, numpy as np
x = np.linspace(-10, 10, 100_003)
print(hashlib.sha256(np.exp(x).tobytes() + np.exp(x.astype(np.float32)).tobytes()).hexdigest())
"""

REMEDY = """
{changes}
If the folds are meant to change: raise the class's `version`, add a line to CHANGELOG.md, and run
    python tests/golden_digests.py --write
If they are not: something that decides them has changed."""


def run(*command: str, disabled: list[str], threads: int = 1, hash_seed: int = 0) -> str:
    environment = os.environ | {"OMP_NUM_THREADS": str(threads), "PYTHONHASHSEED": str(hash_seed)}
    environment["PYTHONPATH"] = os.pathsep.join(path for path in sys.path if path)
    environment.pop("NPY_DISABLE_CPU_FEATURES", None)
    if disabled:
        environment["NPY_DISABLE_CPU_FEATURES"] = " ".join(disabled)
    done = subprocess.run([sys.executable, *command], env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def changes(current: dict[str, Any], golden: dict[str, Any]) -> list[str]:
    lines = []
    for name in sorted(set(current) | set(golden)):
        ours, theirs = current.get(name, {}), golden.get(name, {})
        lines += [f"{case}: new, or no longer pinned" for case in sorted(set(ours) ^ set(theirs))]
        lines += [
            f"{case}: {key} was {theirs[case].get(key)} and is {ours[case][key]}"
            for case in sorted(set(ours) & set(theirs))
            for key in ours[case]
            if ours[case][key] != theirs[case].get(key)
        ]
    return lines


@pytest.mark.parametrize("name", sorted({*NAMES, *pinned()}))
def test_the_folds_are_the_pinned_ones(name: str) -> None:
    differing = changes(digests([name]), {name: pinned().get(name, {})})
    assert not differing, REMEDY.format(changes="\n".join(differing))


@pytest.mark.skipif(not FEATURES, reason=f"NumPy dispatches nothing on this CPU; it could on {__cpu_dispatch__}")
def test_disabling_cpu_features_takes_effect() -> None:
    assert run("-c", EXP, disabled=[]) != run("-c", EXP, disabled=FEATURES)


@pytest.mark.skipif(not FEATURES, reason=f"NumPy dispatches nothing on this CPU; it could on {__cpu_dispatch__}")
def test_the_folds_are_the_same_on_other_cpus() -> None:
    wrappers = {"BalancedGroupSplit", "Crossed", "Holdout", "Repeated"}  # what they wrap is looked at
    names = sorted({*NAMES} - wrappers)
    dear = "effort='max'"  # half of all time; packings are of it too
    asked = f"""
import golden_digests as of, json
of.CASES[:] = [each for each in of.CASES if {dear!r} not in of.name_of(each)]
print(json.dumps(of.digests({names})))"""
    elsewhere = json.loads(run("-c", asked, disabled=FEATURES, threads=2, hash_seed=2))
    golden = {name: {case: told for case, told in pinned()[name].items() if dear not in case} for name in names}
    assert changes(elsewhere, golden) == []


def test_a_change_of_one_row_is_seen() -> None:
    pairs = ([0, 1], [2]), ([0], [1, 2]), ([0, 1], [3]), ([1, 0], [2])
    assert len({digest(trial_of(PredefinedPairs([pair]), 60)) for pair in pairs}) == 4


def test_identities_of_manifests_are_pinned() -> None:
    assert identities() == json.loads(IDENTITIES.read_text())
