"""Documents that anybody may have written are read to their end, or refused before they cost anything."""

from __future__ import annotations

import pytest
from evenfold.splitters.documents import DEEPEST, read_document, require_bounded


def nested(deep: int) -> str:
    return "[" * deep + "]" * deep


def test_values_are_nested_at_most_fifty_deep() -> None:
    read_document(nested(DEEPEST))
    for deep in (DEEPEST + 1, 5_000):
        with pytest.raises(ValueError, match="nested more than 50 deep"):
            read_document(nested(deep))
    within: list[object] = []
    within.append(within)
    with pytest.raises(ValueError, match="nested more than 50 deep"):
        require_bounded(within)


def test_a_short_text_cannot_stand_for_a_million_values() -> None:
    lists = ["a0: &a0 [1, 2, 3, 4, 5, 6, 7, 8, 9, 0]"]
    lists += [f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 10)}]" for i in range(1, 7)]
    read_document("\n".join(lists[:3]))
    require_bounded([[0], 0], most=4)  # both lists are values too
    with pytest.raises(ValueError, match="there are more than 3 values"):
        require_bounded([[0], 0], most=3)
    with pytest.raises(ValueError, match="there are more than 1,000,000 values; keep long lists in a table"):
        read_document("\n".join(lists))


def test_mappings_that_are_merged_are_counted_before_they_are_made() -> None:
    """Each merges the one above twice: YAML would write out 2**40 entries to make a mapping of one."""
    assert read_document("a: &a {x: 1}\nb: {<<: *a, y: 2}") == {"a": {"x": 1}, "b": {"x": 1, "y": 2}}
    lines = ["a0: &a0 {x: 1}", *(f"a{i}: &a{i} {{<<: [*a{i - 1}, *a{i - 1}]}}" for i in range(1, 40))]
    assert read_document("\n".join(lines[:10]))["a9"] == {"x": 1}
    with pytest.raises(ValueError, match="there are more than 1,000,000 values; keep long lists in a table"):
        read_document("\n".join(lines))


def test_values_are_counted_as_often_as_they_stand_and_looked_through_once() -> None:
    """Forty levels of a list that holds the one below twice would be 2**40 values to go through."""
    shared = [1, 2]
    values = {"a": shared, "b": [shared, shared, (shared,)]}
    require_bounded(values, most=15)
    with pytest.raises(ValueError, match="there are more than 14 values"):
        require_bounded(values, most=14)
    pair: list[object] = []
    for _ in range(40):
        pair = [pair, pair]
    require_bounded(pair)
    for _ in range(11):
        pair = [1, pair]
    with pytest.raises(ValueError, match="nested more than 50 deep"):
        require_bounded(pair)
