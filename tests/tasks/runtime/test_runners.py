"""Tasks are sent to other processes."""

from concurrent.futures import ThreadPoolExecutor

import pytest
from evenfold.tasks.runtime.limits import task_runner
from prefect.settings import PREFECT_API_URL, temporary_settings


def test_what_sends_on_for_a_pool_knows_the_server_of_its_flow(monkeypatch: pytest.MonkeyPatch) -> None:
    """That thread of Prefect's started a server of its own, which stayed: a command whose output is read hung."""
    monkeypatch.setenv("EVENFOLD_RUNNER", "processes")
    monkeypatch.delenv("PREFECT_API_URL", raising=False)
    with temporary_settings({PREFECT_API_URL: "http://127.0.0.1:1/api"}):
        runner = task_runner().duplicate()  # as a flow begins it
    (begin,) = runner.subprocess_message_processor_factories

    def sent_on() -> tuple[object, str | None]:
        return begin()("log", {"message": "fitted"}), PREFECT_API_URL.value()

    with ThreadPoolExecutor(1) as thread:
        assert thread.submit(sent_on).result() == (("log", {"message": "fitted"}), "http://127.0.0.1:1/api")
