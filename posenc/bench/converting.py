"""Cases: converting a checkpoint's layout, against copying the file.

Every file is brought to the disk, as the conversion does it, and in "columns" every tensor is
stored (in, out), for which the conversion needs torch.
"""

import json
import struct
import subprocess
import tempfile
import weakref
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Self

from posenc.bench.case import Call, Case, Goal
from posenc.conversion.checkpoint import convert_checkpoint
from posenc.conversion.names import Names

FLOOR, UNSYNCED = "cp, sync", "cp"
ROWS = {"time": "convert a checkpoint of 1 GiB", "memory": "memory of converting 1 GiB"}
WIDTH = 4096
LAYER = {"q": 4096, "k": 1024, "v": 1024, "o": 4096, "up": 14336, "gate": 14336, "down": 14336}
# What a file holds: in Llama 8 % of the bytes are weights of q and k; else every tensor is.
KINDS = {"llama": LAYER, "all rotated": {"q": 4096}, "columns": {"q": 4096}}


@dataclass(frozen=True)
class CheckpointSetting:
    """A bfloat16 file of at least `mib` MiB, layer after layer of matrices (rows, 4096)."""

    kind: str
    mib: int = 1024

    def inputs(self) -> "CheckpointInputs":
        folder = tempfile.TemporaryDirectory(prefix="posenc-bench-")
        inputs = CheckpointInputs(self, Path(folder.name))
        weakref.finalize(inputs, folder.cleanup)
        _write(inputs.path, self.mib, KINDS[self.kind])
        return inputs

    def small(self) -> Self:
        return replace(self, mib=1)


@dataclass(frozen=True, eq=False)
class CheckpointInputs:
    setting: CheckpointSetting
    folder: Path

    @property
    def path(self) -> Path:
        return self.folder / "in.safetensors"

    @property
    def out(self) -> Path:
        return self.folder / "out.safetensors"


def cases() -> Iterator[Case]:
    runs = {FLOOR: synced, UNSYNCED: copied, "posenc": ours}
    for kind in KINDS:
        setting = CheckpointSetting(kind)
        goal = Goal(ROWS["time"], kind, "posenc", FLOOR, 1.2, ())
        yield Case(f"convert, {kind}", "conversion", setting, runs, FLOOR, goals=(goal,),
                   rounds=(5, 7))  # fmt: skip
        # torch, which only columns need, is loaded here in any case.
        goal = Goal(ROWS["memory"], kind, "posenc", FLOOR, 64.0, ())
        held = {FLOOR: synced, "posenc": ours}
        yield Case(f"memory of converting, {kind}", "conversion", setting, held, FLOOR, "memory",
                   goals=(goal,), rounds=(3, 3), in_quick=False)  # fmt: skip


def ours(inputs: CheckpointInputs) -> Call:
    columns = inputs.setting.kind == "columns"
    names = Names(columns="q") if columns else "llama"

    def call() -> None:
        inputs.out.unlink(missing_ok=True)
        convert_checkpoint(
            str(inputs.path), str(inputs.out), "half", "interleaved", head_dim=128, names=names
        )

    return call


def copied(inputs: CheckpointInputs) -> Call:
    return lambda: subprocess.run(["cp", inputs.path, inputs.out], check=True)


def synced(inputs: CheckpointInputs) -> Call:
    def call() -> None:
        subprocess.run(["cp", inputs.path, inputs.out], check=True)
        subprocess.run(["sync", inputs.out], check=True)

    return call


def _write(path: Path, mib: int, kinds: dict[str, int]) -> None:
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
        for start in range(0, size, len(block)):
            file.write(block[: size - start])
