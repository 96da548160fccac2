"""python -m posenc.bench.gpu: make the rows that are left, tell them, and say what is wrong."""

import argparse
import os
import sys
from pathlib import Path

# How it ends: everything is there; something is wrong; time was up, and the same command goes on.
DONE, WRONG, LEFT = 0, 1, 75


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m posenc.bench.gpu",
        description="Whether posenc is right and how fast it is on an NVIDIA GPU. The record is "
        "written after each row; the same command goes on where an earlier one ended.",
    )
    parser.add_argument("--out", type=Path, default=Path("docs/gpu.json"), help="the record")
    parser.add_argument("--only", default="", help="steps between commas: right, ceilings, kernels,"
                        " peers, lab; or words of names of rows")  # fmt: skip
    parser.add_argument("--minutes", type=float, default=9.0, help="after which no row begins")
    parser.add_argument("--rehearse", action="store_true", help="on the CPU, at tiny sizes, which "
                        "shows that rows run and nothing else")  # fmt: skip
    asked = parser.parse_args()
    if asked.rehearse:
        # Before Triton is imported, here and in the processes that make rows.
        os.environ["TRITON_INTERPRET"] = "1"
    # Our own kernels for CPUs are none of what is looked at, and a bare checkout has none.
    os.environ.setdefault("POSENC_NATIVE", "0")
    try:
        return _run(asked)
    except ModuleNotFoundError as error:
        print(f"posenc.bench.gpu: {sys.executable} has no {error.name}: it needs torch, for CUDA "
              "with its Triton, and jaxtyping, scipy, safetensors; another Python is chosen by "
              "make PYTHON=... gpu", file=sys.stderr)  # fmt: skip
        return WRONG


def _run(asked: argparse.Namespace) -> int:
    import torch

    from posenc.bench.gpu.report import line
    from posenc.bench.gpu.row import Found, Place, Row, Step
    from posenc.bench.gpu.run import run
    from posenc.errors import PosencError

    if not asked.rehearse and not torch.cuda.is_available():
        print("posenc.bench.gpu: torch sees no NVIDIA GPU here; --rehearse goes through it on the "
              "CPU, at tiny sizes", file=sys.stderr)  # fmt: skip
        return WRONG
    place = Place("cpu" if asked.rehearse else "cuda", tiny=asked.rehearse)

    def tell(step: Step, row: Row, found: Found) -> None:
        print(f"{step.name}: {row.name}: {line(found)}", flush=True)

    only = tuple(filter(None, (name.strip() for name in asked.only.split(","))))
    try:
        record, left = run(asked.out, place, only, asked.minutes, tell)
    except PosencError as error:
        print(f"posenc.bench.gpu: {error}", file=sys.stderr)
        return WRONG
    wrong = [name for _, name, found in record.rows() if not found.get("right", True)]
    failed = [name for _, name, found in record.rows() if "failed" in found]
    for name in wrong:
        print(f"WRONG: {name}")
    for name in failed:
        print(f"FAILED: {name}")
    print(f"{sum(1 for _ in record.rows())} rows in {asked.out}, {len(wrong)} wrong, "
          f"{len(failed)} failed, {left} left")  # fmt: skip
    if left:
        print("Time was up: the same command goes on")
    return WRONG if wrong or failed else LEFT if left else DONE


if __name__ == "__main__":
    sys.exit(main())
