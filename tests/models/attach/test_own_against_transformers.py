"""Where transformers computes something else than the model it was written for, or nothing."""

import pytest
import torch

import posenc as pe
from tests.support.own_code import MODELS, assert_same, inputs, output, right_padding, text

pytest.importorskip("transformers")


@torch.no_grad()
def test_falcons_eager_attention_adds_alibi_twice() -> None:
    # FalconModel.forward adds the bias to the mask for every implementation, where once it did so
    # for sdpa alone, and the eager branch of FalconAttention.forward adds it again. sdpa, which is
    # the default, is right; posenc is the same whatever implementation it takes the place of.
    name = "falcon, alibi"
    model = MODELS[name].build(attention="eager")
    eager = output(model, **inputs(name, text()))
    right = output(MODELS[name].build(attention="sdpa"), **inputs(name, text()))
    assert (eager - right).abs().max() > 1e-2 * right.abs().max()
    pe.attach(model)
    assert_same(output(model, **inputs(name, text())), right)
    doubled = [2 * slope for slope in pe.ALiBi(4).slope_values()]
    pe.attach(model, pe.ALiBi(4, doubled, inside=True))
    assert_same(output(model, **inputs(name, text())), eager)


@torch.no_grad()
def test_falcons_alibi_rounds_positions_beyond_256() -> None:
    # build_alibi_tensor multiplies in bfloat16, whose whole numbers end at 256: later neighbours
    # share a position. posenc's are exact, as they are of any text that is cut short.
    name, length = "falcon, alibi", 300
    model = MODELS[name].build()
    told = inputs(name, text(rows=1, length=length))
    rounded = output(model, **told)
    pe.attach(model)
    made = output(model, **told)
    assert_same(made[:, :256], rounded[:, :256])
    assert (made - rounded).abs().max() > 1e-3 * made.abs().max()
    # The bias of each key by the distance, computed in float64.
    at = torch.arange(length, dtype=torch.float64)
    slopes = torch.tensor(pe.ALiBi(4).slope_values(), dtype=torch.float64)
    exact = slopes[:, None, None] * (at - at[:, None]).clamp(max=0)
    seen = []
    with pe.models.attach.watch(model, lambda *given: seen.append(given)):
        output(model, **told)
    _, q, k, v, _, out, _ = seen[0]
    s = (q.double() @ k.double().mT + exact) / q.shape[-1] ** 0.5
    s = s.masked_fill(at > at[:, None], -torch.inf)
    assert_same(out.double(), s.softmax(-1) @ v.double())


@torch.no_grad()
def test_mpt_knows_one_alibi_alone() -> None:
    # MptModel.forward never hands attn_config.alibi_bias_max on, which is 16 in
    # mpt-7b-storywriter: transformers takes 8, for which nobody trained it.
    settings = {"attn_config": {"alibi_bias_max": 16}}
    model = MODELS["mpt"].build(**settings)
    told = inputs("mpt", text())
    theirs = output(model, **told)
    assert torch.equal(theirs, output(MODELS["mpt"].build(), **told))
    pe.attach(model)
    made = output(model, **told)
    assert (made - theirs).abs().max() > 1e-2 * theirs.abs().max()
    # llm-foundry's gen_slopes, of 6 heads: every second one of the 8 of the next power of two.
    slopes = [2 ** (-16 * i / 8) for i in (2, 4, 6, 8, 1, 3)]
    pe.attach(model, pe.ALiBi(6, slopes))
    assert_same(output(model, **told), made)


@torch.no_grad()
def test_mpt_reads_on_where_its_table_ends() -> None:
    # The bias of transformers is max_seq_len long, and no longer text fits it.
    told = inputs("mpt", text())
    short, model = MODELS["mpt"].build(max_seq_len=10), MODELS["mpt"].build()
    with pytest.raises(RuntimeError, match="must match the size"):
        output(short, **told)
    pe.attach(short)
    assert_same(output(short, **told), output(model, **told))


@torch.no_grad()
def test_xlnet_cannot_be_both_causal_and_padded() -> None:
    # `attn_mask += data_mask` adds masks of several rows to one of a single row in place.
    model = MODELS["xlnet, causal"].build()
    told = inputs("xlnet, causal", text(), right_padding([15, 9, 4]))
    with pytest.raises(RuntimeError, match="doesn't match the broadcast shape"):
        output(model, **told)
    pe.attach(model)
    assert output(model, **told).isfinite().all()


@torch.no_grad()
def test_mpt_hides_what_a_mask_of_pairs_is_not_zero_at() -> None:
    # MptModel.forward makes booleans of any mask, and its attention hides where they are true: what
    # is added to scores elsewhere reads as it does there.
    told = inputs("mpt", text(rows=1))
    length = told["input_ids"].shape[1]
    seen = torch.ones(length, length, dtype=torch.bool).tril()
    seen[5:, 3] = False
    numbers = torch.zeros(1, 1, length, length).masked_fill(~seen, torch.finfo(torch.float32).min)
    model = MODELS["mpt"].build()
    told["attention_mask"] = numbers
    theirs = output(model, **told)
    pe.attach(model)
    assert_same(output(model, **told), theirs)
