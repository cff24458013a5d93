"""Documents that anybody may have written: YAML and JSON become values that can be walked through, or an error."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

DEEPEST = 50
MOST_VALUES = 1_000_000
PLAIN = {str, int, float, bool, type(None)}  # most values: whether another is a mapping takes ten times as long to ask
TOO_DEEP = f"values are nested more than {DEEPEST} deep; write them flatter"
TOO_MANY = "there are more than {:,} values; keep long lists in a table"


def read_document(text: str) -> Any:
    """Return the plain values in a YAML or JSON text.

    Raises yaml.YAMLError for what is neither, and ValueError for values that YAML cannot make, for those that are
    nested more than 50 deep, and for more than a million of them, however short the text that stands for them.
    """
    import yaml

    _require_bounded_text(text)
    try:
        document = yaml.safe_load(text)
    except yaml.YAMLError:
        raise
    except Exception as error:  # !!int, !!timestamp and their like fail with whatever they meet
        raise ValueError(f"a value cannot be read ({type(error).__name__}: {str(error)[:100]})") from None
    require_bounded(document, MOST_VALUES)
    return document


def _require_bounded_text(text: str) -> None:
    """Raise ValueError for a text that opens more than 50 lists and mappings in one another, or stands for too many.

    Read to its first such place alone: what makes the values calls itself for each level, takes minutes for a line of
    brackets, and writes out what is merged (``<<``) as often as it is named. What is no YAML is left to it.
    """
    import yaml

    opened, count, held = list[tuple[str | None, int]](), 0, dict[str | None, int]()
    try:
        for event in yaml.parse(text, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader)):
            if isinstance(event, yaml.NodeEvent):
                count += held.get(event.anchor, 1) if isinstance(event, yaml.AliasEvent) else 1
            if isinstance(event, yaml.CollectionStartEvent):
                opened.append((event.anchor, count - 1))
            elif isinstance(event, yaml.CollectionEndEvent):
                anchor, before = opened.pop()
                held[anchor] = count - before
            if len(opened) > DEEPEST:
                raise ValueError(TOO_DEEP)
            if count > 2 * MOST_VALUES + 1:  # keys are counted here as well
                raise ValueError(TOO_MANY.format(MOST_VALUES))
    except (yaml.YAMLError, UnicodeError):
        pass


def require_bounded(values: Any, most: int | None = None) -> None:
    """Raise ValueError for values nested more than 50 deep, or within themselves, and for more than ``most``.

    What walks through values calls itself for each level, and a list may hold another a thousand times.
    """
    level, count, depth, seen = [(values, 1)], 1, 0, 0
    while count:
        seen += count
        if depth > DEEPEST:
            raise ValueError(TOO_DEEP)
        if most is not None and seen > most:
            raise ValueError(TOO_MANY.format(most))
        held, count = dict[int, tuple[Any, int]](), 0  # what may hold others, each once with how often it is there
        for value, times in level:
            if not isinstance(value, (Mapping, list, tuple)):
                continue
            inside = value.values() if isinstance(value, Mapping) else value
            count += times * len(inside)
            for each in inside:
                if type(each) not in PLAIN:
                    held[id(each)] = each, times + held.get(id(each), (each, 0))[1]
        depth, level = depth + 1, list(held.values())
