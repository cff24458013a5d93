"""Print where prefect.yaml lies, or with --serve run the deployments in this process: see serve.py."""

import sys
from pathlib import Path

if "--serve" in sys.argv[1:]:
    from .serve import main

    main()
else:
    sys.stdout.write(f"{Path(__file__).with_name('prefect.yaml')}\n")
