"""What diagnose says, of what agrees, of what nobody can explain, and of bad input."""

import math
from collections.abc import Callable

import pytest
import torch

import posenc as pe
from posenc.analysis.diagnose import Diagnosis, diagnose
from posenc.errors import ShapeError, UnsupportedError
from tests.support.diagnosed import (
    B,
    D,
    G,
    H,
    T,
    Wrong,
    both,
    raw,
)


@pytest.mark.unchecked
def test_what_no_hypothesis_explains_is_unknown() -> None:
    q, k, v = raw()
    rope, generator = pe.Rotary(D), torch.Generator().manual_seed(9)
    ours = pe.rotate(q, k, rope)
    theirs = tuple(torch.randn(x.shape, generator=generator) for x in ours)
    output = pe.attend(q, k, v, rope)
    noise = torch.randn(output.shape, generator=generator)
    for diagnosis in (
        diagnose(ours, theirs, rope, q=q, k=k),
        diagnose(ours, theirs, rope),
        diagnose(output, output + noise, rope, q=q, k=k, v=v),
    ):
        assert diagnosis.cause == "unknown"
        assert "unknown" in str(diagnosis)
        assert diagnosis.candidates
        assert not any(candidate.fits for candidate in diagnosis.candidates)
        assert diagnosis.candidates[0].left > 0.2
    blind = diagnose(output, output + noise, kind="output")
    assert blind.cause == "unknown"
    assert "With raw tensors" in blind.evidence


def test_a_single_number_that_differs_is_found_where_it_is() -> None:
    q, k, _ = raw(torch.float64)
    rope = pe.Rotary(D)
    ours = pe.rotate(q, k, rope)
    theirs = tuple(x.clone() for x in ours)
    theirs[1][1, 2, 7, 13] += 0.25
    diagnosis = diagnose(ours, theirs, rope, q=q, k=k)
    assert diagnosis.first == ("k", 1, 2, 7, 13)
    assert diagnosis.error == pytest.approx(0.25)
    assert diagnosis.cause == "unknown"
    assert "Only k differs." in diagnosis.evidence
    assert "dimensions of k, 13 differ" in diagnosis.evidence


PARTS: list[Callable[[], pe.Encoding]] = [
    lambda: pe.Rotary(D),
    lambda: pe.Rotary(D, layout="interleaved", rotary_dim=8, scaling=pe.YaRN(4.0, 64)),
    lambda: pe.Rotary(D, scaling=pe.DynamicNTK(2.0, original_length=4)),
    lambda: pe.XPos(D),
    lambda: pe.ALiBi(H),
    lambda: pe.T5Bias(H),
    lambda: pe.Shaw(D, clip=3),
    lambda: pe.CoPE(D, max_position=5),
]


@pytest.mark.parametrize("make", PARTS)
def test_right_implementations_agree_in_every_dtype(make: Callable[[], pe.Encoding]) -> None:
    encoding = make()
    for length in (1, T, 67):
        for dtype in (torch.float64, torch.float32, torch.bfloat16, torch.float16):
            q, k, v = (x.to(dtype) for x in raw(torch.float64, length))
            exact = both(encoding, q.double(), k.double(), v.double(), causal=True)
            theirs = both(encoding, q, k, v, causal=True)
            for one, two, values in zip(exact, theirs, (None, v), strict=True):
                given = {"q": q, "k": k, "v": values, "causal": True}
                diagnosis = diagnose(one, two, encoding, **given)
                assert diagnosis.agree, (dtype, length, str(diagnosis))
                assert diagnosis.cause == "none"
                assert diagnosis.error <= diagnosis.allowed
                assert diagnose(two, one, encoding, **given).agree


