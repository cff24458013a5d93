"""A hard limit on the seconds of a step: it runs in a process of its own, which is killed when its time is up.

A timeout on a thread can only report once the function has returned. The process reads what is asked of it from its
standard input and writes the answer to a file, so that a model may print what it likes.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from evenfold.estimates import EvaluationError, ModelError
from evenfold.splitters import SplitError, import_named

OURS = {each.__name__: each for each in (EvaluationError, ModelError, SplitError)}


def within(seconds: float, name: str, step: Callable[..., Any], arguments: dict[str, Any]) -> Any:
    """Return what ``step`` returns, run in a process of its own that is killed after ``seconds``.

    Arguments and result are JSON; the process's imports, some 3 seconds, count. Raises EvaluationError, which names
    the step, when the time is up or the process dies, and the errors of ours that the step raises.
    """
    with tempfile.TemporaryDirectory() as folder:
        answer, said = Path(folder) / "answer.json", Path(folder) / "said.txt"
        asked = {"step": f"{step.__module__}:{step.__name__}", "arguments": arguments, "answer": str(answer)}
        code = _run(json.dumps(asked), said, seconds)
        if code is None:
            raise EvaluationError(
                f"{name} took more than its {seconds:g} s and was stopped; raise time_limit, or use a lighter model."
            )
        if not answer.exists():
            last = said.read_text(errors="replace").strip().rpartition("\n")[2]
            raise EvaluationError(f"{name}: its process ended with code {code} and no result ({last[:300]}).")
        told = json.loads(answer.read_text())
    if "error" in told:
        raise OURS[told["error"]](told["message"])
    return told["value"]


def _run(asked: str, said: Path, seconds: float) -> int | None:
    """Return the exit code of the process, or None where its time was up; nothing that it started outlives it."""
    paths = os.pathsep.join(each for each in sys.path if each)
    with said.open("wb") as errors:
        process = subprocess.Popen(
            [sys.executable, "-m", __name__],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=errors,
            env={**os.environ, "PYTHONPATH": paths},
            start_new_session=True,
        )
    try:
        process.communicate(asked.encode(), timeout=seconds)
        return process.returncode
    except subprocess.TimeoutExpired:
        return None
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def _answer() -> None:
    asked = json.load(sys.stdin)
    try:
        told = {"value": import_named(asked["step"])(**asked["arguments"])}
    except tuple(OURS.values()) as error:
        told = {"error": type(error).__name__, "message": str(error)}
    Path(asked["answer"]).write_text(json.dumps(told))


if __name__ == "__main__":
    _answer()
