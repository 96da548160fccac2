from collections.abc import Iterator

import torch
from torch import Tensor, nn

from posenc.attention import attend
from posenc.attention_parts import scores
from posenc.encoding import Context
from posenc.encodings import RelativeProjection, SlidingWindow, Temperature
from posenc.testing.agreement import Case, peer
from tests.peers._layers import causal_mask, joined, set_alike, split
from tests.peers._wide import in_float64

WIDTH, HEADS, KEY_HEADS, DIM, EXTENT, WINDOW = 24, 4, 2, 8, 9, 6


class _Passing(nn.Module):
    def forward(self, x: Tensor, **_: object) -> Tensor:
        return x


@peer("relative_projection", "transformers")
def layer_of_inkling() -> Iterator[Case]:
    """InklingAttention of both kinds of layers without its convolutions, its float32 in float64"""
    for kind in ("hybrid", "hybrid_sliding"):
        yield _layer(kind, length=20)


def _layer(kind: str, length: int) -> Case:
    from transformers.models.inkling import modeling_inkling as inkling

    local = kind == "hybrid_sliding"
    config = inkling.InklingTextConfig(
        hidden_size=WIDTH,
        num_attention_heads=HEADS,
        num_key_value_heads=KEY_HEADS,
        head_dim=DIM,
        swa_num_attention_heads=HEADS,
        swa_num_key_value_heads=KEY_HEADS,
        swa_head_dim=DIM,
        sliding_window_size=WINDOW,
        d_rel=5,
        rel_extent=EXTENT,
        log_scaling_n_floor=4,
        num_hidden_layers=1,
        layer_types=[kind],
        attn_implementation="eager",
    )
    layer = inkling.InklingAttention(config, layer_idx=0).double()
    layer.k_sconv = layer.v_sconv = _Passing()
    encoding = RelativeProjection(WIDTH, HEADS, WINDOW if local else EXTENT, 5).double()
    parts = [encoding, SlidingWindow(WINDOW) if local else Temperature("inkling", 4)]
    mask = causal_mask(length, causal=True)
    if local:
        mask = mask.masked_fill(torch.ones(length, length).tril(-WINDOW) > 0, -torch.inf)

    def theirs(x: Tensor) -> Tensor:
        with in_float64():
            return layer(x, mask)[0]

    def ours(x: Tensor) -> Tensor:
        q, k = split(layer.q_proj(x), HEADS), split(layer.k_proj(x), KEY_HEADS)
        v = split(layer.v_proj(x), KEY_HEADS)
        with in_float64():
            q, k = layer.q_norm(q), layer.k_norm(k)
        out = attend(q, k, v, parts, causal=True, context=Context(x), scale=1 / DIM)
        return layer.o_proj(joined(out))

    return Case(
        f"{kind}, length {length}",
        ours,
        theirs,
        [torch.randn(2, length, WIDTH, dtype=torch.float64)],
        [
            set_alike(encoding.get_parameter("project.weight"), layer.r_proj.weight),
            set_alike(encoding.get_parameter("curves"), layer.rel_logits_proj.proj),
        ],
    )


@peer("relative_projection", "x-transformers")
def bias_of_x_transformers() -> Iterator[Case]:
    """RelativeProjPositionalBias without the bias of its projection"""
    from x_transformers.x_transformers import RelativeProjPositionalBias

    length = 14
    layer = RelativeProjPositionalBias(WIDTH, HEADS, 5, 9).double()
    layer.to_distance_weights[0].bias = None
    encoding = RelativeProjection(WIDTH, HEADS, 9, 5).double()
    q = torch.zeros(2, HEADS, length, DIM, dtype=torch.float64)
    yield Case(
        f"extent 9, length {length}",
        lambda x: scores(q, q, encoding, context=Context(x)),
        layer,
        [torch.randn(2, length, WIDTH, dtype=torch.float64)],
        [
            set_alike(
                encoding.get_parameter("project.weight"), layer.to_distance_weights[0].weight
            ),
            set_alike(encoding.get_parameter("curves"), layer.distance_bank),
        ],
    )
