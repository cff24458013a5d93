"""A page per strategy, from its docstring, its promises, a split of made-up rows, and strategies.yaml."""

from __future__ import annotations

import inspect
import re
from functools import cache
from html import escape
from pathlib import Path
from typing import Any

import numpy as np
import yaml

DOCS = Path(__file__).parent
MOST_SPLITS, ROWS = 6, 48
WIDTH, LEFT, CELL, HIGH = 720, 74, 13, 17
# Okabe and Ito's colours: three classes, and whether a row is trained on or tested, are told apart by everybody.
STRIP = ("#E69F00", "#56B4E9", "#009E73", "#CC79A7", "#F0E442", "#0072B2")
TRAIN, TEST = "#8FB4D0", "#D55E00"
SOURCE = re.compile(r"Source|Unlike|The idea of|The task, with|Corrected here")
COSTS = re.compile(r"\bO\(|^The strategy's cost")
SECTIONS = ("Picture", "Use it", "Parameters", "Promises", "When not to use it", "Complexity", "Source")


@cache
def meanings() -> dict[str, str]:
    """Return what parameters.yaml says of each parameter."""
    return dict(yaml.safe_load((DOCS / "parameters.yaml").read_text(encoding="utf-8")))


@cache
def told() -> dict[str, dict[str, str]]:
    """Return what strategies.yaml says of each strategy."""
    return dict(yaml.safe_load((DOCS / "strategies.yaml").read_text(encoding="utf-8")))


def pages(examples: dict[str, Any], said: dict[str, str]) -> dict[str, str]:
    """Return the text of each page by its path: a table of all, and a page for each."""
    made = {f"strategies/{name}.md": page(name, example, said) for name, example in sorted(examples.items())}
    return {"strategies.md": index(examples, said), **made}


def index(examples: dict[str, Any], said: dict[str, str]) -> str:
    """Return the table of all strategies, each a link to its page."""
    rows = [
        f"| [{name}](strategies/{name}.md) | {code(parts_of(example)['idea'][0])} | {promises(example, said)} |"
        for name, example in sorted(examples.items())
    ]
    return "\n".join(
        [
            "# Every strategy",
            "",
            "[Choosing a strategy](choosing.md) says which one answers your question; each has a page with its idea, a "
            "picture, what it promises, what it costs, where it comes from, and when not to use it.",
            "",
            "| strategy | what it makes | what it promises |",
            "|---|---|---|",
            *rows,
            "",
            "```{toctree}\n:hidden:\n",
            *(f"strategies/{name}" for name in sorted(examples)),
            "```",
            "",
        ]
    )


def promises(example: Any, said: dict[str, str]) -> str:
    """Return what a strategy promises beside keeping train and test apart, in the words of its checks."""
    return "; ".join(said[word] for word in sorted(example.promises - {"disjoint"})) or said["disjoint"]


def page(name: str, example: Any, said: dict[str, str]) -> str:
    """Return the page of one strategy: ``said`` names the check of each promise."""
    parts = parts_of(example)
    promised = "\n".join(f"* {said[word]}" for word in sorted(example.promises))
    words = told().get(name, {})
    more = {part: [words[part]] for part in ("complexity", "source") if part in words}
    not_when = " ".join(parts["not_when"]) or words.get("not_when")
    if not not_when:
        raise ValueError(
            f"end the docstring of {name} with a paragraph 'When not to use it: ...', which its page needs"
        )
    suite = "Checked by the conformance suite, on rows of every kind:"
    sections = {
        "Picture": f"{svg(example)}\n\n{caption(example)}",
        "Use it": usage(name, example),
        "Parameters": parameter_table(name, example),
        "Promises": f"{text(parts['promises'])}\n\n{suite}\n\n{promised}",
        "Complexity": code(" ".join(parts["complexity"] + more.get("complexity", []))),
        "Source": code(" ".join(parts["source"] + more.get("source", []))),
        "When not to use it": code(not_when),
    }
    body = "\n\n".join(f"## {head}\n\n{sections[head]}" for head in SECTIONS)
    first, *more_of_it = parts["idea"]
    details = f"\n\n## In detail\n\n{text(more_of_it)}" if more_of_it else ""
    return f"# {name}\n\n{text([first])}\n\n{body}{details}\n"


