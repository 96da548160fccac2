"""The whole Transformer with every kind of encoding."""

import copy
import math
from pathlib import Path

import pytest
import safetensors.torch
import torch
import torch.nn.functional as F
from torch import nn

import posenc as pe
from posenc import (
    Attention,
    Encoding,
    Positions,
    PositionsError,
    Tags,
    Transformer,
    UnsupportedError,
)
from posenc import terms as t

SIZES = {"vocab_size": 13, "dim": 32, "depth": 3, "heads": 4}
TOKENS = torch.arange(18).view(2, 9) * 5 % 13


def built(encoding: object, **settings: object) -> Transformer:
    """A float64 model whose weights, the encoding's aside, are the same in every call."""
    torch.manual_seed(1)
    return Transformer(**(SIZES | settings), encoding=encoding).double().eval()


class Counting(Encoding):
    """Adds nothing, and counts."""

    def __init__(self) -> None:
        super().__init__()
        self.lowered = 0

    def lower(self, positions, context=None, *, dtype=torch.float32):
        self.lowered += 1
        return ()


class CountingInput(Counting):
    tags = Tags(needs_context=True)


class EveryLayer(Encoding):
    """Adds the number of the layer to the input of each, and keeps what it saw."""

    tags = Tags(every_layer=True)

    def __init__(self) -> None:
        super().__init__()
        self.layers: list[int] = []

    def embed(self, x, positions, *, layer=0):
        self.layers.append(layer)
        return x + layer


def test_the_whole_model_written_out() -> None:
    model = built(pe.Rotary(8), kv_heads=2)
    x = model.embedding.token.weight[TOKENS] * math.sqrt(32)
    for block in model.blocks:
        attention = block.attention
        y = F.layer_norm(x, (32,), block.attention_norm.weight, block.attention_norm.bias)
        q, k, v = (
            (y @ linear.weight.T).unflatten(-1, (-1, 8)).transpose(1, 2)
            for linear in (attention.query, attention.key, attention.value)
        )
        p = pe.scores(q, k, pe.Rotary(8), causal=True).softmax(-1)
        out = p @ v.repeat_interleave(2, dim=1)
        x = x + out.transpose(1, 2).flatten(-2) @ attention.out.weight.T
        y = F.layer_norm(x, (32,), block.mlp_norm.weight, block.mlp_norm.bias)
        x = x + block.down(F.gelu(block.up(y)))
    x = F.layer_norm(x, (32,), model.norm.weight, model.norm.bias)
    torch.testing.assert_close(model(TOKENS), x @ model.embedding.token.weight.T)


def test_an_encoding_is_lowered_once_for_all_layers() -> None:
    encoding = Counting()
    built(encoding)(TOKENS)
    assert encoding.lowered == 1
    # One that reads each layer's input has to be lowered in each.
    encoding = CountingInput()
    built(encoding)(TOKENS)
    assert encoding.lowered == 3
    own = [Counting() for _ in range(3)]
    built(lambda layer: own[layer])(TOKENS)
    assert [each.lowered for each in own] == [1, 1, 1]


def test_layers_may_have_encodings_of_their_own() -> None:
    model = built(lambda layer: pe.T5Bias(4, buckets=4 * (layer + 1)))
    assert [model.encodings_of(layer)[0].buckets for layer in range(3)] == [4, 8, 12]
    names = [name for name in model.state_dict() if "encodings" in name]
    assert len(names) == 3
    before = model(TOKENS)
    for layer in range(3):
        weight = model.encodings_of(layer)[0].weight
        with torch.no_grad():
            weight[0] += 1.0
        assert not torch.allclose(model(TOKENS), before)
        with torch.no_grad():
            weight[0] -= 1.0


def test_an_embedding_may_act_in_every_layer() -> None:
    encoding = EveryLayer()
    built(encoding)(TOKENS)
    assert encoding.layers == [0, 1, 2]
    own = [EveryLayer() for _ in range(3)]
    built(lambda layer: own[layer])(TOKENS)
    assert [each.layers for each in own] == [[0], [1], [2]]


@pytest.mark.parametrize("causal", [True, False])
def test_who_sees_the_future(causal: bool) -> None:
    model = built(pe.ALiBi(4), causal=causal)
    changed = TOKENS.clone()
    changed[:, 6] = (changed[:, 6] + 1) % 13
    same = torch.isclose(model(changed), model(TOKENS)).all(-1)[0]
    assert same[:6].all() == causal
    assert not same[6:].any()


def test_positions_of_another_causality_do_not_open_the_future() -> None:
    """Forgetting causal=True in the builder would train a decoder that reads ahead."""
    for causal in (True, False):
        model = built(pe.Rotary(8), causal=causal)
        wrong = Positions.build(9, causal=not causal)
        with pytest.raises(PositionsError, match=f"causal={causal}.*built with causal"):
            model(TOKENS, wrong)
        with pytest.raises(PositionsError, match=f"causal={causal}.*built with causal"):
            model.blocks[0].attention(torch.zeros(2, 9, 32).double(), positions=wrong)


def shared() -> list[Encoding]:
    return [pe.Learned(32, max_length=9), pe.T5Bias(4), pe.Shaw(8, clip=2)]


