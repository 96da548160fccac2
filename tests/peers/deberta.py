import itertools
from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor, nn

from posenc.attention import attend
from posenc.encoding import Context
from posenc.encodings import DeBERTa
from posenc.testing.agreement import Case, peer
from tests.peers._layers import joined, set_alike, split

SCALE = "scaled_size_sqrt rounds sqrt(3d) to float32"


@peer("deberta", "transformers")
def layer_of_version_1() -> Iterator[Case]:
    """Deberta's DisentangledSelfAttention, whole, where sqrt(3d) is a whole number"""
    for causal in (True, False):
        yield _version_1(causal, heads=4, head_dim=12, length=9, span=16)
        yield _version_1(causal, heads=12, head_dim=48, length=1, span=5)
        yield _version_1(causal, heads=12, head_dim=48, length=13, span=5)
        yield _version_1(causal, heads=3, head_dim=8, length=7, span=4, terms=("p2c",))


@peer("deberta", "transformers")
def layer_of_version_2() -> Iterator[Case]:
    """DebertaV2's DisentangledSelfAttention, whole, where sqrt(3d) is a whole number"""
    for causal in (True, False):
        for shared in (True, False):
            yield _version_2(causal, shared, heads=4, head_dim=12, length=40, span=24, buckets=8)
            yield _version_2(causal, shared, heads=12, head_dim=48, length=1, span=6)
            yield _version_2(causal, shared, heads=12, head_dim=48, length=13, span=6)
        yield _version_2(causal, True, 3, 8, length=30, span=24, buckets=8, terms=("c2p",))


@peer("deberta", "transformers", forward=2e-7, gradient=1e-6, cap=SCALE)
def layers_with_a_rounded_scale() -> Iterator[Case]:
    """Both versions' DisentangledSelfAttention, whole, where sqrt(3d) is not a whole number"""
    for causal in (True, False):
        yield _version_1(causal, heads=12, head_dim=80, length=13, span=5)
        yield _version_2(causal, True, heads=12, head_dim=80, length=40, span=24, buckets=8)


def _version_1(
    causal: bool,
    heads: int,
    head_dim: int,
    length: int,
    span: int,
    terms: tuple[str, ...] = ("c2p", "p2c"),
) -> Case:
    from transformers.models.deberta import modeling_deberta as peer

    dim = heads * head_dim
    config = peer.DebertaConfig(**_sizes(dim, heads, span, terms))
    layer: Any = peer.DisentangledSelfAttention(config).double().eval()
    table = nn.Parameter(torch.empty(2 * span, dim, dtype=torch.float64))
    encoding = DeBERTa(dim, heads, span, terms=terms, projections="own").double()
    weights = [set_alike(encoding.weight, table), *_own(encoding, layer, "pos_proj", "pos_q_proj")]
    with torch.no_grad():
        layer.q_bias.normal_()
        layer.v_bias.normal_()

    def ours(x: Tensor) -> Tensor:
        # Each head's query, key and value lie side by side.
        q, k, v = split(layer.in_proj(x), heads).chunk(3, dim=-1)
        q, v = (y + split(b[None, None], heads) for y, b in ((q, layer.q_bias), (v, layer.v_bias)))
        return joined(attend(q, k, v, encoding, causal=causal))

    def theirs(x: Tensor) -> Tensor:
        at = peer.build_relative_position(x, x)
        return layer(x, _seen(x, causal), relative_pos=at, rel_embeddings=table)[0]

    name = f"causal={causal}, {heads} heads of {head_dim}, length {length}, span {span}, {terms}"
    return Case(name, ours, theirs, [_input(length, dim)], weights)


def _version_2(
    causal: bool,
    shared: bool,
    heads: int,
    head_dim: int,
    length: int,
    span: int,
    buckets: int | None = None,
    terms: tuple[str, ...] = ("c2p", "p2c"),
) -> Case:
    from transformers.models.deberta_v2 import modeling_deberta_v2 as peer

    dim = heads * head_dim
    config = peer.DebertaV2Config(
        **_sizes(dim, heads, span, terms),
        share_att_key=shared,
        position_buckets=-1 if buckets is None else buckets,
        norm_rel_ebd="layer_norm",
        num_hidden_layers=1,
        intermediate_size=dim,
    )
    encoder: Any = peer.DebertaV2Encoder(config).double().eval()
    layer = encoder.layer[0].attention.self
    projections = "layer" if shared else "own"
    encoding = DeBERTa(dim, heads, span, buckets, terms=terms, projections=projections, norm=True)
    encoding = encoding.double()
    assert encoding.table_norm is not None
    weights = [set_alike(encoding.weight, encoder.rel_embeddings.weight)]
    norms = zip(encoding.table_norm.parameters(), encoder.LayerNorm.parameters(), strict=True)
    weights += [set_alike(ours, theirs) for ours, theirs in norms]
    if shared:
        # The table's gradient reaches these too.
        weights += [(w, w) for linear in _linears(layer)[:2] for w in linear.parameters()]
    else:
        weights += _own(encoding, layer, "pos_key_proj", "pos_query_proj")

    def to_heads(linear: nn.Linear) -> Any:
        return lambda rows: split(linear(rows)[None], heads)[0]

    def ours(x: Tensor) -> Tensor:
        q, k, v = (split(linear(x), heads) for linear in _linears(layer))
        context = Context(x, None, to_heads(layer.query_proj), to_heads(layer.key_proj))
        return joined(attend(q, k, v, encoding, causal=causal, context=context))

    def theirs(x: Tensor) -> Tensor:
        at, table = encoder.get_rel_pos(x), encoder.get_rel_embedding()
        return layer(x, _seen(x, causal), relative_pos=at, rel_embeddings=table)[0]

    name = f"causal={causal}, {heads} heads of {head_dim}, length {length}, span {span}, {terms}"
    name = f"{name}, buckets {buckets}, projections of {projections}"
    return Case(name, ours, theirs, [_input(length, dim)], weights)


def _sizes(dim: int, heads: int, span: int, terms: tuple[str, ...]) -> dict[str, Any]:
    return {
        "hidden_size": dim,
        "num_attention_heads": heads,
        "max_relative_positions": span,
        "pos_att_type": list(terms),
        "relative_attention": True,
        "hidden_dropout_prob": 0.0,
        "attention_probs_dropout_prob": 0.0,
    }


def _own(encoding: DeBERTa, layer: Any, key: str, query: str) -> list[tuple[Tensor, Tensor]]:
    """Own projections carried over; a bias of the peer's c2p cannot change its output."""
    pairs = []
    for ours, theirs in ((encoding.key_projection, key), (encoding.query_projection, query)):
        if ours is not None:
            both = zip(ours.parameters(), getattr(layer, theirs).parameters(), strict=False)
            pairs += [set_alike(*pair) for pair in both]
    with torch.no_grad():
        for weight in itertools.chain(*pairs):
            weight.mul_(0.3)
    return pairs


def _linears(layer: Any) -> tuple[nn.Linear, nn.Linear, nn.Linear]:
    return layer.query_proj, layer.key_proj, layer.value_proj


def _seen(x: Tensor, causal: bool) -> Tensor:
    seen = torch.ones(len(x), 1, x.shape[1], x.shape[1], dtype=torch.bool)
    return seen.tril() if causal else seen


def _input(length: int, dim: int) -> Tensor:
    return torch.randn(2, length, dim, dtype=torch.float64)
