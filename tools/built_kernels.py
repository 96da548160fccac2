"""Say whether the C kernels were built; where they were not, fail under POSENC_CI.

pip does not tell: posenc also installs, and runs, without a C compiler.
"""

import os
import sys

from posenc.native.library import LIBRARY

WHY = ".venv/bin/python -m pip install --verbose --no-deps --editable ."

if isinstance(LIBRARY, str):
    print(f"*** No C kernels: {LIBRARY}. To see why: {WHY}", file=sys.stderr)
    sys.exit(1 if os.environ.get("POSENC_CI") else 0)
print(f"The C kernels were built; this machine uses those for {LIBRARY.instruction_set}.")
