"""Every class and level has a metric of its own, in whatever alphabet and however alike they are."""

import numpy as np
import pandas as pd
import pytest
from evenfold.estimates import Confusion
from evenfold.manifests import decide, measure
from evenfold.tasks import Home
from evenfold.tasks.record.entries import Entry, balance_series, confusion_metrics, named_apart
from evenfold.tasks.record.tracker import Tracker

ALIKE = ("кот", "пёс", "C++", "C##", "C__ 2", "/", ".", "..", "")


def test_no_two_names_coincide_and_mlflow_takes_them(home: Home) -> None:
    names = named_apart(ALIKE)
    assert list(names) == list(ALIKE)
    assert (names["кот"], names["C++"], names["C##"]) == ("кот", "C__", "C__ 2")
    assert len(set(names.values())) == len(ALIKE)
    figures = {f"balance/share/{name}": float(place) for place, name in enumerate(names.values())}
    tracker = Tracker(home, "rows")
    with tracker.run(Entry(key="a", name="a", tags={}, params={}, metrics=figures)) as run_id:
        pass
    assert tracker.client.get_run(run_id).data.metrics == figures


@pytest.mark.parametrize("classes", [("кот", "пёс"), ("C##", "C++")])
def test_the_share_of_each_class_and_each_cell_is_kept(classes: tuple[str, str]) -> None:
    """Of 60 rows a third are of the second class; each fold holds both."""
    frame = pd.DataFrame({"id": range(60), "c": np.array(classes)[(np.arange(60) % 3 == 2).astype(int)]})
    spec = {"name": "rows", "columns": {"key": ["id"], "target": "c"}, "strategy": "StratifiedKFold"}
    series = balance_series(measure(decide(spec, frame), frame))
    shares = [folds for name, folds in series.items() if name.startswith("balance/share/")]
    assert [round(folds[0], 1) for folds in shares] == [0.7, 0.3]
    cells = confusion_metrics(Confusion(list(classes), [[1, 2], [3, 4]]))
    assert list(cells.values()) == [1.0, 2.0, 3.0, 4.0]
