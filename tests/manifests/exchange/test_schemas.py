"""The published JSON Schemas are those of the models, and what is written fits them."""

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from cases import CASES
from evenfold.manifests import audit, decide, extend, json_schemas, read_header, read_spec, write_manifest
from evenfold.splitters import SplitError, Splitter
from jsonschema import Draft202012Validator, ValidationError
from tables import quick_spec_of, table

ROOT = Path(__file__).parents[3]
SCHEMAS = {name.split("-")[1]: schema for name, schema in json_schemas().items()}
SHAPES = ("BalancedGroupKFold", "CombinatorialPurgedKFold", "ForwardChaining", "FromSklearn", "HashSplit")
NAMED = {type(splitter): splitter for splitter in CASES if type(splitter).__name__ in SHAPES}.values()


def validate(name: str, value: Any) -> None:
    """Raise ValidationError where ``value`` does not fit the schema; it goes through JSON, as others see it."""
    Draft202012Validator(SCHEMAS[name]).validate(json.loads(json.dumps(value)))


def test_the_published_schemas_are_those_of_the_models() -> None:
    published = {path.name: json.loads(path.read_text("utf-8")) for path in (ROOT / "docs" / "schemas").iterdir()}
    assert published == json_schemas(), "write them again: python docs/schemas.py"


@pytest.mark.parametrize("splitter", NAMED, ids=repr)
def test_headers_and_audits_of_every_shape_fit(splitter: Splitter, tmp_path: Path) -> None:
    frame, spec = table(60), quick_spec_of(splitter)
    manifest = decide(spec, frame)
    validate("spec", spec)
    validate("manifest", read_header(write_manifest(manifest, tmp_path)))
    validate("audit", audit(manifest, frame).model_dump(mode="json"))


def test_headers_of_grown_keyless_and_many_folds_fit(tmp_path: Path) -> None:
    frame = table(2400)
    spec = {"columns": {"key": "id", "target": "label"}, "holdout": 0.1}
    first = decide(spec, frame.iloc[:2000])
    write_manifest(first, tmp_path)
    grown = extend(first, frame.iloc[10:]).manifest
    keyless = decide({"name": "keyless", "strategy": "KFold"}, frame)
    many = decide({"name": "many", "columns": {"key": "id"}, "strategy": "LeaveOneOut"}, frame)
    for manifest in (grown, keyless, many):
        validate("manifest", read_header(write_manifest(manifest, tmp_path)))


@pytest.mark.parametrize(
    ("said", "fits"),
    [
        ({"columns": {"key": "id", "stratify": "a", "balance_on": "b"}}, True),
        ({"columns": {"key": None, "stratify": None, "balance_on": None}}, True),
        ({"columns": {"key": 0}}, False),
        ({"seed": 5.0}, True),
        ({"seed": True}, False),
        ({"holdout": {"budget": True}}, False),
        ({"label_horizon": 30, "columns": {"time": "day"}}, True),
        ({"label_horizon": True, "columns": {"time": "day"}}, False),
        ({"gates": {"duplicate_rows": True}}, False),
    ],
)
def test_the_schema_and_the_model_read_the_same_specifications(said: dict[str, Any], fits: bool) -> None:
    """`seed: true` was 1 and `key: 0` no key, without a word.

    The schema refused `balance_on: b` and `key: null`.
    """
    if fits:
        validate("spec", said)
        read_spec(said)
        return
    with pytest.raises(ValidationError):
        validate("spec", said)
    with pytest.raises(SplitError, match="does not fit"):
        read_spec(said)


def test_a_gate_is_off_without_quotes() -> None:
    """As the pages of findings write it: YAML reads false, which was a limit of 0, the strictest there is."""
    spec = read_spec(yaml.safe_load("gates: {size_deviation: off, duplicate_rows: 'off', absent_rows: 0}"))
    assert spec.gates == {"size_deviation": "off", "duplicate_rows": "off", "absent_rows": 0}
