"""Cases: what one waits for before anything runs: imports, --help, torch.compile."""

import importlib.util
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Self

from posenc.bench.case import Call, Case, Goal, Unavailable

KEEPS_NOTHING = "PYTHONDONTWRITEBYTECODE"
COMPILE = """
import sys, time
import torch
import torch.nn.functional as F
torch.set_num_threads({threads})
import posenc as pe
q, k, v = torch.randn(3, 1, 8, 256, 64).requires_grad_()
{setup}
compiled = torch.compile(run, fullgraph=True)
start = time.perf_counter()
compiled(q, k, v).sum().backward()
print(time.perf_counter() - start)
"""
OURS = """
lowered = pe.lower({encoding}, 256, causal=True)
def run(q, k, v): return pe.attend(q, k, v, lowered)
"""
PLAIN = "def run(q, k, v): return F.scaled_dot_product_attention(q, k, v, is_causal=True)"
LLAMA = """
from transformers.models.llama.modeling_llama import apply_rotary_pos_emb
angle = torch.randn(1, 256, 64)
cos, sin = angle.cos(), angle.sin()
def run(q, k, v):
    q, k = apply_rotary_pos_emb(q, k, cos, sin)
    return F.scaled_dot_product_attention(q, k, v, is_causal=True)
"""

ROW = "before anything runs"
MEMORY_ROW = "memory before anything runs"
ALONE, TORCH, LIBRARIES = "python alone", "torch", "rich alone"
FIRST_USES = {
    TORCH: "import torch",
    "posenc": "import torch, posenc as pe; pe.Rotary(64)",
    "x-transformers": "import torch; from x_transformers import Decoder",
}
# After what each program runs, it tells the most memory that it held. Linux counts what the parent
# held to ru_maxrss of a process that it started, so there it is read elsewhere, in KiB.
TOLD = """
import pathlib, sys
if sys.platform == "linux":
    told = pathlib.Path("/proc/self/status").read_text().partition("VmHWM:")[2]
    print(int(told.split()[0]) / 2**10)
else:
    import resource
    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    print(most / (2**20 if sys.platform == "darwin" else 2**10))
"""


@dataclass(frozen=True)
class StartupSetting:
    """A fresh process."""

    what: str

    def inputs(self) -> Self:
        return self

    def small(self) -> Self:
        return self


def cases() -> Iterator[Case]:
    # Of the peers, those that start fastest.
    imports = {
        ALONE: program("pass"),
        "posenc": program("import posenc"),
        "transformers": program("import transformers", "transformers"),
        TORCH: program("import torch"),
    }
    goal = Goal(ROW, "import", "posenc", ALONE, 2.0, ("transformers",))
    yield _case("import", imports, ALONE, goal)
    used = {name: program(source, _needs(name)) for name, source in FIRST_USES.items()}
    goal = Goal(ROW, "import and first use", "posenc", TORCH, 1.1, ("x-transformers",))
    yield _case("import and first use", used, TORCH, goal)
    held = {name: holding(source, _needs(name)) for name, source in FIRST_USES.items()}
    goal = Goal(MEMORY_ROW, "import and first use", "posenc", TORCH, 15.0, ("x-transformers",))
    yield Case("memory of import and first use", "start", StartupSetting("memory"), held, TORCH,
               "told", (goal,), rounds=(7, 7), warm=False)  # fmt: skip
    helps = {
        ALONE: program("pass"),
        "posenc": program(
            "import sys; sys.argv = ['posenc', '--help']; from posenc.cli import main; main()"
        ),
        LIBRARIES: program("import rich.console, rich.table"),
    }
    goal = Goal(ROW, "--help", "posenc", ALONE, 6.0, (), LIBRARIES)
    yield _case("--help", helps, ALONE, goal)
    compiled = {
        "no position": compiling(PLAIN),
        "posenc t5": compiling(OURS.format(encoding="pe.T5Bias(8)")),
        "posenc rotary": compiling(OURS.format(encoding="pe.Rotary(64)")),
        "transformers rotary": compiling(LLAMA, "transformers"),
    }
    goals = tuple(
        Goal(ROW, f"torch.compile, {encoding}", f"posenc {encoding}", "no position", 1.2, others)
        for encoding, others in (("t5", ()), ("rotary", ("transformers rotary",)))
    )
    yield Case(
        "torch.compile, forward and backward, first call", "start", StartupSetting("compile"),
        compiled, "no position", goals=goals, rounds=(1, 1), warm=False, in_quick=False,
    )  # fmt: skip


def _case(
    what: str, runs: dict[str, Callable[[StartupSetting], Call]], floor: str, goal: Goal
) -> Case:
    setting = StartupSetting(what)
    return Case(f"time of {what}", "start", setting, runs, floor, goals=(goal,), rounds=(7, 9))


def program(source: str, needs: str | None = None) -> Callable[[StartupSetting], Call]:
    """A Python process that runs `source` and ends."""

    def make(setting: StartupSetting) -> Call:
        _check(needs)
        return lambda: _run(source)

    return make


def holding(source: str, needs: str | None = None) -> Callable[[StartupSetting], Call]:
    """The most MiB that such a process held."""

    def make(setting: StartupSetting) -> Call:
        _check(needs)
        return lambda: float(_run(source + TOLD).split()[-1])

    return make


def _run(source: str) -> bytes:
    # As an installed package: what is compiled once is kept.
    where = {name: value for name, value in os.environ.items() if name != KEEPS_NOTHING}
    command = [sys.executable, "-c", source]
    return subprocess.run(command, capture_output=True, check=True, env=where).stdout


def _needs(name: str) -> str | None:
    return None if name in (TORCH, "posenc") else name.replace("-", "_")


def compiling(setup: str, needs: str | None = None) -> Callable[[StartupSetting], Call]:
    """Seconds of the first call of what `setup` defines, compiled with empty caches."""

    def make(setting: StartupSetting) -> Call:
        import torch

        _check(needs)
        source = COMPILE.format(setup=setup, threads=torch.get_num_threads())

        def call() -> float:
            with tempfile.TemporaryDirectory() as folder:
                where = {**os.environ, "TORCHINDUCTOR_CACHE_DIR": folder}
                command = [sys.executable, "-c", source]
                ended = subprocess.run(command, capture_output=True, text=True, env=where)
            if ended.returncode:
                raise Unavailable((ended.stderr.strip() or "it ended").splitlines()[-1])
            return float(ended.stdout.split()[-1])

        return call

    return make


def _check(module: str | None) -> None:
    if module is not None and importlib.util.find_spec(module) is None:
        raise ModuleNotFoundError(f"No module named {module!r}", name=module)
