"""Layouts of checkpoints: tensors and whole files, held to the scores that they give."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import safetensors
import safetensors.torch
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

import posenc as pe
from posenc.conversion.names import Names
from posenc.conversion.pairs import Change
from posenc.errors import SettingError, ShapeError
from posenc.terms import Rotate

DIRECTIONS = [("half", "interleaved"), ("interleaved", "half")]
WIDTH, TOKENS = 20, 7


def heads_of(x: Tensor, head_dim: int) -> Tensor:
    """(b, t, h * d) as (b, h, t, d)."""
    return x.unflatten(-1, (-1, head_dim)).transpose(1, 2)


def trailing(dim: int, start: int, layout: Any) -> Rotate:
    """MLA: `dim` dimensions rotate, behind `start` that do not."""
    rates = 10_000.0 ** -(torch.arange(0, dim, 2, dtype=torch.float64) / dim)
    angle = torch.arange(TOKENS, dtype=torch.float64)[None, None, :, None] * rates
    return Rotate(angle, angle, layout, start=start)


# Head dimension, what rotates of it, and the encoding in a layout.
HEADS: dict[str, tuple[int, dict[str, int], Callable[[Any], Any]]] = {
    "whole": (16, {}, lambda layout: pe.Rotary(16, layout=layout)),
    "one pair": (2, {}, lambda layout: pe.Rotary(2, layout=layout)),
    "partial": (16, {"rotary_dim": 6}, lambda layout: pe.Rotary(16, layout=layout, rotary_dim=6)),
    "trailing": (16, {"rotary_dim": 6, "start": 10}, lambda layout: trailing(6, 10, layout)),
    "from the end": (16, {"rotary_dim": 6, "start": -6}, lambda layout: trailing(6, 10, layout)),
    "in the middle": (16, {"rotary_dim": 6, "start": 3}, lambda layout: trailing(6, 3, layout)),
    "proportional": (
        16,
        {},
        lambda layout: pe.Rotary(16, layout=layout, scaling=pe.Proportional(0.25)),
    ),
    "scaled": (
        16,
        {},
        lambda layout: pe.Rotary(16, layout=layout, scaling=pe.YaRN(factor=4, original_length=4)),
    ),
}


def scores(x: Tensor, weights: list[Tensor], head_dim: int, encoding: Any) -> Tensor:
    """The scores of a layer with the weights and biases of q and k."""
    w_q, b_q, w_k, b_k = weights
    q, k = heads_of(x @ w_q.T + b_q, head_dim), heads_of(x @ w_k.T + b_k, head_dim)
    return pe.scores(q, k, encoding)


@pytest.mark.parametrize("kind", HEADS)
@pytest.mark.parametrize(("source", "target"), DIRECTIONS)
def test_scores_stay_what_they_were(source: Any, target: Any, kind: str) -> None:
    """With biases, and four query heads to two of keys."""
    torch.manual_seed(0)
    head_dim, rotated, encoding = HEADS[kind]
    x = torch.randn(2, TOKENS, WIDTH, dtype=torch.float64)
    old = [
        torch.randn(count * head_dim, *rest, dtype=torch.float64)
        for count, rest in ((4, [WIDTH]), (4, []), (2, [WIDTH]), (2, []))
    ]
    new = [pe.convert_layout(w, source, target, head_dim=head_dim, **rotated) for w in old]
    before = scores(x, old, head_dim, encoding(source))
    torch.testing.assert_close(
        scores(x, new, head_dim, encoding(target)), before, rtol=0, atol=1e-11
    )
    # The weights of the one layout in the other are wrong, which is what conversion is for.
    if head_dim > 2:
        assert (scores(x, old, head_dim, encoding(target)) - before).abs().max() > 1e-2
    back = [pe.convert_layout(w, target, source, head_dim=head_dim, **rotated) for w in new]
    assert all(torch.equal(a, b) for a, b in zip(back, old, strict=True))


def test_proportional_pairs_over_the_whole_head() -> None:
    """Its first quarter of pairs alone, as partial rotary has them, gives other scores."""
    torch.manual_seed(0)
    q, k = torch.randn(2, 1, 2, TOKENS, 16, dtype=torch.float64)
    encoding = pe.Rotary(16, layout="half", scaling=pe.Proportional(0.5))
    other = pe.Rotary(16, layout="interleaved", scaling=pe.Proportional(0.5))
    before = pe.scores(q, k, encoding)
    for rotated, right in ({}, True), ({"rotary_dim": 8}, False):
        convert = {"head_dim": 16, "dim": -1, **rotated}
        new = [pe.convert_layout(x, "half", "interleaved", **convert) for x in (q, k)]
        error = (pe.scores(*new, other) - before).abs().max()
        assert (error < 1e-12) == right


@pytest.mark.parametrize("dim", [0, -1])
def test_lora_changes_its_outer_factor_alone(dim: int) -> None:
    """B of (out, rank), or (rank, out) beside kernels stored (in, out); A stays."""
    torch.manual_seed(0)
    weight, a, b = (torch.randn(32, n, dtype=torch.float64) for n in (WIDTH, 3, 3))
    merged = pe.convert_layout(weight + b @ a[:WIDTH].T, "half", "interleaved", head_dim=8)
    w, factor = (weight, b) if dim == 0 else (weight.T, b.T)
    w, factor = (
        pe.convert_layout(x, "half", "interleaved", head_dim=8, dim=dim) for x in (w, factor)
    )
    delta = factor @ a[:WIDTH].T if dim == 0 else a[:WIDTH] @ factor
    torch.testing.assert_close((w + delta) if dim == 0 else (w + delta).T, merged)


@pytest.mark.parametrize("kv_heads", [1, 2, 4])
@pytest.mark.parametrize("order", ["concatenated", "grouped"])
def test_fused_matrices_change_as_their_parts_do(order: Any, kv_heads: int) -> None:
    q, k, v = (torch.randn(n, 8, 5) for n in (4, kv_heads, kv_heads))

    def fuse(q: Tensor, k: Tensor) -> Tensor:
        if order == "concatenated":
            return torch.cat((q, k, v)).flatten(0, 1)
        groups = [
            torch.cat((own, k[i : i + 1], v[i : i + 1])) for i, own in enumerate(q.chunk(kv_heads))
        ]
        return torch.cat(groups).flatten(0, 1)

    options = {"head_dim": 8, "rotary_dim": 6}
    apart = [pe.convert_layout(x, "half", "interleaved", **options, dim=1) for x in (q, k)]
    fused = pe.FusedHeads(4, kv_heads, order)
    together = pe.convert_layout(fuse(q, k), "half", "interleaved", **options, fused=fused)
    assert torch.equal(together, fuse(*apart))


@pytest.mark.parametrize(
    "dtype", [torch.bfloat16, torch.float8_e4m3fn, torch.int8, torch.complex64, torch.uint16]
)
def test_any_dtype_is_moved_bit_for_bit(dtype: torch.dtype) -> None:
    weight = torch.arange(96, dtype=torch.uint8).view(12, 8).view(dtype)
    new = pe.convert_layout(weight, "half", "interleaved", head_dim=6)
    expected = weight.view(torch.uint8).view(2, 2, 3, 8).transpose(1, 2).reshape(12, 8)
    assert torch.equal(new.view(torch.uint8), expected)
    assert new.dtype == dtype


def test_gradients_pass_and_the_old_weight_stays() -> None:
    weight = torch.randn(8, 3, requires_grad=True)
    kept = weight.detach().clone()
    new = pe.convert_layout(weight, "half", "interleaved", head_dim=8)
    new.square().sum().backward()
    torch.testing.assert_close(weight.grad, 2 * kept)
    assert torch.equal(weight, kept)


@given(st.data())
def test_every_order_is_a_permutation_and_undone_by_its_inverse(data: st.DataObject) -> None:
    rotated = 2 * data.draw(st.integers(1, 12))
    start, after = (data.draw(st.integers(0, 9)) for _ in range(2))
    head_dim = start + rotated + after
    source, target = data.draw(st.sampled_from(DIRECTIONS))
    first = data.draw(st.sampled_from([start, start - head_dim]))
    order = Change(source, target, head_dim, rotated, first).rows((True, False, True))
    back = Change(target, source, head_dim, rotated, first).rows((True, False, True))
    assert [order[i] for i in back] == list(range(3 * head_dim))
    assert order[head_dim : 2 * head_dim] == list(range(head_dim, 2 * head_dim))
    # Pairs of the new layout are the pairs of the old one, in their order.
    place = {
        "half": lambda i: (start + i, start + rotated // 2 + i),
        "interleaved": lambda i: (start + 2 * i, start + 2 * i + 1),
    }
    for i in range(rotated // 2):
        assert tuple(order[j] for j in place[target](i)) == place[source](i)


class TestTransformers:
    def test_their_permutation_is_ours(self) -> None:
        from transformers import LlamaConfig
        from transformers.core_model_loading import PermuteForRope

        weight, bias = torch.randn(32, 5), torch.randn(32)
        config = LlamaConfig(hidden_size=32, num_attention_heads=4)
        for inverse, (source, target) in zip((True, False), DIRECTIONS, strict=True):
            permute = PermuteForRope(inverse=inverse)._permute_for_rope
            for tensor in (weight, bias):
                ours = pe.convert_layout(tensor, source, target, head_dim=8)
                assert torch.equal(ours, permute(tensor, config))

    def test_their_grouped_keys_are_cut_into_the_heads_of_queries(self) -> None:
        """With 4 query heads to 2 of keys, PermuteForRope takes the keys for heads of 4, not 8."""
        from transformers import LlamaConfig
        from transformers.core_model_loading import PermuteForRope

        weight = torch.randn(16, 5)
        config = LlamaConfig(hidden_size=32, num_attention_heads=4, num_key_value_heads=2)
        theirs = PermuteForRope(inverse=True)._permute_for_rope(weight, config)
        assert torch.equal(theirs, pe.convert_layout(weight, "half", "interleaved", head_dim=4))
        assert not torch.equal(theirs, pe.convert_layout(weight, "half", "interleaved", head_dim=8))

    def test_a_converted_llama_says_the_same_with_interleaved_rotary(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Llama's own layers, around the interleaved rotary of transformers' Cohere."""
        from transformers import LlamaConfig, LlamaForCausalLM
        from transformers.models.cohere import modeling_cohere
        from transformers.models.llama import modeling_llama

        config = LlamaConfig(
            vocab_size=50,
            hidden_size=32,
            intermediate_size=16,
            num_hidden_layers=2,
            num_attention_heads=4,
            num_key_value_heads=2,
            attention_bias=True,
        )
        torch.manual_seed(0)
        model = LlamaForCausalLM(config).eval()
        for parameter in model.parameters():
            torch.nn.init.normal_(parameter, std=0.3)
        ids = torch.randint(50, (2, 11))
        with torch.no_grad():
            before = model(ids).logits
        model.save_pretrained(tmp_path / "half")
        changed = pe.convert_checkpoint(
            *(tmp_path / "half", tmp_path / "new", "half", "interleaved"),
            head_dim=8,
            heads=4,
            kv_heads=2,
        )
        assert len(changed) == 2 * 2 * 2
        for name in ("LlamaRotaryEmbedding", "apply_rotary_pos_emb"):
            theirs = getattr(modeling_cohere, name.replace("Llama", "Cohere"))
            monkeypatch.setattr(modeling_llama, name, theirs)
        other = LlamaForCausalLM(config).eval()

        def logits(folder: str) -> Tensor:
            weights = safetensors.torch.load_file(tmp_path / folder / "model.safetensors")
            other.load_state_dict(weights)
            with torch.no_grad():
                return other(ids).logits

        torch.testing.assert_close(logits("new"), before, rtol=1e-4, atol=1e-4)
        assert (logits("half") - before).abs().max() > 0.1


