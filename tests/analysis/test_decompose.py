"""Scores taken apart: they add up, and each part is what is left when the others are zeroed."""

from collections.abc import Iterator

import pytest
import torch
from torch import Tensor

import posenc as pe
from posenc import Encoding, Positions, PositionsError, ShapeError, UnsupportedError, scores
from posenc.analysis.decompose import decompose
from posenc.analysis.probe_context import context_for, sizes_for
from posenc.testing.fixtures import attends, causalities, copy_of, qkv, scattered
from tests.support.decomposed import PARTS, adds_up, close
from tests.support.oracles import drawing
from tests.support.term_examples import (
    ADDITIONS,
    ARRANGEMENTS,
    CAUSAL,
    TERMS,
    TRANSFORMS,
    TURNS,
    Sizes,
    arranged,
    inputs,
)

EXAMPLES = [example for kind in pe.encodings().values() for example in kind.examples()]


RELATIVE = [example for example in EXAMPLES if attends(example)]


ABSOLUTE = [example for example in EXAMPLES if not attends(example)]


def places(encoding: Encoding, causal: bool) -> Iterator[Positions]:
    yield Positions.build(9, causal=causal)
    if encoding.axes > 1:
        yield Positions.build(ids=scattered(encoding.axes), causal=causal)
        return
    mask = torch.tensor([[0] * 3 + [1] * 6, [1] * 8 + [0]])
    documents = torch.tensor([0] * 4 + [1] * 5)
    yield Positions.build(attention_mask=mask, documents=documents, causal=causal)


@pytest.mark.parametrize("example", RELATIVE, ids=repr)
def test_parts_of_relative_encodings_add_up_to_the_scores(example: Encoding) -> None:
    encoding, context = copy_of(example), context_for(example)
    q, k, _ = qkv(encoding)
    for causal in causalities(encoding):
        for positions in places(encoding, causal):
            how = {"positions": positions, "context": context}
            adds_up(decompose(q, k, encoding, **how), scores(q, k, encoding, **how))
            parts = decompose(q, k, encoding, scale=1.0, **how)
            adds_up(parts, scores(q, k, encoding, scale=1.0, **how))


@pytest.mark.parametrize("example", RELATIVE, ids=repr)
def test_parts_of_relative_encodings_are_what_zeros_leave(example: Encoding) -> None:
    """f(q, k) is taken for a black box: what is linear in q alone, in k alone, and in neither."""
    encoding, context = copy_of(example), context_for(example)
    q, k, _ = qkv(encoding)
    for causal in causalities(encoding):
        for positions in places(encoding, causal):
            parts = decompose(q, k, encoding, positions=positions, context=context).parts()

            def f(q: Tensor, k: Tensor, positions: Positions = positions) -> Tensor:
                raw = scores(q, k, encoding, positions=positions, context=context)
                return raw.masked_fill(raw == -torch.inf, 0.0)

            none, of_q, of_k = f(0 * q, 0 * k), f(q, 0 * k), f(0 * q, k)
            both = f(q, k) - of_q - of_k + none
            close(parts["position_position"], none, "position_position")
            if isinstance(encoding, pe.CoPE):
                # Queries read its table by counts of gates, which stand half open without keys.
                plain = scores(q, k, positions=positions).masked_fill(f(q, k) == 0, 0.0)
                close(parts["token_token"], plain)
                close(parts["interaction"], f(q, k) - plain)
                continue
            close(parts["token_position"], of_q - none, "token_position")
            close(parts["position_token"], of_k - none, "position_token")
            close(parts["token_token"] + parts["interaction"], both, "token_token, interaction")
            turns = isinstance(encoding, (pe.Mamba3Rotary, pe.PaTH, pe.SelectiveRotary))
            if turns or encoding.family in ("rotary", "scale"):
                plain = scores(q, k, positions=positions).masked_fill(f(q, k) == 0, 0.0)
                if getattr(encoding, "kind", None) != "yarn":
                    close(parts["token_token"], plain)
            else:
                assert (parts["interaction"] == 0).all()


def widths(encoding: Encoding) -> tuple[Tensor, Tensor, Tensor]:
    """x and projections for two key heads and four query heads."""
    draw, width = drawing(3), sizes_for(encoding).model_dim
    out = encoding.embedded_width(width)
    w_q, w_k = (draw(out, heads, 6) * out**-0.5 for heads in (4, 2))
    return draw(2, 9, width), w_q, w_k


def projected(x: Tensor, weight: Tensor) -> Tensor:
    return torch.einsum("btc,chd->bhtd", x, weight)


