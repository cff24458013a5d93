import sys
from pathlib import Path

# With importlib import mode the test folder is no package; what tests share is imported from here.
sys.path.insert(0, str(Path(__file__).parent))