def usage(name: str, example: Any) -> str:
    """Return how the strategy is asked for, on the command line and in Python, with the columns that it needs."""
    needs = example.needs
    columns = {"target": needs.y != "ignored", "group": needs.groups is True, "time": needs.time is True}
    flags = "".join(f" --{role} {role.upper()}" for role, needed in columns.items() if needed)
    named = "".join(f', "{role}": "{role.upper()}"' for role, needed in columns.items() if needed)
    asked = f'"strategy": "{name}", "columns": {{"key": "KEY"{named}}}'
    command = f"$ evenfold split FILE --key KEY{flags} --strategy {name}"
    if needs.coordinates:
        named += ', "coordinates": ["X", "Y"]'
        asked = f'"strategy": "{name}", "columns": {{"key": "KEY"{named}}}, "params": {{"block_size": SIZE}}'
        command = (
            f"$ cat split.yaml\nstrategy: {name}\nparams: {{block_size: SIZE}}\n"
            f"columns: {{key: KEY, target: TARGET, coordinates: [X, Y]}}\n$ evenfold split FILE --spec split.yaml"
        )
    if "entities_apart" in example.promises:
        command = f"$ evenfold split FILE --key KEY{flags} --group OTHER --group-mode cross"
        asked = '"group_mode": "cross", "columns": {"key": "KEY", "target": "TARGET", "group": ["GROUP", "OTHER"]}'
    python = f'from evenfold.manifests import decide\n\nmanifest = decide({{{asked}}}, "FILE")\n'
    tabs = (
        f":::{{tab-item}} Command line\n```text\n{command}\n```\n:::\n:::{{tab-item}} Python\n```text\n{python}```\n:::"
    )
    return f"::::{{tab-set}}\n{tabs}\n::::\n\nIn capitals: your own columns, file and lengths."


def parameter_table(name: str, example: Any) -> str:
    """Return the table of the parameters with their defaults and what they mean."""
    rows = []
    for parameter in inspect.signature(type(example)).parameters.values():
        meaning = meanings().get(f"{name}.{parameter.name}") or meanings().get(parameter.name)
        if not meaning:
            raise ValueError(f"say what {name}'s parameter {parameter.name} means in docs/parameters.yaml")
        default = "required" if parameter.default is inspect.Parameter.empty else f"`{parameter.default!r}`"
        rows.append(f"| `{parameter.name}` | {default} | {meaning} |")
    return "\n".join(["| parameter | default | meaning |", "|---|---|---|", *rows]) if rows else "It has none."


def parts_of(example: Any) -> dict[str, list[str]]:
    """Return the paragraphs of a strategy's docstring by what they are about."""
    parts: dict[str, list[str]] = {"idea": [], "promises": [], "complexity": [], "source": [], "not_when": []}
    for paragraph in (inspect.getdoc(type(example)) or "").split("\n\n"):
        if paragraph.startswith("    "):
            parts["idea"].append(paragraph)
            continue
        if paragraph.startswith("When not to use it: "):
            parts["not_when"].append(" ".join(paragraph.split()).removeprefix("When not to use it: "))
            continue
        at = default = "promises" if paragraph.startswith("Promises:") else "idea"
        kept = []
        for sentence in re.split(r"(?<=\.)\s+(?=[A-Z`0-9])", " ".join(paragraph.split())):
            at = "source" if SOURCE.match(sentence) else "complexity" if COSTS.search(sentence) else at
            (kept if at == default else parts[at]).append(re.sub(r"^(Source|Promises): ", "", sentence))
        parts[default] += [_upper(" ".join(kept))] if kept else []
    parts["source"].sort(key=lambda sentence: sentence.startswith("Unlike"))
    return parts


def _upper(words: str) -> str:
    return words if words.startswith(("y ", "u ")) else words[:1].upper() + words[1:]


def text(paragraphs: list[str]) -> str:
    """Return paragraphs as Markdown; an indented one is code."""
    return "\n\n".join(
        f"```text\n{inspect.cleandoc(each)}\n```" if each.startswith("    ") else code(each.replace("::", ":"))
        for each in paragraphs
    )


def code(words: str) -> str:
    """Return reStructuredText's ``code`` as Markdown's."""
    return re.sub(r"``(.+?)``", r"`\1`", words)


