"""Plans index by index against torch's own, and against the formulas of Megatron and others."""

import pytest
import torch
from torch import Tensor
from torch.distributed.tensor.experimental._context_parallel import _load_balancer as balancers
from torch.nn.attention.flex_attention import create_block_mask

import posenc as pe
from posenc import Positions
from posenc.positions.plans import PLANS

SIZES = [1, 2, 3, 4, 8]


def of_ranks(plan: object, tokens: int, size: int) -> list[list[int]]:
    index = torch.arange(tokens)
    return [pe.shard(index, rank, size, plan, dim=0).tolist() for rank in range(size)]


@pytest.mark.parametrize("size", SIZES)
def test_zigzag_is_torchs_head_tail(size: int) -> None:
    tokens = 6 * size
    theirs = balancers._HeadTailLoadBalancer(tokens, size, "cpu")
    assert of_ranks("zigzag", tokens, size) == theirs._generate_indices().view(size, -1).tolist()
    restored = theirs._generate_indices(restore=True)[0]
    parts = list(torch.arange(tokens)[theirs._generate_indices()[0].long()].chunk(size))
    assert torch.equal(pe.unshard(parts, "zigzag", dim=0), torch.cat(parts)[restored])


def test_torch_goes_back_to_contiguous_where_posenc_refuses() -> None:
    """torch's context_parallel shards 12 tokens on 4 ranks without a balancer, and says nothing."""
    assert balancers._create_default_load_balancer(12, 4, "cpu") is None
    with pytest.raises(pe.PositionsError, match="not a multiple of 8: pad to 16"):
        pe.shard(torch.arange(12), 0, 4, "zigzag", dim=0)


def work_of_ranks(positions: Positions, plan: object, size: int) -> list[int]:
    keys = positions.ordered().keys
    seen = [positions.shard(r, size, plan).with_keys(keys).visible() for r in range(size)]
    return [int(x.sum()) for x in seen if x is not None]


def test_a_balancer_of_torch_is_a_plan() -> None:
    lengths = torch.tensor([16, 80, 32])
    whole = Positions.build(lengths=lengths, causal=True)
    document = torch.arange(3).repeat_interleave(lengths)

    def causal_in_document(b: Tensor, h: Tensor, q: Tensor, k: Tensor) -> Tensor:
        return (q >= k) & (document[q] == document[k])

    mask = create_block_mask(causal_in_document, 1, 1, 128, 128, device="cpu", BLOCK_SIZE=8)
    theirs = balancers._PTRRLoadBalancer(mask, 2)
    work = work_of_ranks(whole, lambda t, size: theirs._generate_indices().view(size, -1), 2)
    assert sum(work) == sum(n * (n + 1) // 2 for n in lengths.tolist())
    assert max(work) < 1.1 * min(work)
    # Head and tail of the whole row are of other documents, which balances nothing.
    assert work_of_ranks(whole, "zigzag", 2) == [800, 3104]
    assert work_of_ranks(whole, "striped", 2) == [1920, 1984]
    assert work_of_ranks(whole, pe.PerDocument(lengths.tolist()), 2) == [1952, 1952]


@pytest.mark.parametrize("size", SIZES)
def test_zigzag_is_megatrons_batch_on_this_cp_rank(size: int) -> None:
    """Chunks cp_rank and 2 cp_size - cp_rank - 1 of 2 cp_size, in megatron/core/utils.py."""
    chunks = torch.arange(4 * size).view(2 * size, -1)
    for rank, held in enumerate(of_ranks("zigzag", 4 * size, size)):
        assert held == chunks[[rank, 2 * size - rank - 1]].view(-1).tolist()


@pytest.mark.parametrize("size", SIZES)
def test_striped_is_the_paper_s_permutation(size: int) -> None:
    """Striped Attention, section 3: rank i holds all tokens that are i modulo the ranks."""
    tokens = list(range(5 * size))
    assert of_ranks("striped", 5 * size, size) == [tokens[rank::size] for rank in range(size)]


def thd_index(lengths: list[int], size: int, rank: int) -> list[int]:
    """thd_partition_src_index of TransformerEngine's context_parallel.cu, token by token."""
    starts = [sum(lengths[:n]) // size for n in range(len(lengths) + 1)]
    index = []
    for token in range(sum(lengths) // size):
        n = max(n for n, start in enumerate(starts[:-1]) if start <= token)
        held, at = starts[n + 1] - starts[n], token - starts[n]
        chunk = rank if at < held // 2 else 2 * (size - 1) - rank
        index.append(at + starts[n] * size + held // 2 * chunk)
    return index


def thd_positions(lengths: list[int], size: int, rank: int) -> list[int]:
    """freq_pos of Megatron's _apply_rotary_pos_emb_thd: where a shard's tokens are turned to."""
    found = []
    for length in lengths:
        half = length // size // 2
        found += range(rank * half, (rank + 1) * half)
        found += range(length - (rank + 1) * half, length - rank * half)
    return found


@pytest.mark.parametrize("size", SIZES)
def test_per_document_is_transformer_engines_thd(size: int) -> None:
    lengths = [2 * size, 6 * size, 4 * size]
    plan = pe.PerDocument(lengths)
    whole = Positions.build(lengths=lengths, causal=True)
    for rank, held in enumerate(of_ranks(plan, 12 * size, size)):
        assert held == thd_index(lengths, size, rank)
        mine = whole.shard(rank, size, plan)
        assert mine.keys.position.tolist() == thd_positions(lengths, size, rank)
        assert mine.keys.length is not None
        assert mine.keys.length.unique().tolist() == sorted(lengths)
    assert len(set(work_of_ranks(whole, plan, size))) == 1


def test_per_document_is_what_torchs_docstring_draws() -> None:
    """torch 2.13 goes document by document, so its ranks do not (pytorch #189902)."""
    lengths = [4, 8, 4]
    drawn = [[0, 3, 4, 5, 10, 11, 12, 15], [1, 2, 6, 7, 8, 9, 13, 14]]
    assert of_ranks(pe.PerDocument(lengths), 16, 2) == drawn
    theirs = balancers._PerDocumentHeadTailLoadBalancer([[8]], 2, "cpu")
    alone = theirs._generate_indices().view(2, -1).tolist()
    assert of_ranks(pe.PerDocument([8]), 8, 2) == alone


def test_ulysses_has_contiguous_tokens() -> None:
    assert of_ranks("ulysses", 12, 4) == torch.arange(12).view(4, 3).tolist()
    assert set(PLANS) == {"contiguous", "zigzag", "striped", "ulysses"}