@pytest.mark.parametrize(
    ("dtype", "first"),
    [(torch.float32, 0), (torch.float32, 4_000), (torch.bfloat16, 4_000), (torch.float16, 0)],
)
def test_transformers_agrees(dtype: torch.dtype, first: int) -> None:
    """Its angles are float32, its cos, sin and products in the dtype of q."""
    llama = pytest.importorskip("transformers.models.llama.modeling_llama")
    from transformers import LlamaConfig

    q, k, v = raw(dtype, length=130)
    config = LlamaConfig(hidden_size=H * D, num_attention_heads=H, num_key_value_heads=G)
    at = torch.arange(first, first + 130)
    cos, sin = llama.LlamaRotaryEmbedding(config)(q, at[None])
    theirs = llama.apply_rotary_pos_emb(q, k, cos, sin)
    rope = pe.Rotary(D)
    ours = pe.rotate(q, k, rope, positions=at)
    assert diagnose(ours, theirs, rope, q=q, k=k, positions=at).agree
    assert diagnose(ours, theirs, rope, positions=at).agree
    if not first:
        assert diagnose(ours, theirs).agree
    output = torch.nn.functional.scaled_dot_product_attention(
        *theirs[:1], theirs[1].repeat_interleave(2, 1), v.repeat_interleave(2, 1), is_causal=True
    )
    ours = pe.attend(q, k, v, rope, causal=True)
    assert diagnose(ours, output, rope, q=q, k=k, v=v, causal=True, positions=at).agree


def test_hidden_scores_may_be_any_large_negative_number() -> None:
    q, k, _ = raw()
    ours = pe.scores(q, k, pe.Rotary(D), causal=True)
    for number in (torch.finfo(torch.float32).min, -1e9, -1e4):
        theirs = ours.masked_fill(ours == -torch.inf, number)
        assert diagnose(ours, theirs, pe.Rotary(D), q=q, k=k, causal=True).agree
        assert diagnose(theirs, ours, kind="scores").agree
    diagnosis = diagnose(ours, ours.masked_fill(ours == -torch.inf, 0.0), kind="scores")
    assert diagnosis.error == math.inf
    assert diagnosis.first == ("scores", 0, 0, 0, 1)


def test_dtype_says_in_which_precision_theirs_was_computed() -> None:
    q, k, _ = raw()
    rope = pe.Rotary(D)
    ours = pe.rotate(q, k, rope)
    theirs = tuple(x.bfloat16().float() for x in ours)
    assert not diagnose(ours, theirs, rope, q=q, k=k).agree
    diagnosis = diagnose(ours, theirs, rope, q=q, k=k, dtype=torch.bfloat16)
    assert diagnosis.agree
    assert "bfloat16" in diagnosis.evidence


def test_long_inputs_are_diagnosed_from_some_of_their_tokens() -> None:
    q, k, v = raw(length=300)
    rope = pe.Rotary(D)
    diagnosis = diagnose(pe.rotate(q, k, rope), Wrong(base=5e5)(q, k), rope, q=q, k=k)
    assert diagnosis.cause == "base"
    ours = pe.attend(q, k, v, rope, causal=True)
    theirs = pe.attend(q, k, v, rope, causal=True, scale=1 / D)
    diagnosis = diagnose(ours, theirs, rope, q=q, k=k, v=v, causal=True)
    assert diagnosis.cause == "scale"
    assert "the whole difference" in diagnosis.evidence


