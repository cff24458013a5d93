"""An audit and a record are made once for a split and its data, and again as soon as something is another."""

from pathlib import Path
from typing import Any

import pytest
from evenfold.flows import Evaluation, evaluate
from evenfold.manifests import measure, verify
from evenfold.splitters import SplitError
from evenfold.tasks import Home, audit_split, split
from evenfold.tasks.record.splits import read_split, record_split, split_run_of
from evenfold.tasks.record.tracker import SEEN, tracker_of
from evenfold.tasks.splits import newest, stage_split
from evenfold.tasks.steps import finished_here
from mlflow.tracking import MlflowClient
from small import small


def test_an_audit_is_kept_until_a_file_is_written_again(home: Home, tmp_path: Path) -> None:
    """The second one is the first, word for word; a leak that comes with the same rows and targets is found at once."""
    path = tmp_path / "rows.parquet"
    small().to_parquet(path)
    made = split.fn(str(path), key="id", target="y", strategy="KFold")
    first, second = finished_here(audit_split, made), finished_here(audit_split, made)
    assert (first.cached, second.cached, second.value, second.value.failed) == (False, True, first.value, [])
    small().assign(b=small()["y"] * 3).to_parquet(path)
    third = finished_here(audit_split, made)
    assert not third.cached
    assert "EF301" in {finding.code for finding in third.value.findings}, third.value.findings


def test_other_features_and_gates_are_other_audits(home: Home, tmp_path: Path) -> None:
    path = tmp_path / "rows.parquet"
    small().assign(copy=small()["y"]).to_parquet(path)
    made = split.fn(str(path), key="id", target="y", strategy="KFold")
    asked: list[dict[str, Any]] = [{}, {"features": ["a"]}, {"gates": {"duplicate_rows": "off"}}]
    told = [finished_here(audit_split, made, **how) for how in asked]
    assert [one.cached for one in told] == [False] * 3
    assert [bool(one.value.failed) for one in told] == [True, False, True]
    assert [finished_here(audit_split, made, **how).cached for how in asked] == [True] * 3


@pytest.mark.parametrize("strategy", ["HashSplit", "StratifiedSplit"])
def test_parts_in_another_order_are_another_split_whatever_was_decided_before(
    home: Home, tmp_path: Path, strategy: str
) -> None:
    """Rows are dealt to parts in the order in which they are named; each order is found again."""
    small().assign(y=small()["y"] > 0).to_parquet(tmp_path / "rows.parquet")

    def decided(name: str, *order: str) -> Any:
        parts = {part: {"train": 0.6, "test": 0.4}[part] for part in order}
        spec = {"columns": {"key": ["id"], "target": "y"}, "strategy": strategy, "params": {"parts": parts}}
        return finished_here(split, str(tmp_path / "rows.parquet"), {**spec, "name": name}).value

    alone = decided("alone", "test", "train")
    before, after = decided("rows", "train", "test"), decided("rows", "test", "train")
    assert after.split_id == alone.split_id != before.split_id
    assert (before.version, after.version) == ("1.0", "2.0")
    assert decided("rows", "train", "test") == before
    assert newest(home, before.stored().spec) is None
    manifest = Path(before.uri, "manifest.json")
    manifest.write_text(manifest.read_text().replace('"params": {"parts"', '"params": {"damaged"'))
    assert decided("rows", "train", "test").split_id == before.split_id


def test_a_retraining_makes_a_damaged_version_anew_in_its_place(home: Home, tmp_path: Path) -> None:
    small().to_parquet(tmp_path / "rows.parquet")
    made = split.fn(str(tmp_path / "rows.parquet"), key="id", target="y", name="rows")
    spec = made.stored().spec
    Path(made.uri, "assignments-0000.parquet").write_bytes(b"")
    anew = stage_split.fn(made.data, spec, str(home.splits / "rows" / ".writing"))
    assert (anew.uri, anew.staged, anew.split_id) == (made.uri, "", made.split_id)
    assert verify(anew.uri).intact


def test_a_record_of_a_split_that_broke_off_is_completed_by_what_rests_on_it(home: Home, tmp_path: Path) -> None:
    small().to_parquet(tmp_path / "rows.parquet")
    made = split.fn(str(tmp_path / "rows.parquet"), key="id", target="y", name="rows")
    run_id, client = record_split.fn(made).run_id, tracker_of(made).client
    client.set_terminated(run_id, "FAILED")
    assert split_run_of(made) == run_id
    assert client.get_run(run_id).info.status == "FINISHED"


def test_a_plan_of_parts_in_two_orders_names_neither(home: Home, tmp_path: Path) -> None:
    """Their plan_id is one, for its JSON has sorted keys; their split_id tells them apart."""
    small().to_parquet(tmp_path / "rows.parquet")
    both = [
        split.fn(str(tmp_path / "rows.parquet"), key="id", name="rows", strategy="HashSplit", params={"parts": parts})
        for parts in ({"train": 0.6, "test": 0.4}, {"test": 0.4, "train": 0.6})
    ]
    assert both[0].plan_id == both[1].plan_id
    for made in both:
        record_split.fn(made, measure(made.stored(), made.data))
        assert read_split(made.split_id).split_id == made.split_id
    with pytest.raises(SplitError, match=r"names 2 splits in .*\(rows@1\.0 .* and rows@2\.0 .*\), of several"):
        read_split(both[0].plan_id)


RIDGE = {"estimator": "sklearn.linear_model:Ridge", "metrics": ["r2"]}


def evaluated(path: Path, **asked: Any) -> Evaluation:
    return evaluate(str(path), key="id", target="y", strategy="KFold", **{"model": RIDGE, "engine": "plain"} | asked)


def test_a_record_that_somebody_deleted_is_made_again(home: Home, tmp_path: Path) -> None:
    """In MLflow, or its page on disk; whatever else was written there makes us look again, not write."""
    path = tmp_path / "rows.parquet"
    small().to_parquet(path)
    first, client = evaluated(path), MlflowClient(home.tracking_store)
    client.set_tag(first.run_id, "looked", "at")
    assert evaluated(path).run_id == first.run_id
    page = next((home.path / "mlartifacts").glob(f"*/{first.run_id}/artifacts/report.html"))
    page.unlink()
    assert evaluated(path).run_id == first.run_id
    assert page.is_file()
    client.delete_run(first.run_id)
    second = evaluated(path)
    assert second.run_id != first.run_id
    client.delete_run(str(first.split_run_id))
    third = evaluated(path)
    assert third.split_run_id != first.split_run_id
    (home.path / SEEN).write_text('{"store": 1, "records": [[[')
    assert evaluated(path).run_id == third.run_id
    assert evaluated(path, run_label="another").run_id != third.run_id
