"""The folds of every case and many packings as digests: `python tests/golden_digests.py --write` where they change."""

import hashlib
import inspect
import json
import sys
from collections.abc import Collection
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).parent))

from cases import CASES
from evenfold.splitters import Splitter, Stream
from evenfold.splitters.conformance import trial_of
from evenfold.splitters.conformance.data import Trial
from evenfold.splitters.numbers import MADE_UP
from evenfold.splitters.packing.cost import Aim
from evenfold.splitters.packing.pack import pack_into, pack_to

GOLDEN = Path(__file__).parent / "golden"
SIZES = (60, 997)


def digest(trial: Trial) -> str:
    """Return the SHA-256 of the pairs of made-up rows: each side's length and positions, as little-endian int64."""
    hashed = hashlib.sha256()
    for pair in trial.pairs:
        for side in pair:
            hashed.update(np.array([side.size, *side], dtype="<i8").tobytes())
    return hashed.hexdigest()


def uneven(splitter: Splitter, n: int = 311) -> Trial:
    """Return rows that are harder to share out: text in place of numbers, ties, rare classes and very large groups."""
    stream, needs = Stream(1, MADE_UP, 9), splitter.needs
    drawn = stream.below(64, 4 * n).reshape(4, n) * stream.below(64, 4 * n).reshape(4, n) // 64
    groups = np.array([f"g{number}" for number in drawn[0]])  # 0 is of a tenth of the rows, 63 of hardly one
    classes = np.array([f"c{min(number.bit_length(), 5)}" for number in (drawn[1] + 4).tolist()])
    classes[: n // 40], groups[::5] = "rare", "giant"
    rows = stream.permutation(n)
    roles = {
        "key": np.array([f"k{number}" for number in stream.permutation(n)]),
        "time": np.sort(drawn[2]).astype("datetime64[D]"),
        "fixed": np.minimum(drawn[3] // 8, 5) - 1,
        "coordinates": drawn[2:].T / 8,
    }
    roles["label_end"] = roles["time"] + drawn[3] // 16
    several = np.column_stack([classes, np.where(drawn[2] % 3 == 0, classes, "other")])
    numbers = (drawn[1] // 4) ** 2 / 8
    ys = {"ignored": None, "numbers": numbers, "any": several if needs.groups else numbers}
    others = [np.where(drawn[3] % 32 == lot, groups[::-1], groups) for lot in range(2)]
    entities = np.column_stack([groups, *others])
    levels = entities if "entities_apart" in splitter.promises else groups if needs.groups else None
    columns = {name: values for name, values in roles.items() if getattr(needs, name)}
    columns |= {"X": np.zeros((n, 1)), "y": ys.get(needs.y, classes), "groups": levels}
    return Trial(splitter, n, {name: values[rows] for name, values in columns.items() if values is not None})


def name_of(splitter: Any) -> str:
    """Return the class and the parameters that are not defaults: a later parameter leaves the name as it is."""
    if not hasattr(splitter, "get_params"):
        return repr(splitter)
    known = inspect.signature(type(splitter)).parameters
    given = splitter.get_params(deep=False).items()
    shown = [f"{key}={name_of(value)}" for key, value in sorted(given) if value != known[key].default]
    return f"{type(splitter).__name__}({', '.join(shown)})"


TRAITS = "portable", "grows", "shares_out", "by_group_table"
NAMES = sorted({type(splitter).__name__ for splitter in CASES} | {"packings"})


def declared(strategy: type[Splitter]) -> dict[str, str]:
    """Return what a class promises, needs and takes where nothing is said: what specifications leave out."""
    parameters = inspect.signature(strategy).parameters.values()
    return {
        "parameters": ", ".join(p.name if p.default is p.empty else f"{p.name}={p.default!r}" for p in parameters),
        "promises": " ".join(sorted(strategy.promises)),
        "needs": " ".join(f"{name}={value}" for name, value in asdict(strategy.needs).items() if value),
        "traits": " ".join(trait for trait in TRAITS if getattr(strategy, trait)),
    }


def digests(names: Collection[str] = NAMES) -> dict[str, dict[str, dict[str, Any]]]:
    """Return for each class what it declares, and each case's version and digests if all machines make the same.

    Beside them, as ``packings``, those of the pack kernel.
    """
    found: dict[str, dict[str, dict[str, Any]]] = {"packings": packings()} if "packings" in names else {}
    for splitter in CASES:
        if type(splitter).__name__ not in names:
            continue
        of_class = found.setdefault(type(splitter).__name__, {"declared": declared(type(splitter))})
        if splitter.portable:
            pinned = {"version": splitter.version, **{str(n): digest(trial_of(splitter, n)) for n in SIZES}}
            pinned["uneven"] = digest(uneven(splitter))
            of_class[name_of(splitter)] = pinned
    return found


SHARES = ([0.5, 0.5], [0.25] * 4, [0.7, 0.2, 0.1], [0.3, 0.25, 0.2, 0.1, 0.1, 0.05])


def packings() -> dict[str, dict[str, str]]:
    """Return a digest of the bins of made-up entries of every kind: few and many, alike, giant, of rare columns."""
    made = {}
    for entries, columns, effort in ((3, 1, 16), (6, 2, "max"), (13, 3, 16), (17, 2, 4), (31, 1, 16), (45, 4, 2),
                                     (57, 2, 8), (90, 12, 3), (400, 2, 1)):  # fmt: skip
        for number, shares in enumerate(SHARES):
            stream = Stream(entries, MADE_UP, 10, number)
            table = stream.below(12, entries * columns).reshape(entries, columns)
            table = np.where(stream.below(3, table.size).reshape(table.shape) > 0, table, table**2 // 8)
            table[:, 0] += 1 + stream.below(4, entries) // 3 * 9
            table[0] *= 1 + entries // 8
            wanted, weight = np.array(shares), ("relative", 1.0, "exact")[(entries + number) % 3]
            aim = Aim(table, wanted, size_weight=weight, weights=np.arange(1.0, columns + 1))
            bins = pack_to(aim, stream, effort, close=bool(number % 2))
            if entries < 40:  # others join what the first ones hold
                bins = np.append(bins, pack_into(table[: len(shares)], table[len(shares) :], wanted, stream))
            hashed = hashlib.sha256(bins.astype("<i8").tobytes()).hexdigest()
            made[f"{entries} of {columns} into {len(shares)}, {effort}, {weight}"] = {"bins": hashed[:16]}
    return made


def pinned() -> dict[str, dict[str, dict[str, Any]]]:
    return {path.stem: json.loads(path.read_text()) for path in sorted(GOLDEN.glob("*.json"))}


def write() -> None:
    current = digests()
    for path in GOLDEN.glob("*.json"):
        if path.stem not in current:
            path.unlink()
    for name, cases in current.items():
        (GOLDEN / f"{name}.json").write_text(json.dumps(cases, indent=2, sort_keys=True) + "\n")


def identities() -> dict[str, dict[str, str]]:
    """Return fingerprint, plan_id and split_id of manifests of one made-up table with columns of every type."""
    import pandas as pd
    from evenfold.manifests import decide, extend

    rows = np.arange(240)
    frame = pd.DataFrame(
        {
            "key": [f"k\u00e9y-{i:03d}" if i % 2 else f"ke\u0301y-{i:03d}" for i in rows],
            "number": np.where(rows % 7 == 0, -0.0, (rows * 37 % 101) / 8),
            "label": np.resize(["a", "b", "a", "c"], 240),
            "group": pd.Timestamp("2024-01-01") + pd.to_timedelta(rows // 6, unit="D"),
        }
    )
    specs: dict[str, dict[str, Any]] = {
        "plain": {"columns": {"key": "key"}, "strategy": "KFold"},
        "numbers": {"columns": {"key": "key", "target": "number"}},
        "classes": {"columns": {"key": "key", "target": "label"}, "holdout": {"fraction": 0.25}},
        "groups": {"columns": {"key": "key", "target": "label", "group": "group"}},
        "draws": {"columns": {"key": "key"}, "strategy": "PoissonBootstrap", "params": {"n_splits": 5}},
    }
    made = {name: decide(spec, frame) for name, spec in specs.items()}
    for name in ("plain", "numbers", "classes", "groups"):
        made[f"{name}, grown"] = extend(decide(specs[name], frame[:150]), frame).manifest
    return {
        name: {"fingerprint": each.fingerprint, "plan_id": each.plan_id, "split_id": each.split_id}
        for name, each in made.items()
    }


IDENTITIES = Path(__file__).parent / "golden_identities.json"


def differences() -> list[str]:
    current, known = (
        digests() | {"identities": identities()},
        pinned() | {"identities": json.loads(IDENTITIES.read_text())},
    )
    cases = {(name, case) for found in (current, known) for name, each in found.items() for case in each}
    return [f"{n} {c}" for n, c in sorted(cases) if current.get(n, {}).get(c) != known.get(n, {}).get(c)]


if __name__ == "__main__":
    if "--write" in sys.argv:
        write()
        IDENTITIES.write_text(json.dumps(identities(), indent=2, sort_keys=True) + "\n")
    elif "--check" in sys.argv:
        found = differences()
        sys.stdout.write("\n".join(["different:", *found] if found else [f"{len(CASES)} cases as pinned"]) + "\n")
        sys.exit(bool(found))
    else:
        sys.stdout.write(json.dumps(digests()))
