import math
from collections.abc import Iterator

import torch
import torch.nn.functional as F
from torch import Tensor

from posenc.attention import attend
from posenc.encodings import AxialRotary
from posenc.positions import Positions
from posenc.testing.agreement import Case, peer
from tests.peers._layers import joined, split
from tests.peers._wide import in_float64

BASE = 100.0


@peer("axial", "rotary-embedding-torch")
def turned_by_rotary_embedding_torch() -> Iterator[Case]:
    """get_axial_freqs and apply_rotary_emb over images and videos, then attention"""
    yield _turned((3, 5), heads=4, dim=12)
    yield _turned((1, 1), heads=12, dim=80)
    yield _turned((2, 3, 4), heads=3, dim=60)
    # Its pixels are float32 numbers from -1 to 1, which these sizes hold exactly.
    yield _turned((3, 5), heads=4, dim=16, pixels=True)


def _turned(sizes: tuple[int, ...], heads: int, dim: int, pixels: bool = False) -> Case:
    from rotary_embedding_torch import RotaryEmbedding, apply_rotary_emb

    axes, share = len(sizes), dim // len(sizes)
    rotary = RotaryEmbedding(
        share, freqs_for="pixel" if pixels else "lang", theta=BASE, cache_if_possible=False
    ).double()
    exact = BASE ** (-torch.arange(0, share, 2, dtype=torch.float64) / share)
    if pixels:
        exact = torch.linspace(1.0, 5.0, share // 2, dtype=torch.float64) * torch.pi
    with torch.no_grad():
        rotary.freqs.copy_(exact)
    given = exact.tolist() * axes if pixels else None
    encoding = AxialRotary(dim, axes, sizes, BASE, "interleaved", given)
    positions = None
    if pixels:
        # Scores see differences only, so coordinates may start at 0.
        steps = [torch.linspace(0.0, 2.0, size, dtype=torch.float64) for size in sizes]
        positions = Positions.build(ids=torch.cartesian_prod(*steps)[None])

    def theirs(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        turns = rotary.get_axial_freqs(*sizes).flatten(0, -2)
        q, k = (apply_rotary_emb(turns, x) for x in (q, k))
        return F.scaled_dot_product_attention(q, k, v)

    shape = (2, heads, math.prod(sizes), dim)
    return Case(
        f"grid {sizes}, {heads} heads of {dim}, pixels={pixels}",
        lambda q, k, v: attend(q, k, v, encoding, positions=positions),
        theirs,
        [torch.randn(shape, dtype=torch.float64) for _ in range(3)],
    )


@peer("axial", "transformers")
def layer_of_dinov3() -> Iterator[Case]:
    """DINOv3ViTAttention with DINOv3ViTRopePositionEmbedding, behind 5 tokens that do not turn"""
    from transformers.models.dinov3_vit import modeling_dinov3_vit as dinov3

    for height, width, heads, dim in ((3, 5, 4, 12), (1, 1, 12, 64), (6, 4, 2, 64)):
        config = dinov3.DINOv3ViTConfig(
            hidden_size=heads * dim, num_attention_heads=heads, attn_implementation="sdpa"
        )
        layer = dinov3.DINOv3ViTAttention(config).double()
        with in_float64():
            rotary = dinov3.DINOv3ViTRopePositionEmbedding(config).eval()
            waves = rotary(torch.zeros(1, 3, 16 * height, 16 * width, dtype=torch.float64))
        encoding = AxialRotary(dim, base=100.0, radians=2 * math.pi)
        positions = Positions.grid(height, width, leading=5, normalise="separate")

        def ours(x: Tensor, layer=layer, heads=heads, encoding=encoding, at=positions) -> Tensor:
            q, k, v = (split(to(x), heads) for to in (layer.q_proj, layer.k_proj, layer.v_proj))
            return layer.o_proj(joined(attend(q, k, v, encoding, positions=at)))

        yield Case(
            f"{height} x {width} patches, {heads} heads of {dim}",
            ours,
            lambda x, layer=layer, waves=waves: layer(x, position_embeddings=waves)[0],
            [torch.randn(2, 5 + height * width, heads * dim, dtype=torch.float64)],
        )


@peer("axial", "transformers")
def layer_of_pixtral() -> Iterator[Case]:
    """PixtralAttention with PixtralVisionRotaryEmbedding, the whole layer"""
    yield _pixtral((3, 5), heads=4, dim=12)
    yield _pixtral((1, 1), heads=12, dim=80)
    yield _pixtral((6, 4), heads=12, dim=80)


def _pixtral(sizes: tuple[int, int], heads: int, dim: int) -> Case:
    from transformers.models.pixtral import modeling_pixtral as pixtral

    config = pixtral.PixtralVisionConfig(
        hidden_size=heads * dim,
        num_attention_heads=heads,
        rope_parameters={"rope_type": "axial", "rope_theta": BASE},
        attn_implementation="sdpa",
    )
    layer = pixtral.PixtralAttention(config).double()
    rotary = pixtral.PixtralVisionRotaryEmbedding(config)
    # What the peer's forward makes in float32, put together by the peer.
    spectrum = BASE ** (-torch.arange(0, dim, 2, dtype=torch.float64) / dim)
    dealt = torch.cat([spectrum[0::2], spectrum[1::2]])
    places = torch.cartesian_prod(*(torch.arange(size) for size in sizes))
    angles = places[..., None] * dealt
    waves = tuple(rotary.recomposition_frequencies(wave) for wave in (angles.cos(), angles.sin()))
    encoding = AxialRotary(dim, grid=sizes, frequencies=dealt.tolist())

    def ours(x: Tensor) -> Tensor:
        q, k, v = (split(to(x), heads) for to in (layer.q_proj, layer.k_proj, layer.v_proj))
        return layer.o_proj(joined(attend(q, k, v, encoding)))

    return Case(
        f"grid {sizes}, {heads} heads of {dim}",
        ours,
        lambda x: layer(x, position_embeddings=waves)[0],
        [torch.randn(2, len(places), heads * dim, dtype=torch.float64)],
    )


@peer(
    "axial",
    "transformers",
    forward=1e-7,
    gradient=1e-7,
    cap="the peer turns queries and keys in float32",
)
def layer_of_qwen2_vl() -> Iterator[Case]:
    """VisionAttention with Qwen2VLVisionRotaryEmbedding, the whole layer"""
    yield _qwen2_vl((3, 5), heads=4, dim=12)
    yield _qwen2_vl((1, 1), heads=12, dim=80)
    yield _qwen2_vl((6, 4), heads=12, dim=80)


def _qwen2_vl(sizes: tuple[int, int], heads: int, dim: int) -> Case:
    from transformers.models.qwen2_vl import modeling_qwen2_vl as qwen

    config = qwen.Qwen2VLVisionConfig(
        embed_dim=heads * dim,
        num_heads=heads,
        rope_parameters={"rope_type": "axial", "rope_theta": BASE},
        attn_implementation="sdpa",
    )
    layer = qwen.VisionAttention(config).double()
    rotary = qwen.Qwen2VLVisionRotaryEmbedding(config)
    places = torch.cartesian_prod(*(torch.arange(size) for size in sizes))
    encoding = AxialRotary(dim, grid=sizes, base=BASE)

    def ours(x: Tensor) -> Tensor:
        q, k, v = (split(part[None], heads) for part in layer.qkv(x).chunk(3, dim=-1))
        return layer.proj(joined(attend(q, k, v, encoding)))[0]

    def theirs(x: Tensor) -> Tensor:
        edges = torch.tensor([0, len(places)])
        return layer(x, edges, position_embeddings=rotary(x, places))

    return Case(
        f"grid {sizes}, {heads} heads of {dim}",
        ours,
        theirs,
        [torch.randn(len(places), heads * dim, dtype=torch.float64)],
    )
