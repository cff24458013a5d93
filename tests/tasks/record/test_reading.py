"""What is read back from the record is what was asked for, or a sentence that says why there is none."""

from __future__ import annotations

import pytest
from evenfold.splitters import SplitError
from evenfold.tasks import Home
from evenfold.tasks.record.entries import Entry
from evenfold.tasks.record.reading import read_recipe, read_split
from evenfold.tasks.record.tracker import Tracker
from small import small

from evenfold import flows


def test_an_underscore_in_a_name_stands_for_no_other_letter(home: Home) -> None:
    """The store's LIKE takes it for any: a split that nobody named would have been used instead."""
    made = flows.split(small(), key="id", target="y", name="my-split", strategy="KFold", engine="plain")
    assert read_split("my-split").split_id == made.split.split_id
    for name in ("my_split", "my%"):
        with pytest.raises(SplitError, match="there is no split"):
            read_split(name)


@pytest.mark.parametrize("text", ["{}", "[]", "null", '{"split": {}}', '{"split": "rows"}'])
def test_a_damaged_recipe_is_said_to_be(text: str, home: Home) -> None:
    """Whoever may write to the store may damage it; a command ends with a sentence."""
    tracker = Tracker(home, "rows")
    with tracker.run(Entry(key="a", name="Ridge @ rows 1.0", tags={}, params={}, metrics={})) as run_id:
        tracker.client.log_text(run_id, text, "recipe.json")
    with pytest.raises(SplitError, match=r"recipe\.json of run .* \(Ridge @ rows 1\.0\) is damaged"):
        read_recipe(run_id)
