"""What an extension alone says of a table that is not quite the next one."""

import numpy as np
import pandas as pd
import pytest
from evenfold.splitters import SplitError
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
    assert told.deleted == 0
    whole = rows(120)
    whole.loc[11, "y"] += 1
    notes = flows.extend(told.split.uri, whole, engine="plain").notes
    (note,) = (note for note in notes if "another y" in note)
    assert note.startswith("1 of 120 known rows (0.8%) has another y than before (row 11 of the data)")


@pytest.mark.parametrize("batch_first", [True, False])
def test_the_whole_table_and_the_batch_alone_make_one_version(batch_first: bool, home: Home) -> None:
    """The second was refused as "another decision", of the same split_id; it is the version that is there."""
    made = flows.split(rows(100), key="id", target="y", strategy="KFold", name=f"once{batch_first}", engine="plain")
    ways = [(rows(120), False), (rows(120).tail(20), True)]
    first, second = (
        flows.extend(made.split.uri, table, batch=batch, engine="plain")
        for table, batch in (reversed(ways) if batch_first else ways)
    )
    assert (first.split.reused, second.split.reused) == (False, True)
    assert second.split.model_copy(update={"reused": False, "data": first.split.data}) == first.split


@pytest.mark.parametrize("target", [None, "late"])
def test_a_batch_grows_whatever_its_target_is(target: object, home: Home) -> None:
    """KFold reads none; nor need it hold every rare value; one row is a batch, and none is not."""
    known = rows(100).assign(coupon=np.where(np.arange(100) % 20, np.nan, 5.0))
    made = flows.split(known, key="id", target="y", strategy="KFold", name="early", engine="plain")
    batch = rows(119).tail(19).drop(columns="y").assign(coupon=np.nan)
    batch = batch if target is None else batch.assign(y=target)
    grown = flows.extend(made.split.uri, batch, batch=True, engine="plain")
    assert (grown.added, [note for note in grown.notes if "no value" in note or "coupon" in note]) == (19, [])
    assert flows.extend(grown.split.uri, rows(120).tail(1), batch=True, engine="plain").added == 1
    with pytest.raises(SplitError, match="has 0 rows; 1 is needed at least"):
        flows.extend(made.split.uri, rows(0), batch=True, engine="plain")
