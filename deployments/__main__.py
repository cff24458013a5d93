"""Print where prefect.yaml lies, or with --automations automations.yaml; --serve runs the deployments: see serve.py."""

import sys
from pathlib import Path

if "--serve" in sys.argv[1:]:
    from .serve import main

    main()
else:
    name = "automations.yaml" if "--automations" in sys.argv[1:] else "prefect.yaml"
    sys.stdout.write(f"{Path(__file__).with_name(name)}\n")
