"""Audit a hundred real tables that no leak was planted in, and publish every alarm.

``python -m benchmarks.leaks.clean`` writes clean.json beside this file. ``deserved.yaml`` says, by hand and with a
reason, of which alarms the warning is true.
"""

from __future__ import annotations

import json
import time
import warnings
from pathlib import Path

from .ours import frame_alarms
from .real import CLEAN, tables

RESULTS = Path(__file__).parent / "clean.json"


def main() -> None:
    results = []
    for name, frame, target in tables(0, CLEAN):
        started = time.process_time()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            alarms = frame_alarms(frame, target, "rownames")
        seconds = round(time.process_time() - started, 2)
        results.append(
            {"table": name, "rows": len(frame), "columns": frame.shape[1], "target": target, "seconds": seconds}
        )
        results[-1]["alarms"] = alarms
        print(len(results), name, len(alarms), flush=True)
        RESULTS.write_text(json.dumps(results, indent=1) + "\n")


if __name__ == "__main__":
    main()
