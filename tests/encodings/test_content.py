"""Shaw, Transformer-XL and DeBERTa: settings, limits, and what peers do not do."""

from typing import Any

import pytest
import torch
from torch import Tensor, nn

import posenc as pe
from posenc import (
    Context,
    DeBERTa,
    Encoding,
    Positions,
    PositionsError,
    SettingError,
    ShapeError,
    Shaw,
    Sinusoidal,
    TransformerXL,
    attend,
)
from posenc.terms import GatherTable, Scale, ValueTable
from tests.support.oracles import drawing


def qkv(heads: int, dim: int, length: int = 9) -> tuple[Tensor, Tensor, Tensor]:
    draw = drawing(3)
    return tuple(draw(2, heads, length, dim) for _ in range(3))


def tables(encoding: Encoding, length: int = 4, context: Context | None = None) -> list[Any]:
    lowered = pe.lower(encoding, length, context=context, dtype=torch.float64)
    return [term for term in lowered.terms if isinstance(term, (GatherTable, ValueTable))]


@pytest.mark.usefixtures("unhooked")
@pytest.mark.parametrize(
    ("made", "said"),
    [
        (lambda: Shaw(0), r"Shaw\(dim=0\)"),
        (lambda: Shaw(8, clip=0), r"Shaw\(clip=0\)"),
        (lambda: Shaw(8, future=-1), r"Shaw\(future=-1\).*0 or more"),
        (lambda: Shaw(8, table="fixed"), "'learned', 'sinusoidal' or 'nezha'"),
        (lambda: Shaw(7, table="sinusoidal"), r"Shaw\(dim=7\).*even"),
        (lambda: TransformerXL(15, 3), r"TransformerXL\(dim=15\).*even"),
        (lambda: TransformerXL(16, 3), r"dim=16, heads=3\).*give head_dim"),
        (lambda: TransformerXL(16, 0), r"heads=0"),
        (lambda: TransformerXL(16, 4, head_dim=0), "head_dim=0"),
        (lambda: TransformerXL(16, 4, clamp=0), "clamp=0"),
        (lambda: TransformerXL(16, 4, base=0.0), "base=0.0"),
        (lambda: DeBERTa(16, 3), r"DeBERTa\(dim=16, heads=3\).*give head_dim"),
        (lambda: DeBERTa(16, 4, span=0), "span=0"),
        (lambda: DeBERTa(16, 4, span=9, buckets=7), r"span=9, buckets=7\): an even number"),
        (lambda: DeBERTa(16, 4, span=9, buckets=2), "even number of buckets >= 4"),
        (lambda: DeBERTa(16, 4, span=5, buckets=8), r"span=5, buckets=8\).*greater than"),
        (lambda: DeBERTa(16, 4, terms=()), r"terms=\(\)\): terms are 'c2p', 'p2c' or both"),
        (lambda: DeBERTa(16, 4, terms=("c2p", "p2p")), "terms are"),
        (lambda: DeBERTa(16, 4, terms=("c2p", "c2p")), "terms are"),
        (lambda: DeBERTa(16, 4, projections="mine"), "projections are 'layer' or 'own'"),
    ],
)
def test_settings_that_mean_nothing_are_refused(made: Any, said: str) -> None:
    with pytest.raises(SettingError, match=said):
        made()


def test_nezha_s_paper_counts_distances_and_its_code_counts_rows() -> None:
    waves = Sinusoidal(8)
    for table, first in (("sinusoidal", -5), ("nezha", 0)):
        made = Shaw(8, clip=5, table=table)
        assert not list(made.parameters())
        keys, values = tables(made)
        expected = waves.table(torch.arange(first, first + 11))[0]
        torch.testing.assert_close(keys.weight[0], expected)
        torch.testing.assert_close(values.weight[0], expected)
    one, other = (Shaw(8, clip=5, table=table) for table in ("sinusoidal", "nezha"))
    assert not torch.allclose(attend(*qkv(2, 8), one), attend(*qkv(2, 8), other), atol=0.01)


