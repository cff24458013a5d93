"""The command line in the tests' own process: a new one's imports take longer than most commands."""

import contextlib
import io
import os
import subprocess
import sys
from pathlib import Path
from unittest.mock import patch

from evenfold.flows.cli import main


def evenfold(folder: Path, *words: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Return what ``evenfold WORDS`` prints in a folder, and its exit code; the environment is this process's own."""
    out, err, code = io.StringIO(), io.StringIO(), 0
    with (
        contextlib.chdir(folder),
        patch.dict(os.environ, environment),
        patch.object(sys, "argv", ["evenfold", *words]),
        patch.object(sys, "path", [path for path in sys.path if path]),
        contextlib.redirect_stdout(out),
        contextlib.redirect_stderr(err),
    ):
        try:
            main()
        except SystemExit as stopped:
            code = stopped.code if isinstance(stopped.code, int) else int(stopped.code is not None)
    return subprocess.CompletedProcess(["evenfold", *words], code, out.getvalue(), err.getvalue())
