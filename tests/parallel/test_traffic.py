"""What the simulator counts: bytes that ranks send, and the most that each holds at a time."""

import pytest
import torch

import posenc as pe
from posenc.encoding import Encoding
from posenc.parallel.sharded import Sharded
from posenc.parallel.simulator import Simulator, Traffic
from posenc.positions import Positions
from tests.support.rings import WAYS, in_parts

# Batch, query heads, key heads, head dimension, tokens of a rank.
B, H, G, D, N = 1, 8, 8, 16, 8
BLOCK = 2 * B * G * N * D * 4


def counted(name: str, size: int, encoding: Encoding, dtype=torch.float32) -> dict[str, Traffic]:
    way, plan = WAYS[name]
    comm, tokens = Simulator(size), N * size
    qkv = [torch.randn(B, heads, tokens, D).to(dtype).requires_grad_() for heads in (H, G, G)]
    sharded = Sharded(Positions.build(tokens, causal=True), size, plan)
    outs = in_parts(way, comm, encoding, qkv, None, sharded)
    torch.autograd.grad(sum(out.float().sin().sum() for out in outs), qkv)
    return comm.traffic


@pytest.mark.parametrize("size", [2, 4, 8])
def test_a_ring_sends_keys_and_values_on_and_never_holds_them_all(size: int) -> None:
    """k and v s - 1 times; again in the backward pass, with their gradients, which come home."""
    traffic = counted("zigzag", size, pe.Rotary(D))
    assert traffic["forward"].sent == [(size - 1) * BLOCK] * size
    assert traffic["backward"].sent == [(size - 1) * BLOCK + size * BLOCK] * size
    # Its own, those it has at the time, and those on their way; and their gradients twice.
    assert max(traffic["forward"].peak) <= 3 * BLOCK
    assert max(traffic["backward"].peak) <= 5 * BLOCK


def test_what_a_rank_holds_does_not_grow_with_the_ranks() -> None:
    for encoding in (pe.Rotary(D), pe.LearnedRotary(D), pe.ALiBi(H)):
        four, eight = (counted("zigzag", size, encoding) for size in (4, 8))
        for phase in ("forward", "backward"):
            assert max(four[phase].peak) == max(eight[phase].peak)


def test_halves_travel_as_halves_and_their_gradients_in_float32() -> None:
    traffic = counted("zigzag", 2, pe.Rotary(D), torch.bfloat16)
    assert traffic["forward"].sent == [BLOCK // 2] * 2
    assert traffic["backward"].sent == [BLOCK // 2 + 2 * BLOCK] * 2


def test_angles_that_learn_go_with_their_keys() -> None:
    traffic = counted("zigzag", 2, pe.LearnedRotary(D))
    angles = N * D // 2 * 8
    assert traffic["forward"].sent == [BLOCK + angles] * 2


@pytest.mark.parametrize("size", [2, 4, 8])
def test_ulysses_sends_each_token_once_and_holds_all_of_some_heads(size: int) -> None:
    traffic = counted("ulysses", size, pe.Rotary(D))
    each = B * H * N * D * 4
    for phase in ("forward", "backward"):
        # q, k, v and the output, but for what stays.
        assert traffic[phase].sent == [4 * each * (size - 1) // size] * size
    # All tokens of its heads, as they came and put together.
    assert min(traffic["forward"].peak) >= 3 * each
