"""Converting a checkpoint's layout against copying the file.

    python -m benchmarks.conversion [--mib 1024] [--rounds 5] [--folder DIR] [--json FILE]

Cases: "llama", where 8 % of the bytes are weights of q and k; "all turned", where every tensor is;
"columns", where every tensor is stored (in, out). Each conversion is a process of its own, so that
its memory can be seen; its time is that of the call, with torch loaded where that is needed. Every
file is brought to the disk, as the conversion does, and copies are timed with and without that.
"""

import argparse
import json
import statistics
import struct
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from posenc.bench.timing import ratio

CONVERT = """
import resource, sys, time
from posenc.conversion.checkpoint import convert_checkpoint
from posenc.conversion.names import Names
path, out, columns = sys.argv[1:]
if columns:
    import torch
names = Names(columns=columns) if columns else "llama"
start = time.perf_counter()
convert_checkpoint(path, out, "half", "interleaved", head_dim=128, names=names)
seconds = time.perf_counter() - start
print(seconds, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)
"""
WIDTH = 4096
LAYER = {"q": 4096, "k": 1024, "v": 1024, "o": 4096, "up": 14336, "gate": 14336, "down": 14336}


def write(path: Path, mib: int, kinds: dict[str, int]) -> None:
    """A bf16 file of at least `mib` MiB, layer after layer of matrices (rows, 4096)."""
    header, size, layer = {}, 0, 0
    while size < mib * 2**20:
        for kind, rows in kinds.items():
            end = size + rows * WIDTH * 2
            name = f"model.layers.{layer}.{kind}_proj.weight"
            offsets = [size, end]
            header[name] = {"dtype": "BF16", "shape": [rows, WIDTH], "data_offsets": offsets}
            size = end
        layer += 1
    text = json.dumps(header).encode()
    block = bytes(range(256)) * 4096
    with path.open("wb") as file:
        file.write(struct.pack("<Q", len(text)) + text)
        for at in range(0, size, len(block)):
            file.write(block[: size - at])


def convert(path: Path, out: Path, columns: str = "") -> tuple[float, float]:
    """Seconds of the call, and MiB of the process at its largest."""
    command = [sys.executable, "-c", CONVERT, str(path), str(out), columns]
    ended = subprocess.run(command, capture_output=True, text=True, check=True)
    seconds, memory = map(float, ended.stdout.split())
    return seconds, memory


def copy(path: Path, out: Path, then: str = "") -> tuple[float, float]:
    start = time.perf_counter()
    subprocess.run(["cp", path, out], check=True)
    if then:
        subprocess.run([then, out], check=True)
    return time.perf_counter() - start, 0.0


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.conversion", description=__doc__)
    parser.add_argument("--mib", type=int, default=1024)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--folder", type=Path)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    found: dict[str, dict[str, float]] = {}
    with tempfile.TemporaryDirectory(dir=options.folder) as folder:
        out = Path(folder, "out")
        kinds = {
            "llama": (LAYER, ""),
            "all turned": ({"q": 4096}, ""),
            "columns": ({"q": 4096}, "q"),
        }
        for name, (layer, columns) in kinds.items():
            path = Path(folder, "in.safetensors")
            write(path, options.mib, layer)
            cases: dict[str, Callable[[], tuple[float, float]]] = {
                "convert": lambda path=path, columns=columns: convert(path, out, columns),
                "cp": lambda path=path: copy(path, out),
                "cp, sync": lambda path=path: copy(path, out, "sync"),
            }
            seconds: dict[str, list[float]] = {case: [] for case in cases}
            memory = 0.0
            for _ in range(options.rounds):
                for case, call in cases.items():
                    taken, used = call()
                    out.unlink()
                    seconds[case].append(taken)
                    memory = max(memory, used)
            found[name] = {
                "seconds": statistics.median(seconds["convert"]),
                "over cp": ratio(seconds["convert"], seconds["cp"]).median,
                "over cp, sync": ratio(seconds["convert"], seconds["cp, sync"]).median,
                "MiB": memory,
            }
            shown = ", ".join(f"{what} {value:.2f}" for what, value in found[name].items())
            print(f"{name}, {path.stat().st_size / 2**20:.0f} MiB: {shown}")
    if options.json:
        options.json.write_text(json.dumps(found, indent=2))


if __name__ == "__main__":
    main()