@pytest.mark.parametrize("example", ABSOLUTE, ids=repr)
def test_parts_of_absolute_encodings_add_up_and_are_what_zeros_leave(example: Encoding) -> None:
    encoding = copy_of(example)
    x, w_q, w_k = widths(encoding)
    c = x.shape[-1]
    for causal in (True, False):
        for positions in places(encoding, causal):
            out = encoding.embed(x, positions)
            expected = scores(projected(out, w_q), projected(out, w_k), positions=positions)
            parts = decompose(x, encoding, w_q, w_k, positions=positions)
            adds_up(parts, expected)
            rows = positions.queries.position.double()
            rows = rows if rows.ndim == 3 else rows.view(-1, 9)
            rows = rows.expand(2, *rows.shape[1:])
            p = encoding.reference_embed(torch.zeros_like(x), rows)
            if encoding.merge == "concat":
                sides = [(x, (w_q[:c], w_k[:c])), (p[..., c:], (w_q[c:], w_k[c:]))]
            else:
                sides = [(x, (w_q, w_k)), (p, (w_q, w_k))]
            names = iter(PARTS)
            for from_q, (q_weight, _) in sides:
                for from_k, (_, k_weight) in sides:
                    wanted = scores(
                        projected(from_q, q_weight), projected(from_k, k_weight), scale=6**-0.5
                    )
                    wanted = wanted.masked_fill(~parts.visible, 0.0)
                    if (real := positions.queries.valid) is not None:
                        wanted = wanted.masked_fill(~real[:, None, :, None], 0.0)
                    close(parts.parts()[next(names)], wanted, f"{encoding.merge}, causal={causal}")
            split = encoding.merge in ("add", "concat")
            assert (parts.interaction == 0).all() == split


@pytest.mark.parametrize("causal", [True, False])
@pytest.mark.parametrize("name", TERMS)
def test_every_term_alone_adds_up(name: str, causal: bool) -> None:
    if name in CAUSAL and not causal:
        return
    s = Sizes()
    q, k, _ = inputs(s, drawing(1))
    term = TERMS[name](s, drawing(2))
    for kind in ARRANGEMENTS:
        positions, _ = arranged(kind, s, causal)
        parts = decompose(q, k, term, positions=positions)
        adds_up(parts, scores(q, k, term, positions=positions))
        moved = {n for n, part in parts.parts().items() if (part != 0).any()} - {"token_token"}
        if name == "magnitudes":
            # Those of zero are no zeros.
            assert moved == {"interaction", *PARTS} - {"token_token"}
        elif name in TURNS | TRANSFORMS or name.startswith(("count", "scale per")):
            assert moved == {"interaction"}
        elif name.startswith(("table", "slope", "whole", "offset", "dense")):
            assert moved == {"position_position"}


def test_all_terms_at_once_add_up() -> None:
    s = Sizes()
    q, k, _ = inputs(s, drawing(3))
    positions, _ = arranged("packed and padded", s, causal=True)
    terms = [maker(s, drawing(i)) for i, maker in enumerate(ADDITIONS.values())]
    terms.append(TURNS["rotate per row and head"](s, drawing(9)))
    adds_up(decompose(q, k, terms, positions=positions), scores(q, k, terms, positions=positions))


def test_transformer_xl_has_its_published_four() -> None:
    """Content-content, content-position, and the two biases: equation of section 3.3, by hand."""
    encoding = pe.TransformerXL(16, heads=4).double()
    draw = drawing(4)
    with torch.no_grad():
        encoding.content_bias.copy_(draw(4, 4))
        encoding.position_bias.copy_(draw(4, 4))
    q, k = draw(2, 4, 5, 4), draw(2, 4, 5, 4)
    parts = decompose(q, k, encoding)
    frequency = 10_000.0 ** (-torch.arange(0, 16, 2).double() / 16)
    for i in range(5):
        for j in range(5):
            waves = torch.cat((((i - j) * frequency).sin(), ((i - j) * frequency).cos()))
            key = torch.einsum("c,chd->hd", waves, encoding.projection)
            q_i, k_j = q[:, :, i], k[:, :, j]
            by_hand = {
                "token_token": (q_i * k_j).sum(-1),
                "token_position": (q_i * key).sum(-1),
                "position_token": (encoding.content_bias * k_j).sum(-1),
                "position_position": (encoding.position_bias * key).sum(-1).expand(2, -1),
                "interaction": torch.zeros(2, 4).double(),
            }
            for name, wanted in by_hand.items():
                close(parts.parts()[name][:, :, i, j], wanted / 2, name)