def test_bad_input_is_refused(unhooked: None) -> None:
    q, k, v = raw()
    rope = pe.Rotary(D)
    ours = pe.rotate(q, k, rope)
    with pytest.raises(ShapeError, match="heads before tokens"):
        diagnose(ours, (ours[0].transpose(1, 2), ours[1]))
    wrong = ours[0].clone()
    wrong[0, 0, 3, 1] = math.nan
    with pytest.raises(ShapeError, match=r"theirs=.*NaN, first at \(0, 0, 3, 1\)"):
        diagnose(ours[0], wrong)
    with pytest.raises(ShapeError, match="holds inf"):
        diagnose(ours[0], ours[0] + math.inf)
    with pytest.raises(ShapeError, match="-inf"):
        diagnose(ours[0], ours[0] - math.inf, kind="turned")
    with pytest.raises(ShapeError, match="int64"):
        diagnose(ours[0].long(), ours[0].long())
    for none in ((*ours, v), None, 1.0, "q", ()):
        with pytest.raises(ShapeError, match="a pair"):
            diagnose(none, none)
    with pytest.raises(ShapeError, match=r"theirs \[\(2, 6, 11, 20\)\]: bring both"):
        diagnose(ours, ours[0])
    with pytest.raises(ShapeError, match="at least one number"):
        diagnose(q[:0], q[:0])
    for empty in (q.to("meta"), q.to_sparse()):
        with pytest.raises(ShapeError, match="give one that holds numbers"):
            diagnose(q, empty)
    with pytest.raises(ShapeError, match="is needed of each"):
        diagnose(q[0, 0], q[0, 0])
    with pytest.raises(ShapeError, match="kind="):
        diagnose(q, q, kind="query")
    with pytest.raises(ShapeError, match="without k: give all of q, k"):
        diagnose(ours, ours, rope, q=q)
    with pytest.raises(ShapeError, match="give those that ours was computed from"):
        diagnose(ours, ours, rope, q=q[:, :, :5], k=k[:, :, :5])
    s = pe.scores(q, k, rope)
    with pytest.raises(ShapeError, match=r"diagnose\(q=...\).* NaN, first at \(0, 0, 0, 0\)"):
        diagnose(s, s + 1, rope, q=math.nan * q, k=k)
    with pytest.raises(ShapeError, match="raw tensors are finite"):
        diagnose(s, s + 1, rope, q=q - math.inf, k=k)
    with pytest.raises(ShapeError, match="not list"):
        diagnose(s, s + 1, rope, q=q.tolist(), k=k)
    with pytest.raises(ShapeError, match="a finite number"):
        diagnose(s, s + 1, rope, q=q, k=k, scale=math.nan)
    with pytest.raises(ShapeError, match="dtype is one of"):
        diagnose(s, s + 1, rope, q=q, k=k, dtype=torch.int32)
    with pytest.raises(UnsupportedError, match="turns neither q nor k"):
        diagnose(ours, ours, pe.ALiBi(H), q=q, k=k)
    with pytest.raises(UnsupportedError, match="give scores or outputs"):
        diagnose(ours, ours, pe.ReRoPE(D, window=3), q=q, k=k, causal=True)
    with pytest.raises(UnsupportedError, match="give the raw ones"):
        diagnose(ours, ours, pe.XPos(D), causal=True)


def test_a_diagnosis_is_data_and_reads_as_sentences() -> None:
    q, k, _ = raw()
    rope = pe.Rotary(D)
    diagnosis = diagnose(pe.rotate(q, k, rope), (q, k), rope)
    assert isinstance(diagnosis, Diagnosis)
    assert str(diagnosis) == diagnosis.evidence
    assert str(diagnosis).startswith("They differ, first at token 1, dimension 0 of q (batch row 0")
    assert str(diagnosis).count(". ") >= 3
    assert diagnosis.candidates[0].left < 1e-6
    assert str(diagnose(q, q)).startswith("They agree")


def test_terms_and_encodings_that_read_the_layer_are_diagnosed_too() -> None:
    q, k, v = raw()
    lowered = pe.lower([pe.Rotary(D), pe.ALiBi(H)], T, causal=True)
    ours = pe.scores(q, k, lowered)
    theirs = pe.scores(q, k, [pe.Rotary(D), pe.ALiBi(H)], causal=False)
    assert diagnose(ours, theirs, lowered, q=q, k=k).cause == "causal mask"
    gate = pe.ForgetGate(24, H).eval()
    x = torch.randn(B, T, 24, generator=torch.Generator().manual_seed(4))
    options = {"causal": True, "context": pe.Context(x)}
    ours, theirs = both(gate, q, k, v, **options), both(None, q, k, v, causal=True)
    for one, two, values in zip(ours, theirs, (None, v), strict=True):
        diagnosis = diagnose(one.detach(), two, gate, q=q, k=k, v=values, **options)
        assert diagnosis.cause == "bias missing", diagnosis


def test_inputs_are_left_as_they_were_and_need_no_gradient() -> None:
    q, k, _ = (x.requires_grad_() for x in raw())
    rope = pe.Rotary(D)
    ours, theirs = pe.rotate(q, k, rope), (q, k)
    before = [x.detach().clone() for x in (*ours, *theirs)]
    assert diagnose(ours, theirs, rope, q=q, k=k).cause == "not turned"
    t5 = pe.T5Bias(H)
    s = pe.scores(q, k, t5)
    state = torch.random.get_rng_state()
    assert diagnose(s, 1.5 * s, t5, q=q, k=k).cause == "constant factor"
    assert torch.equal(torch.random.get_rng_state(), state)
    for x, kept in zip((*ours, *theirs), before, strict=True):
        assert torch.equal(x.detach(), kept)
