"""Building positions against a copy of the tensors that they hold.

    python -m benchmarks.positions [--batch 512] [--tokens 8192] [--rounds 15] [--json FILE]

A copy is the least that anyone can do who writes these tensors; the default is too large for a
cache, where a copy costs anything from nothing to all the rest. Aim: at most 3 for what only counts
what is at hand. M-RoPE computes, and random positions are drawn: for these, drawing alone runs as
well, and where transformers has a way of its own to the same positions, that too. Every case runs
in turns in one process; figures are medians of ratios, in brackets where the median lies 19 times
of 20.
"""

import argparse
import json
from collections.abc import Callable
from pathlib import Path

import torch
from torch import Tensor
from torch.utils import _pytree as pytree

from posenc import Positions
from posenc.bench.timing import in_turns, ratio

IMAGE = 16


def ways(batch: int, tokens: int) -> dict[str, Callable[[], Positions]]:
    """What is built, by the name of what is at hand."""
    generator = torch.Generator().manual_seed(0)
    index = torch.arange(tokens)
    real = torch.randint(1, tokens + 1, (batch, 1), generator=generator)
    left, right = (index >= tokens - real).long(), (index < real).long()
    documents = (torch.rand(batch, tokens, generator=generator) < 0.005).cumsum(-1)
    lengths = torch.randint(1, 400, (batch * tokens // 200,), generator=generator)
    cu = torch.cat((lengths.new_zeros(1), lengths.cumsum(0))).int()
    ids = index.expand(batch, tokens).contiguous()
    types, grids = scene(batch, tokens)
    return {
        "attention_mask, left": lambda: Positions.build(attention_mask=left, causal=True),
        "attention_mask, right": lambda: Positions.build(attention_mask=right, causal=True),
        "documents": lambda: Positions.build(documents=documents, causal=True),
        "documents and mask": lambda: Positions.build(
            documents=documents, attention_mask=right, causal=True
        ),
        "cu_seqlens": lambda: Positions.build(cu_seqlens=cu, causal=True),
        "varlen": lambda: Positions.varlen(cu, cu, causal=True),
        "ids": lambda: Positions.build(ids=ids, causal=True),
        "static": lambda: Positions.static(1, tokens, real[:, 0] - 1),
        "rolling": lambda: Positions.rolling(past=4 * tokens, window=tokens, sinks=4),
        "mrope": lambda: Positions.mrope(types, grids, causal=True),
        "random": lambda: Positions.random(tokens, longest=4 * tokens, batch=batch),
        "skipping": lambda: Positions.skipping(tokens, longest=4 * tokens, batch=batch),
    }


def scene(batch: int, tokens: int) -> tuple[Tensor, Tensor]:
    """Token types of rows that are half images, and their grids."""
    size = IMAGE * IMAGE
    types = (torch.arange(tokens) // size % 2).expand(batch, tokens).contiguous()
    # What is left of the last image would be cut.
    types[:, tokens // size * size :] = 0
    count = int(types.sum()) // size
    return types, torch.tensor([1, IMAGE, IMAGE]).expand(count, 3)


def beside(batch: int, tokens: int) -> dict[str, tuple[str, Callable[[], object]]]:
    """What else runs: transformers' way, where coordinates of images count by rows, or drawing."""
    from types import SimpleNamespace

    from transformers.models.qwen2_vl.modeling_qwen2_vl import Qwen2VLModel

    mask = torch.ones(batch, tokens, dtype=torch.int64)
    types, grids = scene(batch, tokens)
    # It only counts, so its weights need not be made.
    model = object.__new__(Qwen2VLModel)
    vision = SimpleNamespace(spatial_merge_size=1)
    object.__setattr__(model, "config", SimpleNamespace(vision_config=vision))

    def padded() -> Tensor:
        # As in transformers.generation.utils, which checks nothing and keeps no other tensor.
        return (mask.long().cumsum(-1) - 1).masked_fill(mask == 0, 0)

    def drawn(numbers: int) -> Tensor:
        return torch.empty(batch, numbers, dtype=torch.float64).uniform_()

    def counted() -> object:
        return model.get_rope_index(types, types, grids, attention_mask=mask)

    return {
        "attention_mask, left": ("transformers", padded),
        "attention_mask, right": ("transformers", padded),
        "mrope": ("transformers", counted),
        "random": ("drawing", lambda: drawn(4 * tokens)),
        "skipping": ("drawing", lambda: drawn(tokens)),
    }


def held(positions: Positions) -> list[Tensor]:
    """The tensors of these positions, each piece of memory once."""
    leaves = [leaf for leaf in pytree.tree_leaves(positions) if isinstance(leaf, Tensor)]
    found = {leaf.untyped_storage().data_ptr(): leaf.untyped_storage() for leaf in leaves}
    return [torch.tensor([], dtype=torch.uint8).set_(storage) for storage in found.values()]


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.positions", description=__doc__)
    for name, default in (("batch", 512), ("tokens", 8192), ("rounds", 15)):
        parser.add_argument(f"--{name}", type=int, default=default)
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    others = beside(options.batch, options.tokens)
    table = {}
    for name, build in ways(options.batch, options.tokens).items():
        tensors = held(build())
        cases: dict[str, Callable[[], object]] = {
            "build": build,
            "copy": lambda tensors=tensors: [tensor.clone() for tensor in tensors],
        }
        if name in others:
            other, run = others[name]
            cases[other] = run
        seconds = in_turns(cases, seconds=0.0, rounds=(options.rounds, options.rounds))
        size = sum(map(len, tensors))
        milliseconds = sorted(seconds["build"])[options.rounds // 2] * 1e3
        over = {case: ratio(seconds["build"], seconds[case]) for case in list(cases)[1:]}
        shown = ", ".join(f"/ {case} {found}" for case, found in over.items())
        print(f"{name:>22}: {size / 2**20:6.2f} MiB, {milliseconds:7.2f} ms {shown}")
        intervals = {case: [found.low, found.median, found.high] for case, found in over.items()}
        table[name] = {"MiB": size / 2**20, "ms": milliseconds, **intervals}
    if options.json:
        options.json.write_text(json.dumps(table, indent=2))


if __name__ == "__main__":
    main()
