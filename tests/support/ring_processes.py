"""What each process of a gloo group computes for `tests/parallel/test_processes.py`.

Run as `python -m tests.support.ring_processes RANK SIZE FOLDER`; it writes the largest error of
each case, forward and backward, into FOLDER.
"""

import json
import sys
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import torch
import torch.distributed as dist
from torch import Tensor

import posenc as pe
from posenc import Encoding, Positions, attend, rotate, shard
from posenc.parallel.process_group import ProcessGroup
from posenc.parallel.sharded import Sharded
from posenc.testing.fixtures import attends
from tests.support.rings import (
    WAYS,
    arrangements,
    in_parts,
    leaves_of,
    refused,
    shared_out,
    trial_of,
    whole,
)

TOKENS = 16
# Alike in every process.
torch.manual_seed(0)
# Name, way, arrangement, encoding; two ranks also have every example in a ring and by heads, plain.
CASES: list[tuple[str, str, str, Encoding]] = [
    ("tables", "striped", "packed", pe.T5Bias(8, buckets=8, max_distance=20)),
    ("gates", "zigzag", "padded", pe.ForgetGate(32, heads=8)),
    ("angles that learn", "zigzag", "both ways", pe.LearnedRotary(8, heads=8)),
    ("heads", "ulysses", "packed", pe.T5Bias(8, buckets=8, max_distance=20)),
    ("heads and gates", "ulysses", "padded", pe.ForgetGate(32, heads=8)),
]


def error(got: Tensor, wanted: Tensor) -> float:
    return (got - wanted).abs().max().item()


def examples(size: int) -> Iterator[tuple[str, str, str, Encoding]]:
    """Examples that attend, in a ring and by heads as far as so many ranks can have it.

    By which plan tokens are shared out changes nothing of how ranks talk, and how many ranks there
    are nothing of what an encoding has them send: tests/parallel/test_simulated.py has up to eight.
    """
    for name, kind in pe.encodings().items():
        for number, encoding in enumerate(kind.examples()):
            if not attends(encoding):
                continue
            own, qkv, _ = trial_of(encoding, TOKENS)
            ways = [] if refused(own, Positions.build(TOKENS, causal=True)) else ["zigzag"]
            ways += ["ulysses"] if shared_out(qkv, size) else []
            for way in ways:
                yield f"{name} {number}, {way}", way, "plain", encoding


def run(name: str, arrangement: str, encoding: Encoding, comm: ProcessGroup) -> float:
    """The largest error of this rank's output and gradients; of parameters, summed over ranks."""
    positions = arrangements(TOKENS)[arrangement]
    own, qkv, context = trial_of(encoding, TOKENS)
    way, plan = WAYS[name]
    sharded = Sharded(positions, comm.size, plan)
    out, *wanted = whole(own, qkv, context, positions)
    (mine,) = in_parts(way, comm, own, qkv, context, sharded)
    leaves = leaves_of(own, qkv, context)
    grads = torch.autograd.grad(mine.sin().sum(), leaves, materialize_grads=True)
    for grad in grads:
        # Each rank has the part of its own outputs.
        dist.all_reduce(grad)
    pairs = [
        (mine, shard(out, comm.rank, comm.size, plan, dim=2)),
        *zip(grads, wanted, strict=True),
    ]
    return max(error(*pair) for pair in pairs)


def torchs_ring(comm: ProcessGroup) -> float:
    """torch's ring attention of queries and keys that a shard's positions turned, against ours."""
    from torch.distributed.tensor.experimental._context_parallel import _attention as torchs

    torchs._cp_options.enable_load_balance = True
    positions, encoding = Positions.build(TOKENS, causal=True), pe.Rotary(8)
    draw = torch.Generator().manual_seed(0)
    drawn = [torch.randn(2, 4, TOKENS, 8, generator=draw) for _ in range(3)]
    q, k, v = (shard(x, comm.rank, comm.size, "zigzag", dim=2) for x in drawn)
    expected = attend(*drawn, encoding, positions=positions)
    turned = rotate(q, k, encoding, positions=positions.shard(comm.rank, comm.size, "zigzag"))
    op = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu
    group = dist.group.WORLD
    theirs = torchs._templated_ring_attention(group, 2, op, *turned, v, is_causal=True)[0]
    ours = pe.ring_attend(q, k, v, encoding, positions=positions, plan="zigzag")
    of_rank = shard(expected, comm.rank, comm.size, "zigzag", dim=2)
    return max(error(theirs, of_rank), error(ours, of_rank))


def main() -> None:
    rank, size, folder = int(sys.argv[1]), int(sys.argv[2]), Path(sys.argv[3])
    torch.set_num_threads(1)
    store = dist.FileStore(str(folder / "store"), size)
    dist.init_process_group("gloo", store=store, rank=rank, world_size=size)
    comm = ProcessGroup()
    cases = [*CASES, *(examples(size) if size == 2 else ())]
    errors = {name: run(way, kind, encoding, comm) for name, way, kind, encoding in cases}
    # Which older versions have elsewhere.
    if find_spec("torch.distributed.tensor.experimental._context_parallel"):
        errors["torch's own ring"] = torchs_ring(comm)
    (folder / f"{rank}.json").write_text(json.dumps(errors))
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
