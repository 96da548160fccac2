"""Plant every mutant in a copy of posenc, and tell which of them nothing sees: `make mutants`."""

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from posenc.native.library import LIBRARY
from tests.mutants.mutants import MUTANTS, Mutant
from tests.support.copies import hide_the_install

ROOT = Path(__file__).parent.parent.parent
JUDGE = """
import sys, posenc as pe
from posenc.testing.suite import chosen_checks, run_check
names = [n for n in chosen_checks() if n not in ("check_compiles", "check_exports")]
failed = next((n for n in names if run_check({encoding}, n).status == "failed"), "")
print(failed)
sys.exit(bool(failed))
"""


def seen(mutant: Mutant, folder: Path) -> str:
    """What goes red for a mutant that stands in this folder; "" where nothing does."""
    shutil.copytree(ROOT / "posenc", folder / "posenc")
    hide_the_install(folder)
    for name in ("tests", "pyproject.toml"):
        (folder / name).symlink_to(ROOT / name)
    if mutant.old:
        path = folder / "posenc" / mutant.file
        text = path.read_text()
        assert text.count(mutant.old) == 1, f"{mutant.old!r} is not in {mutant.file} once"
        path.write_text(text.replace(mutant.old, mutant.new))
    command = ["-c", JUDGE.format(encoding=mutant.seen_by)]
    if mutant.seen_by.endswith(".py"):
        command = ["-m", "pytest", "-q", "-x", "-n", "0", "-p", "no:cacheprovider", mutant.seen_by]
    environment = os.environ | {"PYTHONPATH": str(folder), "OMP_NUM_THREADS": "1"}
    if mutant.file.endswith((".c", ".h")):
        environment["POSENC_NATIVE"] = str(built(folder))
    if mutant.needs:
        environment["POSENC_NATIVE_ISA"] = mutant.needs
    ended = subprocess.run(
        [sys.executable, *command], cwd=folder, env=environment, capture_output=True, text=True
    )
    if not ended.returncode:
        return ""
    return (ended.stdout.strip() or ended.stderr.strip() or "an error").splitlines()[-1]


def built(folder: Path) -> Path:
    """The C kernels of the copy of posenc in this folder."""
    build, source = folder / "build", folder / "posenc" / "native" / "cmake"
    cmake = Path(sys.executable).with_name("cmake")
    for command in (["-S", source, "-B", build], ["--build", build, "--parallel", "2"]):
        subprocess.run([cmake, *command], check=True, stdout=subprocess.DEVNULL)
    return build / "_kernels.so"


def has(instruction_set: str) -> bool:
    """Whether the C kernels run in it here."""
    return not isinstance(LIBRARY, str) and LIBRARY.reaches(instruction_set)


def main() -> int:
    chosen = [m for m in MUTANTS if all(word in m.file + m.new for word in sys.argv[1:])]
    for mutant in [m for m in chosen if m.needs and not has(m.needs)]:
        print(f"left out, no {mutant.needs} here | {mutant.file}: {mutant.new.splitlines()[0]}")
        chosen.remove(mutant)
    survivors = 0
    # Sound code must be green, or every mutant would seem to be seen.
    sound = [Mutant("", "", "", oracle) for oracle in sorted({m.seen_by for m in chosen})]
    for mutant in [*sound, *chosen]:
        with tempfile.TemporaryDirectory() as folder:
            witness = seen(mutant, Path(folder))
        wrong = bool(witness) != bool(mutant.old)
        survivors += wrong
        what = f"sound, {mutant.seen_by}"
        if mutant.old:
            what = f"{mutant.file}: {mutant.new.splitlines()[0]}"
        print(f"{'WRONG ' if wrong else ''}{what} | {witness or 'nothing is red'}", flush=True)
    print(f"{len(chosen)} mutants, {survivors} not as they should be")
    return 1 if survivors else 0


if __name__ == "__main__":
    sys.exit(main())