def test_one_encoding_is_saved_once_and_comes_back(tmp_path: Path) -> None:
    model = built(shared())
    names = list(model.state_dict())
    assert [name for name in names if "encodings" in name] == [
        "embedding.encodings.0.weight",
        "embedding.encodings.1.weight",
        "embedding.encodings.2.keys_weight",
        "embedding.encodings.2.values_weight",
    ]
    path = tmp_path / "model.safetensors"
    safetensors.torch.save_file(model.state_dict(), path)
    torch.manual_seed(9)
    other = Transformer(**SIZES, encoding=shared()).double().eval()
    assert not torch.allclose(other(TOKENS), model(TOKENS))
    other.load_state_dict(safetensors.torch.load_file(path))
    assert torch.equal(other(TOKENS), model(TOKENS))


def test_nothing_but_parameters_is_saved() -> None:
    for encoding in (pe.Rotary(8), pe.ALiBi(4), pe.Sinusoidal(32), pe.SlidingWindow(3)):
        assert set(built(encoding).state_dict()) == set(built(None).state_dict())
        assert not list(built(encoding).buffers())


EXAMPLES = {
    name: member.for_model(
        model_dim=32, heads=4, head_dim=8, max_length=64, train_length=9, causal=True
    )
    for name, member in pe.encodings().items()
}


@pytest.mark.parametrize("name", EXAMPLES)
def test_every_encoding_starts_from_the_same_weights(name: str) -> None:
    plain = built(None).state_dict()
    model = built(copy.deepcopy(EXAMPLES[name])).state_dict()
    assert plain.keys() <= model.keys()
    for key, value in plain.items():
        assert torch.equal(model[key], value), key


@pytest.mark.parametrize("name", EXAMPLES)
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16, torch.float16])
def test_a_model_moves_to_another_dtype(name: str, dtype: torch.dtype) -> None:
    model = built(copy.deepcopy(EXAMPLES[name])).to(dtype)
    logits = model(TOKENS)
    assert logits.dtype == dtype
    exact = built(copy.deepcopy(EXAMPLES[name]))
    exact.load_state_dict(model.state_dict())
    difference = (logits.double() - exact(TOKENS)).abs().max()
    assert difference <= 32 * torch.finfo(dtype).eps


@pytest.mark.parametrize("name", EXAMPLES)
def test_every_parameter_learns(name: str) -> None:
    torch.manual_seed(2)
    model = Transformer(**SIZES, encoding=copy.deepcopy(EXAMPLES[name]), kv_heads=2, dropout=0.1)
    loss = F.cross_entropy(model(TOKENS)[:, :-1].flatten(0, 1), TOKENS[:, 1:].flatten())
    loss.backward()
    for key, parameter in model.named_parameters():
        if not parameter.requires_grad:
            # Drawn once: FoPE's coefficients.
            assert name == "fope", key
            continue
        assert parameter.grad is not None, key
        assert parameter.grad.isfinite().all(), key
        # No softmax sees what FIRE adds to all scores of a head.
        unseen = name == "fire" and key.endswith("output.bias")
        assert parameter.grad.any() or unseen, key


def test_heads_may_share_keys() -> None:
    model = built(pe.Rotary(8), kv_heads=1)
    assert model.blocks[0].attention.key.weight.shape == (8, 32)
    whole = built(pe.Rotary(8))
    state = model.state_dict()
    for name, value in state.items():
        if name.endswith(("key.weight", "value.weight")):
            state[name] = value.repeat(4, 1)
    whole.load_state_dict(state)
    torch.testing.assert_close(model(TOKENS), whole(TOKENS))


def test_a_model_reads_no_further_than_it_may() -> None:
    model = built(pe.Rotary(8), max_length=9)
    model(TOKENS)
    with pytest.raises(PositionsError, match=r"max_length=9\) got 12 tokens"):
        model(torch.zeros(1, 12).long())
    learned = built(pe.Learned(32, max_length=9))
    with pytest.raises(PositionsError, match=r"Learned\(max_length=9\) got positions up to 11"):
        learned(torch.zeros(1, 12).long())


@pytest.mark.usefixtures("unhooked")
def test_modules_own_encodings_alone() -> None:
    for make in (Attention, lambda dim, heads, parts: Transformer(13, dim, 1, heads, parts)):
        with pytest.raises(UnsupportedError, match="owns encodings; terms and Documents"):
            make(32, 4, [pe.Rotary(8), t.Slope(torch.ones(4))])


class Kept(Encoding):
    """A slope that low precision must not round, beside one that it may."""

    keep_float32 = ("slope",)

    def __init__(self) -> None:
        super().__init__()
        self.slope = nn.Parameter(torch.full((4,), 1.0 / 3))
        self.weight = nn.Parameter(torch.full((4,), 1.0 / 3))

    def lower(self, positions, context=None, *, dtype=torch.float32):
        return (t.Slope(self.slope),)


def test_some_parameters_stay_in_float32() -> None:
    for cast in (torch.bfloat16, torch.float16):
        model = Transformer(**SIZES, encoding=Kept()).to(cast)
        (kept,) = model.encodings_of(0)
        assert (kept.slope.dtype, kept.weight.dtype) == (torch.float32, cast)
        assert torch.equal(kept.slope, torch.full((4,), 1.0 / 3))
        assert model(TOKENS).dtype == cast
        assert torch.equal(model.float().encodings_of(0)[0].slope, torch.full((4,), 1.0 / 3))
        assert kept.double().slope.dtype == torch.float64
