"""What eight requests record does not change unless it is meant to."""

import json

import golden_requests
from evenfold.tasks import Home


def test_eight_requests_record_the_same_numbers_tags_and_identities_as_ever(home: Home) -> None:
    """Compared run by run, so that what differs is what pytest shows."""
    expected, found = json.loads(golden_requests.FILE.read_text()), json.loads(json.dumps(golden_requests.record()))
    assert found["compared"] == expected["compared"]
    assert [run["name"] for run in found["runs"]] == [run["name"] for run in expected["runs"]]
    for mine, theirs in zip(found["runs"], expected["runs"], strict=True):
        assert mine == theirs, theirs["name"]
    assert found["versions"] == expected["versions"]
