"""Print where prefect.yaml lies, or with --automations automations.yaml."""

import sys
from pathlib import Path

name = "automations.yaml" if "--automations" in sys.argv[1:] else "prefect.yaml"
sys.stdout.write(f"{Path(__file__).with_name(name)}\n")
