"""Each rank's queries before the keys of all ranks: full attention, for every encoding."""

from collections.abc import Iterator
from dataclasses import replace

import pytest
import torch

import posenc as pe
from posenc import Positions
from posenc.analysis.probe_context import context_for, sizes_for
from posenc.lowering import embeds_only
from tests.support.oracles import drawing

LENGTHS = [5, 7]


def examples() -> Iterator[pe.Encoding]:
    for kind in pe.encodings().values():
        # PaTH's queries are the last of their keys: it refuses others by name.
        if kind is not pe.PaTH:
            yield from (e for e in kind.examples() if not embeds_only(e))


def placed(encoding: pe.Encoding) -> Positions:
    """Two packed documents, at coordinates in as many axes as the encoding reads."""
    if encoding.axes == 1:
        return Positions.build(lengths=LENGTHS, causal=True)
    ids = torch.arange(12 * encoding.axes).view(1, 12, encoding.axes) % 7
    documents = torch.arange(2).repeat_interleave(torch.tensor(LENGTHS))
    return Positions.build(ids=ids, documents=documents, causal=True)


@pytest.mark.parametrize(("plan", "size"), [("zigzag", 2), ("striped", 3)])
@pytest.mark.parametrize("encoding", list(examples()), ids=repr)
def test_queries_of_a_rank_before_all_keys_are_those_of_the_whole(
    encoding: pe.Encoding, plan: str, size: int
) -> None:
    encoding, sizes, draw = encoding.double(), sizes_for(encoding), drawing()
    q = draw(2, sizes.heads, 12, sizes.head_dim)
    k, v = (draw(2, sizes.kv_heads, 12, sizes.head_dim) for _ in range(2))
    whole, context = placed(encoding), context_for(encoding, 12)
    parts = []
    for rank in range(size):
        own = pe.shard(torch.arange(12), rank, size, plan, dim=0)
        mine = whole.shard(rank, size, plan).with_keys(whole.ordered().keys)
        told = None if context is None else replace(context, own=own)
        parts.append(pe.attend(q[:, :, own], k, v, encoding, positions=mine, context=told))
    full = pe.attend(q, k, v, encoding, positions=whole, context=context, backend="reference")
    found = pe.unshard(parts, plan, dim=2)
    torch.testing.assert_close(found, full, rtol=0, atol=1e-10)