def test_shaw_may_look_less_far_ahead_than_back() -> None:
    narrow, wide = Shaw(8, clip=4, future=0).double(), Shaw(8, clip=4).double()
    with torch.no_grad():
        for ours, theirs in zip(narrow.parameters(), wide.parameters(), strict=True):
            assert ours.shape == (5, 8)
            theirs[:5] = ours
    causal = [attend(*qkv(2, 8), each, causal=True) for each in (narrow, wide)]
    torch.testing.assert_close(*causal)
    with torch.no_grad():
        for ours, theirs in zip(narrow.parameters(), wide.parameters(), strict=True):
            theirs[5:] = ours[4]
    torch.testing.assert_close(attend(*qkv(2, 8), narrow), attend(*qkv(2, 8), wide))


def test_transformer_xl_needs_to_know_how_far_positions_reach() -> None:
    made, at = TransformerXL(16, 4), torch.arange(9)
    q, k, v = qkv(4, 4)
    with pytest.raises(PositionsError, match="TransformerXL needs to know how far"):
        attend(q, k, v, made, positions=at)
    made = made.double()
    expected = attend(q, k, v, made)
    torch.testing.assert_close(attend(q, k, v, made, positions=Positions.build(ids=at)), expected)
    # One that is clamped does not.
    clamped = TransformerXL(16, 4, clamp=20).double()
    clamped.load_state_dict(made.state_dict())
    assert made.tags.needs_extent
    assert not clamped.tags.needs_extent
    torch.testing.assert_close(attend(q, k, v, clamped, positions=at), expected)


def test_transformer_xl_holds_a_row_for_every_distance_or_up_to_the_clamp() -> None:
    keys, content = tables(TransformerXL(16, 4), length=7)
    assert keys.weight.shape == (4, 13, 4)
    assert content.weight.shape == (4, 1, 4)
    keys, _ = tables(TransformerXL(16, 4, clamp=3), length=7)
    assert keys.weight.shape == (4, 7, 4)
    assert keys.saturates
    assert tables(TransformerXL(16, 4), length=1)[0].weight.shape == (4, 1, 4)


def projected(*weights: Tensor) -> Context:
    """A context whose projections are (heads, c, d) weights of queries and of keys."""
    project_q, project_k = ((lambda rows, w=w: rows.to(w.dtype) @ w) for w in weights)
    return Context(project_q=project_q, project_k=project_k)


