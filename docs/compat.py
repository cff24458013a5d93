"""Run the newest versions that can be had of what evenfold rests on, in an environment of its own: ``make compat``.

Upper bounds of pyproject.toml are passed over on purpose: what is found here is what they may be raised to. Writes
docs/results/compatibility.json; a package whose newest version could not be installed is in it, with the reason.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tempfile
import tomllib
from datetime import UTC, datetime
from pathlib import Path

ROOT = Path(__file__).parent.parent
VENV = ROOT / ".venv-compat"
PYTHON = str(VENV / "bin" / "python")
NEWEST = ("prefect", "mlflow", "scikit-learn", "pandas", "narwhals")
FLOW = """
import sys
import numpy as np, pandas as pd
from evenfold.tasks import Home, prepare_environment
prepare_environment()
from evenfold.flows import evaluate
draw = np.random.default_rng(0)
frame = pd.DataFrame({"id": range(200), "x": draw.normal(size=200)})
frame["y"] = frame["x"] + draw.normal(size=200)
asked = dict(key="id", target="y", strategy="KFold", name="rows", metrics=["r2"], engine=sys.argv[1])
made = evaluate(frame, model="sklearn.linear_model:Ridge", **asked)
print(len(made.scores), made.split.split_id[:12], made.run_id)
"""


def ran(*command: str, home: str = "") -> tuple[bool, str]:
    """Return whether a command ended well, and the last line that it printed."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("PREFECT", "MLFLOW", "EVENFOLD"))}
    env = kept | {"OMP_NUM_THREADS": "1"} | ({"EVENFOLD_HOME": home} if home else {})
    done = subprocess.run(command, env=env, cwd=ROOT, capture_output=True, text=True, check=False)
    told = [line for line in (done.stdout if not done.returncode else done.stderr).splitlines() if line.strip()]
    return done.returncode == 0, told[-1][:300] if told else ""


def installed() -> dict[str, str]:
    """Return why the newest version of a package could not be had, by its name; every other one is the newest."""
    subprocess.run([sys.executable, "-m", "venv", str(VENV)], check=True)
    named = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["dependencies"]
    others = [each for each in named if not each.startswith(NEWEST)]
    pip, missing = [PYTHON, "-m", "pip", "install", "--quiet", "--upgrade"], {}
    good, why = ran(*pip, *NEWEST, *others, "setuptools>=77.0.3")
    if not good:  # one by one, to say which
        for package in NEWEST:
            good, why = ran(*pip, package)
            if not good:
                missing[package] = why
        ran(*pip, *named, "setuptools>=77.0.3")
    good, why = ran(PYTHON, "-m", "pip", "install", "--quiet", "--no-deps", "--no-build-isolation", "--editable", ".")
    return missing if good else missing | {"evenfold": why}


def older(versions: dict[str, str]) -> dict[str, str]:
    """Return, of each package of which pip took an older version than the index lists, the newest and why not that."""
    missing = {}
    for package, taken in versions.items():
        command = [PYTHON, "-m", "pip", "index", "versions", package]
        listed = subprocess.run(command, capture_output=True, text=True, check=False).stdout
        newest = next(iter(re.findall(r"\((\S+)\)", listed)), taken)
        if newest != taken:
            good, why = ran(PYTHON, "-m", "pip", "install", "--quiet", "--dry-run", f"{package}=={newest}")
            missing[package] = f"{newest}: {'it does not go with what else is installed' if good else why}"
    return missing


def main() -> None:
    """Install, run, and write what was found; ends with 1 where something that was installed does not work."""
    missing = installed()
    versions = {package: ran(PYTHON, "-c", f"from importlib.metadata import version; print(version({package!r}))")[1]
                for package in NEWEST}  # fmt: skip
    found = {}
    with tempfile.TemporaryDirectory() as folder:
        for engine in ("plain", "prefect"):
            good, said = ran(PYTHON, "-c", FLOW, engine, home=f"{folder}/{engine}")
            found[f"an evaluation, engine {engine}"] = {"works": good, "said": said}
    good, said = ran(PYTHON, "tests/golden_digests.py", "--check")
    found["folds and identities of every case"] = {"works": good, "said": said}
    told = {"date": datetime.now(UTC).date().isoformat(), "python": sys.version.split()[0], "versions": versions}
    told |= {"could not be had": missing | older(versions), "found": found}
    (ROOT / "docs" / "results" / "compatibility.json").write_text(json.dumps(told, indent=1) + "\n", encoding="utf-8")
    print(json.dumps(told, indent=1))
    sys.exit(0 if all(each["works"] for each in found.values()) else 1)


if __name__ == "__main__":
    main()
