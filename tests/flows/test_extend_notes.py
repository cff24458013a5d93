"""What an extension alone says of a table that is not quite the next one."""

from __future__ import annotations

import numpy as np
import pandas as pd
from evenfold.tasks import Home

from evenfold import flows


def rows(n: int) -> pd.DataFrame:
    draw = np.random.default_rng(0)
    table = pd.DataFrame({"id": range(200), "count": draw.integers(0, 9, 200), "y": draw.normal(size=200)})
    return table.assign(place=np.where(table["id"] % 3, "inside", "outside")).head(n)


def test_an_extension_tells_what_changed_besides_its_rows(home: Home) -> None:
    """Corrected targets, another type, a value never seen, a lost column; then the next table is compared with this."""
    made = flows.split(rows(100), key="id", target="y", strategy="KFold", name="grown", engine="plain")
    plain = flows.extend(made.split.uri, rows(110), engine="plain")
    assert plain.notes == []
    odd = rows(130).assign(count=lambda table: table["count"] + 0.5)
    odd.loc[[3, 7, 11], "y"] += 100
    odd.loc[120:, "place"] = "on the roof"
    told = flows.extend(plain.split.uri, odd, engine="plain")
    assert told.added == 20
    said = " ".join(told.notes)
    assert "3 of 110 known rows (2.7%) have another y than before (rows 3, 7, 11 of the data)" in said
    assert "count was int and is float" in said
    assert "values that no known row had: place (1)" in said
    assert "roof" not in said
    assert flows.extend(told.split.uri, odd, engine="plain").notes == ["there is nothing new."]
    gone = flows.extend(told.split.uri, odd.drop(columns="place"), engine="plain")
    assert "place is gone" in " ".join(gone.notes)


def test_a_batch_is_compared_too(home: Home) -> None:
    """New rows alone: their types and categories; the known rows are not there to be compared."""
    made = flows.split(rows(100), key="id", target="y", strategy="KFold", name="batched", engine="plain")
    batch = rows(120).tail(20).assign(place="abroad")
    told = flows.extend(made.split.uri, batch, batch=True, engine="plain")
    assert [note for note in told.notes if "place (1)" in note]
    again = flows.extend(told.split.uri, rows(140).tail(20).assign(place="abroad"), batch=True, engine="plain")
    assert again.notes == [], "the batch before had that value"
    whole = rows(140).assign(place=lambda table: table["place"].where(table["id"] < 100, "abroad"))
    whole.loc[110, "y"] += 1
    (note,) = (note for note in flows.extend(again.split.uri, whole, engine="plain").notes if "nothing new" not in note)
    assert note.startswith("1 of 140 known rows (0.7%) has another y than before (row 110 of the data)")
    assert told.deleted == 0
