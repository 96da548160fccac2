"""Layers of real models, with norms and biases, are taken apart as they are, or refused."""

import pytest
import torch
from torch import Tensor, nn

import posenc as pe
from posenc import ShapeError, UnsupportedError
from posenc.analysis.decompose import decompose
from tests.support.oracles import drawing

HEADS, WIDTH, LENGTH = 4, 24, 7


def close(actual: Tensor, expected: Tensor) -> None:
    assert (actual - expected).abs().max() <= 1e-12 * expected.abs().max().clamp(min=1.0)


@pytest.fixture
def bert() -> nn.Module:
    """A random BERT of one layer, in float64, every bias and norm of it away from its start."""
    transformers = pytest.importorskip("transformers")
    config = transformers.BertConfig(
        vocab_size=31,
        hidden_size=WIDTH,
        num_hidden_layers=1,
        num_attention_heads=HEADS,
        intermediate_size=32,
        max_position_embeddings=16,
        attn_implementation="eager",
    )
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(3)
        model = transformers.BertModel(config).double().eval()
        for parameter in model.parameters():
            nn.init.normal_(parameter, std=0.5)
    return model


def layer_of(bert: nn.Module) -> tuple[Tensor, Tensor, dict]:
    """x with its segments, the true scores of the first layer, and its norm and biases."""
    embeddings, attention = bert.embeddings, bert.encoder.layer[0].attention.self
    generator = torch.Generator().manual_seed(5)
    ids = torch.randint(31, (2, LENGTH), generator=generator)
    segments = torch.tensor([0, 0, 0, 1, 1, 1, 1]).expand(2, -1)
    x = embeddings.word_embeddings(ids) + embeddings.token_type_embeddings(segments)
    hidden = embeddings(input_ids=ids, token_type_ids=segments)
    q, k = (
        linear(hidden).unflatten(-1, (HEADS, -1)).transpose(1, 2)
        for linear in (attention.query, attention.key)
    )
    scores = q @ k.mT / (WIDTH // HEADS) ** 0.5
    # The layer's own output says that these are its scores.
    own = bert.encoder.layer[0].attention.self(hidden)[0]
    v = attention.value(hidden).unflatten(-1, (HEADS, -1)).transpose(1, 2)
    close((scores.softmax(-1) @ v).transpose(1, 2).flatten(2), own)
    given = {
        "norm": embeddings.LayerNorm,
        "b_q": attention.query.bias.unflatten(0, (HEADS, -1)),
        "b_k": attention.key.bias.unflatten(0, (HEADS, -1)),
    }
    return x, scores, given


def weights_of(bert: nn.Module) -> tuple[pe.Encoding, Tensor, Tensor]:
    attention = bert.encoder.layer[0].attention.self
    w_q, w_k = (
        layer.weight.T.unflatten(-1, (HEADS, -1)) for layer in (attention.query, attention.key)
    )
    return pe.Learned.from_rows(bert.embeddings.position_embeddings.weight), w_q, w_k


@torch.no_grad()
def test_a_bert_layer_is_taken_apart_exactly(bert: nn.Module) -> None:
    x, scores, given = layer_of(bert)
    parts = decompose(x, *weights_of(bert), **given, scores=scores)
    close(parts.total(), scores)
    assert (parts.interaction.abs() < 1e-12).all()
    assert all(parts.parts()[name].abs().max() > 0.1 for name in list(parts.parts())[:4])


@torch.no_grad()
def test_parts_of_a_normed_layer_are_those_of_its_statistics(bert: nn.Module) -> None:
    x, _, given = layer_of(bert)
    parts = decompose(x, *weights_of(bert), **given)
    learned, w_q, w_k = weights_of(bert)
    norm = given["norm"]
    position = learned.weight[:LENGTH].expand(2, -1, -1)
    scale = ((x + position).var(-1, unbiased=False, keepdim=True) + norm.eps).rsqrt()
    p = (position - position.mean(-1, keepdim=True)) * scale * norm.weight
    q, k = (torch.einsum("btc,chd->bhtd", p, weight) for weight in (w_q, w_k))
    close(parts.position_position, q @ k.mT / (WIDTH // HEADS) ** 0.5)


@torch.no_grad()
@pytest.mark.parametrize("missing", ["norm", "b_q", "b_k"])
def test_what_is_left_out_of_a_layer_is_refused(bert: nn.Module, missing: str) -> None:
    x, scores, given = layer_of(bert)
    given[missing] = None
    with pytest.raises(UnsupportedError, match="the parts add up to other scores, off by"):
        decompose(x, *weights_of(bert), **given, scores=scores)


@torch.no_grad()
def test_missing_segments_are_refused(bert: nn.Module) -> None:
    x, scores, given = layer_of(bert)
    x = x - bert.embeddings.token_type_embeddings.weight[0]
    with pytest.raises(UnsupportedError, match="segment embeddings"):
        decompose(x, *weights_of(bert), **given, scores=scores)


NORMS = [
    nn.LayerNorm(16),
    nn.LayerNorm(16, elementwise_affine=False),
    nn.LayerNorm(16, bias=False, eps=1e-3),
    nn.RMSNorm(16),
    nn.RMSNorm(16, eps=1e-2),
]


@pytest.mark.parametrize("norm", NORMS, ids=repr)
@pytest.mark.parametrize("merge", ["add", "concat", "multiply", "hadamard"])
def test_every_norm_adds_up(norm: nn.Module, merge: str) -> None:
    draw = drawing(7)
    encoding = pe.Sinusoidal(16 if merge != "concat" else 8, merge=merge)
    x = draw(2, 6, 16 if merge != "concat" else 8)
    norm = norm.double()
    for parameter in norm.parameters():
        parameter.data = draw(*parameter.shape)
    w_q, w_k, b_q = draw(16, 4, 6), draw(16, 2, 6), draw(4, 6)
    hidden = norm(encoding.embed(x, None))
    q = torch.einsum("btc,chd->bhtd", hidden, w_q) + b_q[:, None]
    scores = pe.scores(q, torch.einsum("btc,chd->bhtd", hidden, w_k), causal=True)
    parts = decompose(x, encoding, w_q, w_k, norm=norm, b_q=b_q, causal=True, scores=scores)
    seen = parts.visible
    close(parts.total().masked_fill(~seen, 0.0), scores.masked_fill(~seen, 0.0))


def test_transformers_norms_are_known() -> None:
    llama = pytest.importorskip("transformers.models.llama.modeling_llama")
    draw = drawing(8)
    norm = llama.LlamaRMSNorm(16, eps=1e-4)
    x, w = draw(1, 5, 16).float(), draw(16, 2, 4).float()
    hidden = norm(pe.Sinusoidal(16).embed(x, None))
    q = torch.einsum("btc,chd->bhtd", hidden, w)
    decompose(x, pe.Sinusoidal(16), w, w, norm=norm, scores=pe.scores(q, q))


@pytest.mark.usefixtures("unhooked")
def test_bad_norms_biases_and_scores_are_refused() -> None:
    draw = drawing(9)
    x, w, q = draw(1, 5, 16), draw(16, 2, 4), draw(1, 2, 5, 4)
    sinusoidal = pe.Sinusoidal(16)
    for norm in (nn.Tanh(), nn.Linear(16, 16), nn.BatchNorm1d(5)):
        with pytest.raises(UnsupportedError, match="neither a LayerNorm nor an RMSNorm"):
            decompose(x, sinusoidal, w, w, norm=norm.double())
    with pytest.raises(ShapeError, match=r"b_q has shape \(8,\), but w_q makes \(2, 4\)"):
        decompose(x, sinusoidal, w, w, b_q=draw(8))
    with pytest.raises(UnsupportedError, match="these lie before q and k"):
        decompose(q, q, pe.NoPE(), b_k=draw(2, 4))
    with pytest.raises(ShapeError, match=r"scores have shape \(5, 5\)"):
        decompose(q, q, scores=draw(5, 5))
    with pytest.raises(UnsupportedError, match="other scores"):
        decompose(q, q, pe.Rotary(4), scores=pe.scores(q, q, pe.Rotary(4, base=9.0)))
    decompose(q, q, pe.Rotary(4), causal=True, scores=pe.scores(q, q, pe.Rotary(4)))
