"""Two programs of dual chunk attention, told again: neither can be installed without a GPU."""

from collections.abc import Iterator

import torch
from torch import Tensor

from posenc.attention_parts import scores
from posenc.encodings import DualChunk
from posenc.testing.agreement import Case, peer

DIM = 8


@peer("dual_chunk", "torch")
def chunkllama_attn_replace() -> Iterator[Case]:
    """chunkllama_attn_replace.py of HKUNLP/ChunkLlama, a whole prompt, told again"""
    yield _case("prompt", chunk_size=6, local_size=2, length=17)
    yield _case("prompt", chunk_size=9, local_size=1, length=24)
    # Here old chunks are met from the last row of its table, 2 * 3 - 1, and not from chunk_size.
    yield _case("prompt", chunk_size=8, local_size=5, length=11)


@peer("dual_chunk", "torch")
def dual_chunk_rope() -> Iterator[Case]:
    """dual_chunk_rope.py of vLLM and its steps of decoding, told again"""
    yield _case("token", chunk_size=7, local_size=3, length=18)
    yield _case("token", chunk_size=5, local_size=1, length=9)


def _case(program: str, chunk_size: int, local_size: int, length: int) -> Case:
    width = chunk_size - local_size
    # What the programs clamp at chunk_size ends sooner where a chunk is short.
    last = min(2 * width - 1, chunk_size)
    local = min(local_size + 1, width)
    encoding = DualChunk(DIM, width, local, max(last + 1, width + local), base=100.0)
    theirs = _of_prompt if program == "prompt" else _of_tokens

    return Case(
        f"chunk_size {chunk_size}, local_size {local_size}, length {length}",
        lambda q, k: _seen(scores(q, k, encoding, causal=True)),
        lambda q, k: _seen(theirs(q, k, chunk_size, width)),
        [torch.randn(2, heads, length, DIM, dtype=torch.float64) for heads in (4, 2)],
    )


def _seen(x: Tensor) -> Tensor:
    return x.masked_fill(torch.ones(x.shape[-2:]).triu(1) > 0, 0.0)


def _of_prompt(q: Tensor, k: Tensor, chunk_size: int, width: int) -> Tensor:
    """Scores of a prompt: each chunk of queries before its own keys, those before, and the rest."""
    length = q.shape[2]
    rows = torch.arange(width)
    near, ahead = rows, (rows + width).clamp(max=chunk_size)
    k = _turned(k, torch.arange(length) % width)
    found = q.new_zeros(*q.shape[:2], length, length)
    for begin in range(0, length, width):
        own = slice(begin, min(begin + width, length))
        count = own.stop - own.start
        found[:, :, own, own] = _dot(_turned(q[:, :, own], near[:count]), k[:, :, own])
        if begin:
            before = slice(begin - width, begin)
            found[:, :, own, before] = _dot(_turned(q[:, :, own], ahead[:count]), k[:, :, before])
        if begin > width:
            old = slice(0, begin - width)
            last = ahead[-1].expand(count)
            found[:, :, own, old] = _dot(_turned(q[:, :, own], last), k[:, :, old])
    return found


def _of_tokens(q: Tensor, k: Tensor, chunk_size: int, width: int) -> Tensor:
    """Scores of one token after another, with keys that were turned when they came."""
    length = q.shape[2]
    found = q.new_zeros(*q.shape[:2], length, length)
    held = _turned(k, torch.arange(length) % width)
    for at in range(length):
        query, chunk = q[:, :, at : at + 1], at // width
        ahead = min(at % width + width, chunk_size)
        last = min(2 * width - 1, chunk_size)
        for stands, first, stop in (
            (last, 0, (chunk - 1) * width),
            (ahead, (chunk - 1) * width, chunk * width),
            (at % width, chunk * width, at + 1),
        ):
            some = slice(max(first, 0), max(stop, 0))
            turned = _turned(query, torch.tensor([stands]))
            found[:, :, at : at + 1, some] = _dot(turned, held[:, :, some])
    return found


def _turned(x: Tensor, at: Tensor) -> Tensor:
    """Llama's rotation: halves of a head are pairs."""
    angle = at[:, None] * 100.0 ** (-torch.arange(0, DIM, 2, dtype=torch.float64) / DIM)
    cos, sin = (torch.cat((wave, wave), dim=-1) for wave in (angle.cos(), angle.sin()))
    first, second = x.chunk(2, dim=-1)
    return x * cos + torch.cat((-second, first), dim=-1) * sin


def _dot(q: Tensor, k: Tensor) -> Tensor:
    return q @ k.repeat_interleave(q.shape[1] // k.shape[1], dim=1).mT * DIM**-0.5
