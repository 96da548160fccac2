"""One run of a model hands over what each layer attends with."""

from typing import Any

import pytest
import torch

import posenc as pe
from posenc.errors import UnknownNameError, UnsupportedError
from posenc.models.collect import LayerCall, collect
from tests.support.small_models import bert, llama, stablelm

transformers = pytest.importorskip("transformers")
IDS = torch.randint(1, 97, (2, 20), generator=torch.Generator().manual_seed(0))


def calls(model: Any, **options: Any) -> list[LayerCall]:
    seen: list[LayerCall] = []
    collect(model, IDS, seen.append, **options)
    return seen


class TestCollect:
    def test_scores_of_raw_q_and_k_rebuild_what_the_layer_gave(self) -> None:
        seen = calls(llama())
        assert [call.layer for call in seen] == [0, 1]
        for call in seen:
            assert call.q.shape == (2, 4, 20, 16)
            assert call.k.shape == call.v.shape == (2, 2, 20, 16)
            assert len(call.encodings) == 1
            assert isinstance(call.encodings[0], pe.Rotary)
            s = pe.scores(call.q, call.k, call.lowered, scale=call.scale)
            out = s.softmax(-1) @ call.v.repeat_interleave(2, dim=1)
            assert torch.allclose(out, call.out, atol=1e-5)

    @pytest.mark.parametrize(
        "config",
        [
            transformers.OPTConfig(
                hidden_size=32, ffn_dim=48, num_hidden_layers=2, num_attention_heads=4,
                word_embed_proj_dim=32, vocab_size=97,
            ),
            transformers.GPT2Config(
                n_embd=32, n_layer=2, n_head=4, vocab_size=97, scale_attn_by_inverse_layer_idx=True
            ),
        ],
        ids=lambda config: config.model_type,
    )  # fmt: skip
    def test_queries_that_the_code_scales_itself(self, config: Any) -> None:
        """OPT's, and gives a scale of 1; GPT-2's layers have scales of their own."""
        for call in calls(transformers.AutoModelForCausalLM.from_config(config).eval()):
            s = pe.scores(call.q, call.k, call.lowered, scale=call.scale)
            assert torch.allclose(s.softmax(-1) @ call.v, call.out, atol=1e-5)

    def test_q_and_k_are_those_before_rotation(self) -> None:
        # The same token everywhere has the same query in the first layer, until it is turned.
        seen: list[LayerCall] = []
        collect(llama(), torch.full((1, 9), 5), seen.append)
        assert torch.allclose(seen[0].q, seen[0].q[:, :, :1], atol=1e-6)
        turned, _ = pe.rotate(seen[0].q, seen[0].k, seen[0].encodings[0])
        assert not torch.allclose(turned, turned[:, :, :1], atol=1e-2)

    def test_some_layers(self) -> None:
        assert [call.layer for call in calls(bert(num_hidden_layers=4), layers={1, 3})] == [1, 3]

    def test_a_layer_that_is_not_there(self) -> None:
        with pytest.raises(UnknownNameError, match=r"'7'.*known are 0, 1"):
            calls(llama(), layers={0, 7})

    def test_the_model_is_as_before(self) -> None:
        model = llama()
        with torch.no_grad():
            before = model(IDS).logits
        own = model.config._attn_implementation

        def fail(call: LayerCall) -> None:
            raise RuntimeError("seen enough")

        with pytest.raises(RuntimeError, match="seen enough"):
            collect(model, IDS, fail)
        assert model.config._attn_implementation == own
        assert "_posenc" not in model.__dict__
        with torch.no_grad():
            assert torch.equal(model(IDS).logits, before)

    def test_a_model_that_posenc_cannot_enter(self) -> None:
        with pytest.raises(
            UnsupportedError, match="StableLmForCausalLM does not tell that all its attention"
        ):
            calls(stablelm())
