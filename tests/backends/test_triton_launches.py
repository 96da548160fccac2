"""What Triton's kernels are launched with, and how often they are compiled: no GPU is needed."""

import math
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from tests.support.fake_gpu import MARKS, fake_gpu, words

pytestmark = MARKS
KERNELS = "forward_kernel", "query_kernel", "key_kernel"


def turned(batch: int, length: int, dim: int = 16, layout: Any = "half", heads: int = 2) -> None:
    from posenc.triton import rotary

    q, k = (torch.empty(batch, n, length, dim, dtype=torch.bfloat16) for n in (heads, 1))
    wave = torch.empty(1, 1, length, dim // 2)
    rotary.rotated((q, k), (wave, wave), (wave, wave), layout)


def test_rotary_has_one_dimension_of_programs() -> None:
    """The others of a grid end at 65,535."""
    with fake_gpu() as gpu:
        turned(100_000, 1)
    (launch,) = gpu.launches
    assert launch.grid[1:] == (1, 1)
    # A program for eight heads of q or of k.
    assert launch.grid[0] == 200_000


def test_rotary_is_compiled_once_for_all_lengths_and_batches() -> None:
    from posenc.triton.rotary_kernel import rotate_kernel

    with fake_gpu() as gpu:
        before = gpu.compiled(rotate_kernel)
        for length in (513, 514, 528, 640, 1024, 1025):
            for batch in (1, 3, 16):
                turned(batch, length, dim=24)
    assert len(gpu.launches) == 18
    assert gpu.compiled(rotate_kernel) - before == 1


def test_the_next_layer_launches_rotary_as_the_layer_before() -> None:
    """By what its terms keep, which holds no tensor of a layer."""
    from posenc.triton import rotary

    owner = SimpleNamespace()
    wave, other = torch.empty(1, 1, 8, 8), torch.empty(1, 1, 8, 8)

    def layer(waves: torch.Tensor, heads: int = 2) -> list[torch.Tensor]:
        x = [torch.empty(1, n, 8, 16, dtype=torch.bfloat16) for n in (heads, 1)]
        out = rotary.rotated(x, (waves,) * 2, (waves,) * 2, "half", 0, owner)
        return [x[0], out[0], x[1], out[1]]

    with fake_gpu() as gpu, torch.no_grad():
        for waves, heads in ((wave, 2), (wave, 2), (other, 2), (other, 4), (other, 4)):
            tensors = layer(waves, heads)
            told = gpu.launches[-1].arguments
            names = "q", "out_q", "k", "out_k"
            assert all(told[name] is x for name, x in zip(names, tensors, strict=True))
            assert told["cos"] is waves
            assert told["q_heads"] == heads
    first, second, *_ = gpu.launches
    same = first.arguments.keys() - {"q", "out_q", "k", "out_k"}
    for name in same:
        one, two = first.arguments[name], second.arguments[name]
        assert one is two if isinstance(one, torch.Tensor) else one == two, name
    assert first.grid == second.grid
    held = owner._launched[4]
    assert not any(x is y for x in held for y in tensors)


@pytest.mark.parametrize("layout", ["half", "interleaved"])
@pytest.mark.parametrize("dim", [80, 96, 128])
def test_rotary_moves_16_bytes_at_once(dim: int, layout: Any) -> None:
    """Of tables of 40 and 48 pairs too."""
    with fake_gpu() as gpu:
        turned(1, 512, dim, layout, heads=8)
    compiled = gpu.launches[0].compiled
    assert words(compiled, "ld") == words(compiled, "st") == {16}


def decoded(batch: int, keys: int, heads: int = 2, dim: int = 16, **settings: Any) -> None:
    from posenc.triton import attention
    from posenc.triton.kernel_args import Inputs

    q, k = (torch.empty(batch, heads, count, dim, dtype=torch.bfloat16) for count in (1, keys))
    given: dict[str, Any] = {"width": 0, "sinks": 0, "prefix": 0, "zero": 128, "table": None}
    given |= {"past": torch.empty(heads), "sink": torch.empty(heads)} | settings
    attention._forward(
        *Inputs(
            q, k, k, future=given["past"], places=[], scale=0.1, causal=True, plain=True, **given
        )
    )


def attended(
    batch: int, q_len: int, k_len: int, rows: int = 9, zero: int = 8, dim: int = 16
) -> None:
    """Forward and backward, with a table that learns."""
    from posenc.triton import attention
    from posenc.triton.kernel_args import Inputs

    q, k = (torch.empty(batch, 2, count, dim, dtype=torch.bfloat16) for count in (q_len, k_len))
    table = torch.empty(2, rows)
    x = Inputs(q, k, k, table, None, None, [], zero, 0.1, True, 0, 0, 0, plain=True)
    out, lse = attention._forward(*x)
    attention._backward(out, out, lse, None, True, *x)


def test_attention_has_one_dimension_of_programs(monkeypatch: pytest.MonkeyPatch) -> None:
    with fake_gpu() as gpu:
        attended(50_000, 2, 2)
    # Sums of a table that learns are made for as many tiles at once as memory is to hold.
    grids = {name: [x.grid[0] for x in gpu.launches if x.name == name] for name in KERNELS}
    assert {name: sum(grid) for name, grid in grids.items()} == dict.fromkeys(KERNELS, 100_000)
    assert all(launch.grid[1:] == (1, 1) for launch in gpu.launches)


def test_attention_is_compiled_once_for_all_lengths_and_tables() -> None:
    from posenc.triton import launches, table_gradient

    kernels = [getattr(launches, name) for name in KERNELS]
    with fake_gpu() as gpu:
        before, of_table = gpu.compiled(*kernels), gpu.compiled(table_gradient.table_kernel)
        for q_len, k_len in ((2, 2), (16, 17), (100, 160), (130, 1000), (512, 512)):
            for rows in (2, 16, 33):
                attended(1, q_len, k_len, rows, zero=rows - 1, dim=32)
        assert gpu.compiled(*kernels) - before == 3
        # Which other tests may have compiled, for it knows no heads' width.
        assert gpu.compiled(table_gradient.table_kernel) - of_table <= 1


def test_decoding_has_one_dimension_of_programs() -> None:
    with fake_gpu() as gpu:
        decoded(50_000, 8)
    (launch,) = gpu.launches
    assert launch.grid == (100_000, 1, 1)


def test_decoding_is_compiled_once_for_all_lengths_and_windows() -> None:
    from posenc.triton.decoding import combine_kernel, decode_kernel

    with fake_gpu() as gpu:
        before = gpu.compiled(decode_kernel, combine_kernel)
        for keys in (511, 512, 513, 640, 1000, 4096, 30_000):
            for rows in (1, 16, 129):
                table = torch.empty(2, rows)
                decoded(1, keys, table=table, zero=rows - 1, width=keys // 2 + 300, sinks=rows)
        launched = {launch.name for launch in gpu.launches}
        assert launched == {"decode_kernel", "combine_kernel"}
        # One that writes what it is asked for, and one that writes parts of it.
        assert gpu.compiled(decode_kernel, combine_kernel) - before == 3


def test_decoding_takes_two_launches_whatever_is_added() -> None:
    with fake_gpu() as gpu:
        decoded(1, 30_000, table=torch.empty(1, 129))
    assert [launch.name for launch in gpu.launches] == ["decode_kernel", "combine_kernel"]
    # All of 132 multiprocessors have work, and none has three programs.
    assert 132 <= gpu.launches[0].grid[0] <= 264


@pytest.mark.parametrize("places", [216, 264])
def test_splits_fill_a_gpu_as_well_as_any_number_would(places: int) -> None:
    """Within the 15 in 100 of FlashAttention-3's heuristics.h, which tries all of them."""
    from posenc.triton.decoding import _SHORTEST, _splits

    for groups in (1, 2, 3, 8, 32, 40, 100, 131, 150, 200, 300, 1000):
        for keys in (0, 1, 200, 512, 4096, 32768, 131072):
            splits, each = _splits(groups, keys, places, 64)
            assert (splits - 1) * each < max(keys, 1) <= splits * each
            assert each % 64 == 0
            most = max(1, min(keys // _SHORTEST, places))
            if groups >= 0.8 * places or most == 1:
                assert splits == 1
                continue
            tried = [n for n in range(1, most + 1) if n * groups <= 4 * places]

            def filled(n: int, groups: int = groups) -> float:
                waves = groups * n / places
                return waves / math.ceil(waves)

            # Whole tiles of keys may be fewer than what was wanted.
            reach = max(filled(n) for n in tried)
            fewest = next(n for n in tried if filled(n) >= 0.85 * reach)
            assert splits <= fewest
            assert each == 64 * math.ceil(math.ceil(keys / fewest) / 64)