def caption(example: Any) -> str:
    """Return what the colours and numbers of the picture mean."""
    trial, _ = rows_of(example)
    strip = "groups" if "groups" in trial.columns else "classes or numbers" if "y" in trial.columns else ""
    above = f" The strip above shows the {strip} of the rows." if strip else ""
    often = " A number says how often a row is drawn." if drawn_twice(example) else ""
    return (
        f"{ROWS} made-up rows, the first splits below one another. Orange: tested. Blue: trained on. Empty: neither."
        f"{often}{above}"
    )


@cache
def rows_of(example: Any) -> tuple[Any, Any]:
    """Return made-up rows for a strategy and the order in which they are shown: by time, group, target or place."""
    from evenfold.splitters.conformance import trial_of

    trial = trial_of(example, ROWS)
    by = trial.columns.get("time", _groups(trial) if "groups" in trial.columns else trial.columns.get("y"))
    if "coordinates" in trial.columns:  # block after block
        by = np.unique(np.floor(trial.columns["coordinates"] / example.block_size), axis=0, return_inverse=True)[1]
    return trial, np.arange(ROWS) if by is None else np.argsort(by, kind="stable")


def drawn_twice(example: Any) -> bool:
    """Return whether any split trains on a row more than once."""
    trial, _ = rows_of(example)
    return any(np.bincount(train).max() > 1 for train, _ in trial.pairs[:MOST_SPLITS])


def svg(example: Any) -> str:
    """Return the first splits as a picture that needs no style sheet: a row of the picture a split, a cell a row."""
    trial, order = rows_of(example)
    splits = trial.pairs[:MOST_SPLITS]
    marks = [_strip(trial, order)] if "groups" in trial.columns or "y" in trial.columns else []
    top = 30 if marks else 10
    for i, (train, test) in enumerate(splits):
        drawn = np.bincount(train, minlength=ROWS)[order]
        tested = np.isin(order, test)
        y = top + i * (HIGH + 4)
        marks.append(_words(LEFT - 8, y + 13, f"split {i}", "end"))
        marks += [
            _cell(at, y, int(count), bool(hit)) for at, (count, hit) in enumerate(zip(drawn, tested, strict=True))
        ]
    height = top + len(splits) * (HIGH + 4) + 22
    marks.append(_words(LEFT + ROWS * CELL / 2, height - 5, f"rows (number: {ROWS})", "middle"))
    said = escape(f"Which rows each split of {type(example).__name__} tests and trains on", quote=True)
    return f'<svg viewBox="0 0 {WIDTH} {height}" role="img" aria-label="{said}">{"".join(marks)}</svg>'


def _strip(trial: Any, order: Any) -> str:
    values = _groups(trial) if "groups" in trial.columns else trial.columns["y"]
    if "groups" not in trial.columns and np.asarray(values).dtype.kind == "f":
        ranks = np.argsort(np.argsort(values, kind="stable"), kind="stable")[order]
        colours = [f'fill="{STRIP[1]}" fill-opacity="{0.15 + 0.85 * rank / ROWS:.2f}"' for rank in ranks]
    else:
        codes = np.unique(values, return_inverse=True)[1][order]
        colours = [f'fill="{STRIP[code % len(STRIP)]}"' for code in codes]
    name = "groups" if "groups" in trial.columns else "target"
    cells = (f'<rect x="{LEFT + i * CELL}" y="8" width="{CELL}" height="10" {c}/>' for i, c in enumerate(colours))
    return _words(LEFT - 8, 17, name, "end") + "".join(cells)


def _groups(trial: Any) -> Any:
    """Return the column of groups, of several the last."""
    return np.asarray(trial.columns["groups"]).reshape(ROWS, -1)[:, -1]


def _cell(at: int, y: int, count: int, tested: bool) -> str:
    box = f'x="{LEFT + at * CELL + 0.5}" y="{y}" width="{CELL - 1}" height="{HIGH}"'
    if not count and not tested:
        return f'<rect {box} fill="none" stroke="currentColor" stroke-opacity=".2"/>'
    drawn = f'<rect {box} fill="{TEST if tested else TRAIN}"/>'
    often = f'<text x="{LEFT + at * CELL + CELL / 2}" y="{y + 13}" font-size="11" text-anchor="middle">{count}</text>'
    return drawn + (often if count > 1 else "")


def _words(x: float, y: float, said: str, anchor: str) -> str:
    return f'<text x="{x:g}" y="{y}" font-size="12" text-anchor="{anchor}" fill="currentColor">{escape(said)}</text>'