@pytest.mark.usefixtures("unhooked")
def test_tensors_that_no_layout_fits() -> None:
    weight = torch.zeros(24, 3)

    def change(**options: Any) -> Tensor:
        return pe.convert_layout(weight, "half", "interleaved", **{"head_dim": 8, **options})

    with pytest.raises(ShapeError, match=r"\(24, 3\): dimension 0 has 24 .* heads of 16"):
        change(head_dim=16)
    with pytest.raises(ShapeError, match="FusedHeads"):
        change(fused=pe.FusedHeads(2))
    with pytest.raises(ShapeError, match="dim=2"):
        change(dim=2)
    for dim in ("0", None, 1.0, True):
        with pytest.raises(SettingError, match=rf"dim={dim!r}\): .*whole number.*\(24, 3\)"):
            change(dim=dim)
    with pytest.raises(SettingError, match="no regular expression"):
        Names(rows="(")


def test_words_that_do_not_exist_are_refused(unhooked: None) -> None:
    with pytest.raises(SettingError, match="order is"):
        pe.FusedHeads(2, order="random")  # type: ignore[arg-type] - what is refused
    with pytest.raises(SettingError, match="target is 'half' or 'interleaved'"):
        pe.convert_layout(torch.zeros(8, 3), "half", "neox", head_dim=8)  # type: ignore[arg-type] - refused