def some_context(heads: int = 4, dim: int = 16) -> Context:
    draw = drawing(7)
    return projected(*(draw(heads, dim, dim // heads) for _ in range(2)))


@pytest.mark.parametrize(
    ("buckets", "span"),
    [(256, 512), (32, 128), (98, 101), (292, 877), (8, 24), (4, 5), (64, 100)],
)
def test_rows_are_those_of_deberta_v2(buckets: int, span: int) -> None:
    """Bit for bit, at two settings where float64 would choose another bucket."""
    peer = pytest.importorskip("transformers.models.deberta_v2.modeling_deberta_v2")
    back = torch.arange(-3 * span, 3 * span + 1)
    theirs = peer.make_log_bucket_position(back, buckets, span).long()
    theirs = (theirs + buckets).clamp(0, 2 * buckets - 1)
    for term in tables(DeBERTa(16, 4, span, buckets), context=some_context()):
        index = (term.zero - back).clamp(0, len(term.row_of) - 1)
        assert torch.equal(term.row_of[index], theirs)
        assert term.weight.shape == (4, 2 * buckets, 4)


def test_both_sides_read_the_same_row() -> None:
    """The paper's sign of p2c would swap rows 3 and 5 of the key's table."""
    made = DeBERTa(16, 4, span=4)
    scale, *_ = pe.lower(made, 2, context=some_context()).terms
    assert isinstance(scale, Scale)
    assert scale.factor == 3**-0.5
    c2p, p2c = tables(made, context=some_context())
    assert (c2p.side, p2c.side) == ("q", "k")
    # From distance k - q = -4 to 4.
    assert c2p.row_of.tolist() == p2c.row_of.tolist() == [7, 7, 6, 5, 4, 3, 2, 1, 0]


@pytest.mark.parametrize(("count", "said"), [(3, "size of tensor a"), (1, "output with shape")])
def test_deberta_v2_cannot_attend_from_fewer_queries_than_keys(count: int, said: str) -> None:
    peer = pytest.importorskip("transformers.models.deberta_v2.modeling_deberta_v2")
    torch.manual_seed(0)
    config = peer.DebertaV2Config(
        hidden_size=16, num_attention_heads=4, max_relative_positions=24, position_buckets=8,
        pos_att_type=["c2p", "p2c"], relative_attention=True, share_att_key=True,
        num_hidden_layers=1, intermediate_size=16,
    )  # fmt: skip
    encoder = peer.DebertaV2Encoder(config).double().eval()
    layer, made = encoder.layer[0].attention.self, DeBERTa(16, 4, 24, buckets=8).double()
    made.weight = encoder.rel_embeddings.weight
    x = drawing(4)(2, 40, 16)
    at, table = encoder.get_rel_pos(x), encoder.get_rel_embedding()
    whole = layer(x, torch.ones(2, 1, 40, 40), relative_pos=at, rel_embeddings=table)[0]

    def to_heads(linear: nn.Linear) -> Any:
        return lambda rows: linear(rows).unflatten(-1, (4, 4)).transpose(-3, -2)

    # Their p2c gathers a square of the keys, by buckets and span in each other's place.
    with pytest.raises(RuntimeError, match=said):
        layer(
            x, torch.ones(2, 1, count, 40), query_states=x[:, -count:],
            relative_pos=at[:, -count:], rel_embeddings=table,
        )  # fmt: skip
    q, k, v = (to_heads(f)(x) for f in (layer.query_proj, layer.key_proj, layer.value_proj))
    context = Context(project_q=to_heads(layer.query_proj), project_k=to_heads(layer.key_proj))
    ours = attend(q[:, :, -count:], k, v, made, context=context)
    expected = whole[:, -count:].unflatten(-1, (4, 4)).transpose(1, 2)
    # Their root of 3d is rounded to float32.
    torch.testing.assert_close(ours, expected, rtol=0, atol=1e-6)


def test_deberta_says_which_projections_it_misses() -> None:
    q, k, v = qkv(4, 4)
    made = DeBERTa(16, 4, span=3).double()
    assert made.tags.needs_context
    with pytest.raises(PositionsError, match="pass context"):
        attend(q, k, v, made)
    with pytest.raises(PositionsError, match=r"project_q=\.\.\., project_k=.*projections='own'"):
        attend(q, k, v, made, context=Context(x=torch.zeros(2, 9, 16)))
    # One term needs one projection.
    project_k = some_context().project_k
    one = DeBERTa(16, 4, span=3, terms=("c2p",)).double()
    assert attend(q, k, v, one, context=Context(project_k=project_k)).shape == q.shape
    own = DeBERTa(16, 4, span=3, projections="own").double()
    assert not own.tags.needs_context
    assert attend(q, k, v, own).shape == q.shape


@pytest.mark.usefixtures("unhooked")
def test_projections_for_other_heads_are_refused() -> None:
    q, k, v = qkv(4, 4)
    made = DeBERTa(16, 4, span=3).double()
    with pytest.raises(ShapeError, match=r"GatherTable\.weight was made for 2 heads, but q has 4"):
        attend(q, k, v, made, context=some_context(heads=2, dim=8 * 2))


def test_own_projections_equal_the_layer_s_where_the_weights_are_the_same() -> None:
    q, k, v = qkv(4, 4)
    own = DeBERTa(16, 4, span=3, projections="own").double()
    shared = DeBERTa(16, 4, span=3).double()
    shared.weight = own.weight
    nn.init.zeros_(own.query_projection.bias)
    weights = (own.query_projection.weight, own.key_projection.weight)
    context = projected(*(w.view(4, 4, 16).mT for w in weights))
    expected = attend(q, k, v, shared, context=context)
    torch.testing.assert_close(attend(q, k, v, own), expected)


def test_a_short_input_does_not_need_the_whole_span() -> None:
    """Version 1 cuts its table to the length of the input, which changes nothing."""
    q, k, v = qkv(4, 4, length=5)
    long = DeBERTa(16, 4, span=9, projections="own").double()
    short = DeBERTa(16, 4, span=5, projections="own").double()
    state = long.state_dict()
    state["weight"] = state["weight"][4:14]
    short.load_state_dict(state)
    torch.testing.assert_close(attend(q, k, v, short), attend(q, k, v, long))