def test_embeddings_and_terms_go_together() -> None:
    """What positions put into q meets the table of distances as a position."""
    draw = drawing(5)
    x, w_q, w_k = draw(2, 9, 16), draw(16, 4, 8), draw(16, 2, 8)
    sinusoid, shaw, slopes = pe.Sinusoidal(16), pe.Shaw(8, clip=3).double(), pe.ALiBi(4)
    out, p = sinusoid.embed(x, None), sinusoid.embed(torch.zeros_like(x), None)
    both = [sinusoid, shaw, slopes]
    parts = decompose(x, both, w_q, w_k, causal=True)
    adds_up(parts, scores(projected(out, w_q), projected(out, w_k), [shaw, slopes], causal=True))
    alone = scores(projected(p, w_q), projected(p, w_k), [shaw, slopes], causal=True)
    close(parts.position_position, alone.masked_fill(~parts.visible, 0.0))
    assert (parts.interaction == 0).all()
    turned = decompose(x, [sinusoid, pe.Rotary(8)], w_q, w_k)
    adds_up(turned, scores(projected(out, w_q), projected(out, w_k), pe.Rotary(8)))
    four = decompose(x, sinusoid, w_q, w_k).parts()
    for name in PARTS[:4]:
        assert torch.equal(turned.parts()[name], four[name])
    multiplied = pe.Sinusoidal(16, merge="multiply")
    out = multiplied.embed(x, None)
    adds_up(
        decompose(x, [multiplied, shaw], w_q, w_k),
        scores(projected(out, w_q), projected(out, w_k), shaw),
    )
    packed = torch.tensor([0, 0, 0, 0, 1, 1, 1, 1, 1])
    positions = Positions.build(documents=packed)
    out = sinusoid.embed(x, positions)
    adds_up(
        decompose(x, [sinusoid, pe.Documents(packed)], w_q, w_k),
        scores(projected(out, w_q), projected(out, w_k), positions=positions),
    )


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32])
def test_parts_are_computed_as_precisely_as_scores(dtype: torch.dtype) -> None:
    q, k, _ = (x.to(dtype) for x in inputs(Sizes(), drawing(10)))
    parts = decompose(q, k, pe.Rotary(10), causal=True)
    assert parts.token_token.dtype == torch.float32
    torch.testing.assert_close(parts.total(), scores(q, k, pe.Rotary(10), causal=True))
    x, w = drawing(11)(2, 5, 10).to(dtype), drawing(12)(10, 2, 4).to(dtype)
    parts = decompose(x, pe.Sinusoidal(10), w, w)
    assert parts.token_token.dtype == torch.float32
    close(parts.token_token, scores(projected(x, w), projected(x, w)))


@pytest.mark.usefixtures("unhooked")
def test_bad_calls_say_what_to_do() -> None:
    draw = drawing(13)
    q, x, w = draw(2, 4, 5, 8), draw(2, 5, 16), draw(16, 4, 8)
    with pytest.raises(UnsupportedError, match=r"call decompose\(x, encoding, w_q, w_k\)"):
        decompose(q, q, pe.Sinusoidal(8))
    with pytest.raises(UnsupportedError, match=r"takes \(q, k, encoding\) or"):
        decompose(x, w, w, pe.Sinusoidal(16))
    with pytest.raises(ShapeError, match=r"w_q has shape \(16, 4, 8\).*are 32 wide: \(32, heads"):
        decompose(x, pe.Sinusoidal(16, merge="concat"), w, w)
    with pytest.raises(ShapeError, match=r"w_k has shape \(16, 32\)"):
        decompose(x, pe.Sinusoidal(16), w, w.flatten(1))
    with pytest.raises(ShapeError, match="w_k has shape None"):
        decompose(x, pe.Sinusoidal(16), w)
    with pytest.raises(ShapeError, match=r"x has shape \(2, 4, 5, 8\)"):
        decompose(q, pe.NoPE(), w, w)
    with pytest.raises(ShapeError, match="made for 8 heads, but q has 4"):
        decompose(q, q, pe.ALiBi(8))
    with pytest.raises(PositionsError, match="5 queries and 5 keys, but positions for 3"):
        decompose(x, pe.Sinusoidal(16), w, w, positions=Positions.build(3))
    with pytest.raises(PositionsError, match="pass context="):
        decompose(q, q, pe.DeBERTa(32, 4, head_dim=8))
