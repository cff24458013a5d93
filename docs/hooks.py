"""The pages that come from the code: every strategy, and the reference. Made at each build, so never out of date."""

from __future__ import annotations

import importlib
import inspect
import re
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent
ROOMS = ("splitters", "manifests", "estimates", "tasks", "flows")
MOST_SPLITS = 5

WHEN_NOT = {
    "KFold": "rows belong together (patients, days, plates): neighbours in train and test make scores too good.",
    "StratifiedKFold": "rows belong together, or the target is a number with many values.",
    "SortedStratifiedKFold": "rows belong together. It makes distributions equal, not means of very heavy tails: "
    "one row can set a fold's mean.",
    "BalancedKFold": "one column of classes is all there is: StratifiedKFold is exact and faster.",
    "BalancedGroupKFold": "the question is how the model does on one particular group: LeaveOneGroupOut says it.",
    "BalancedGroupSplit": "the data are few: one part of 10 % is a noisy judge; use folds.",
    "FractionalStratifiedSplit": "rows belong together, or there are classes instead of numbers.",
    "Bootstrap": "rows belong together (GroupBootstrap), or the model learns its rows by heart and only .632 is read.",
    "StratifiedBootstrap": "class shares are themselves uncertain, and that should show in the spread.",
    "GroupBootstrap": "there are fewer than about 20 groups: the out-of-bag groups are then few.",
    "PoissonBootstrap": "exactly n rows must be drawn each time.",
    "ShuffleSplit": "every row should be tested once: k-fold does it with fewer fits.",
    "StratifiedShuffleSplit": "rows belong together.",
    "GroupShuffleSplit": "class shares must be held as well: GroupStratifiedShuffleSplit.",
    "GroupStratifiedShuffleSplit": "there are fewer than about ten groups: the same test sets come back. With a high "
    "beta some groups are never tested; look at the report's picture of pick frequencies.",
    "HashSplit": "the folds must be of equal size or hold equal shares: a hash knows neither.",
    "ForwardChaining": "the model will be used on the same period that it was trained on.",
    "LeaveOneOut": "n is large: n fits, and scores such as R2 are undefined on one row.",
    "LeaveOneGroupOut": "there are many groups: as many fits.",
    "Predefined": "the folds were not decided for a reason: then they cannot be checked or grown.",
    "PredefinedPairs": "each row has one fold: Predefined stores one number a row.",
    "Repeated": "compute is short: ten repeats tell little more than one about the data's own chance.",
    "FromSklearn": "one of ours does the same: theirs may change with its version, ours may not.",
    "Holdout": "nobody will keep from looking: each look at a locked part makes it less worth.",
}


def on_files(files: Any, config: Any) -> Any:
    """Add the generated pages."""
    from mkdocs.structure.files import File

    sys.path.insert(0, str(ROOT / "tests"))
    for name, content in (("strategies.md", strategies_page()), ("reference.md", reference_page())):
        files.append(File.generated(config, name, content=content))
    return files


def strategies_page() -> str:
    """Return one section per strategy: idea, picture, promises, when not to use it."""
    from cases import CASES
    from evenfold.splitters import strategies
    from evenfold.splitters.conformance import CHECKS

    said = {each.promise: each.name for each in CHECKS if each.promise}
    examples = {type(case).__name__: case for case in reversed(CASES)}
    parts = [
        "# Every strategy\n\nWritten from the docstrings and the promises in the code; the pictures are real splits. "
        "Each column is a row of the data: `#` tested, `.` trained on, `2` and more trained on as often, ` ` neither.\n"
    ]
    for name, strategy in sorted(strategies().items()):
        promises = "".join(f"* {said[word]}\n" for word in sorted(examples[name].promises))
        parts.append(
            f"## {name}\n\n```text\n{name}{inspect.signature(strategy)}\n```\n\n{prose(strategy)}\n\n"
            f"```text\n{picture(examples[name])}\n```\n\nChecked promises:\n\n{promises}\n"
            + (f"**Not when** {WHEN_NOT[name]}\n" if name in WHEN_NOT else "")
        )
    return "\n".join(parts)


def picture(splitter: Any, n: int = 48) -> str:
    """Return the first splits of a strategy on a few made-up rows, a character a row."""
    from evenfold.splitters.conformance import data_for

    data = data_for(splitter, n)
    rows: list[str] = []
    if data.groups is not None:
        codes = {group: chr(97 + i % 26) for i, group in enumerate(dict.fromkeys(list(data.groups)))}
        rows.append("groups   " + "".join(codes[group] for group in data.groups))
    for i, (train, test) in zip(range(MOST_SPLITS), data.split(splitter), strict=False):
        drawn = [0] * n
        for row in train.tolist():
            drawn[row] += 1
        line = [" " if count == 0 else "." if count == 1 else str(min(count, 9)) for count in drawn]
        for row in test.tolist():
            line[row] = "#"
        rows.append(f"split {i:<3}" + "".join(line))
    return "\n".join(rows)


def prose(thing: Any) -> str:
    """Return a docstring as Markdown: ``code`` as `code`, paragraphs as they are."""
    return re.sub(r"``(.+?)``", r"`\1`", inspect.getdoc(thing) or "")


def reference_page() -> str:
    """Return what each room exports, with signatures and docstrings."""
    parts = ["# Reference\n\nWritten from the docstrings: shapes, units, errors and complexity stand there.\n"]
    for room in ROOMS:
        module = importlib.import_module(f"evenfold.{room}")
        parts.append(f"## evenfold.{room}\n\n{prose(module)}\n")
        for name in sorted(module.__all__):
            thing = getattr(module, name)
            if inspect.isclass(thing) or inspect.isfunction(thing):
                parts.append(f"### {room}.{name}\n\n```text\n{_signature(name, thing)}\n```\n\n{prose(thing)}\n")
                parts += [_method(each, member) for each, member in _methods(thing)]
    return "\n".join(parts)


def _methods(thing: Any) -> list[tuple[str, Any]]:
    own = vars(thing).items() if inspect.isclass(thing) else []
    return [(name, each) for name, each in own if inspect.isfunction(each) and each.__doc__ and name[0] != "_"]


def _method(name: str, method: Any) -> str:
    return f"**`{_signature(name, method)}`**\n\n{prose(method)}\n"


def _signature(name: str, thing: Any) -> str:
    try:
        return f"{name}{inspect.signature(thing)}".replace("'", "")
    except (TypeError, ValueError):
        return name
