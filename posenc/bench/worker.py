"""`python -m posenc.bench.worker REQUEST FILE`: measure one case, and write the answer."""

import json
import sys
from pathlib import Path

from posenc.atomic_files import write_json
from posenc.bench.cases import all_cases
from posenc.bench.measure import run

if __name__ == "__main__":
    write_json(Path(sys.argv[2]), run(json.loads(sys.argv[1]), all_cases()))
