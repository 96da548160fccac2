from collections.abc import Iterator
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from posenc.attention import attend
from posenc.encodings import LogCPB, SwinBias
from posenc.positions import Positions
from posenc.testing.agreement import Case, peer
from tests.peers._layers import joined, split
from tests.peers._wide import in_float64


@peer("swin", "transformers")
def layer_of_swin() -> Iterator[Case]:
    """SwinAttention over windows, the whole layer"""
    from transformers.models.swin import modeling_swin as swin

    for side, heads, dim in ((7, 3, 32), (4, 12, 20), (1, 2, 8)):
        config = swin.SwinConfig(attn_implementation="sdpa")
        layer = swin.SwinAttention(config, heads * dim, heads, side).double()
        encoding = SwinBias(heads, (side, side)).double()
        weights = _alike(encoding.weight, layer.relative_position_bias.relative_position_bias_table)

        def ours(x: Tensor, layer=layer, heads=heads, encoding=encoding, side=side) -> Tensor:
            q, k, v = (split(to(x), heads) for to in (layer.q_proj, layer.k_proj, layer.v_proj))
            at = Positions.grid(side, side)
            return layer.o_proj(joined(attend(q, k, v, encoding, positions=at)))

        yield Case(
            f"windows of {side} x {side}, {heads} heads of {dim}",
            ours,
            lambda x, layer=layer: layer(x)[0],
            [torch.randn(3, side * side, heads * dim, dtype=torch.float64)],
            [weights],
        )


@peer("swin", "transformers")
def table_of_beit() -> Iterator[Case]:
    """BeitRelativePositionBias with its class token, and attention"""
    from transformers.models.beit import modeling_beit as beit
    from transformers.models.data2vec import modeling_data2vec_vision as data2vec

    for side, heads, dim in ((14, 3, 8), (2, 12, 20)):
        settings: dict[str, Any] = {"image_size": 16 * side, "patch_size": 16}
        settings |= {"hidden_size": heads * dim, "num_attention_heads": heads}
        peers = {
            "BEiT": beit.BeitRelativePositionBias(beit.BeitConfig(**settings)),
            "data2vec": data2vec.Data2VecVisionRelativePositionBias(
                data2vec.Data2VecVisionConfig(**settings), (side, side)
            ),
        }
        for name, table in peers.items():
            table = table.double()
            encoding = SwinBias(heads, (side, side), class_token=True).double()
            weights = _alike(encoding.weight, table.relative_position_bias_table)
            at = Positions.grid(side, side, leading=1)
            shape = (2, heads, 1 + side * side, dim)
            yield Case(
                f"{name}, {side} x {side} patches, {heads} heads of {dim}",
                lambda q, k, v, encoding=encoding, at=at: attend(q, k, v, encoding, positions=at),
                lambda q, k, v, table=table, side=side: F.scaled_dot_product_attention(
                    q, k, v, attn_mask=table((side, side), False, 1 + side * side)
                ),
                [torch.randn(shape, dtype=torch.float64) for _ in range(3)],
                [weights],
            )


@peer("log_cpb", "transformers")
def layer_of_swin_v2() -> Iterator[Case]:
    """Swinv2SelfAttention over windows, trained on windows of the same and of another size"""
    from transformers.models.swinv2 import modeling_swinv2 as swin

    for side, trained, heads, dim in ((8, 0, 3, 32), (12, 8, 2, 16), (2, 0, 12, 20)):
        grid = (trained or side,) * 2
        with in_float64():
            layer = swin.Swinv2SelfAttention(
                swin.Swinv2Config(), heads * dim, heads, side, [trained, trained]
            ).double()
        first, _, second = layer.continuous_position_bias_mlp
        encoding = LogCPB(heads, grid).double()
        weights = [
            _alike(encoding.hidden.weight, first.weight),
            _alike(encoding.hidden.bias, first.bias),
            _alike(encoding.output.weight, second.weight),
        ]

        def ours(x: Tensor, layer=layer, heads=heads, encoding=encoding, side=side) -> Tensor:
            q, k, v = (split(to(x), heads) for to in (layer.query, layer.key, layer.value))
            q, k = F.normalize(q, dim=-1) * layer.logit_scale.exp(), F.normalize(k, dim=-1)
            at = Positions.grid(side, side)
            return joined(attend(q, k, v, encoding, positions=at, scale=1.0))

        yield Case(
            f"windows of {side} x {side}, trained on {grid}, {heads} heads of {dim}",
            ours,
            lambda x, layer=layer: layer(x)[0],
            [torch.randn(3, side * side, heads * dim, dtype=torch.float64)],
            weights,
        )


def _alike(ours: Tensor, theirs: Tensor) -> tuple[Tensor, Tensor]:
    """Both parameters, with the same random numbers."""
    with torch.no_grad():
        theirs.copy_(torch.randn_like(theirs))
        ours.copy_(theirs)
    return ours, theirs
