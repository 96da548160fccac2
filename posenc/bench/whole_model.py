"""Cases: a whole Llama of 135 M parameters with random weights, through posenc and as it comes."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any, Self

import torch
from torch import Tensor

import posenc as pe
from posenc.bench.attention_encodings import pairs
from posenc.bench.attention_products import square_products
from posenc.bench.case import Call, Case, Goal
from posenc.models.cache_names import cache_of, given_cache

THEIRS, OURS = "transformers, sdpa", "posenc in transformers"
BARE = "no rotation and no attention"
LEAST = "no rotation, and as many multiplications as attention has in square products"
ROW = "a Llama of 135 M parameters, beside the same in transformers"
PROMPT, STEPS = 2048, 8
CONTEXTS = (512, 2048)
Turn = Callable[[Tensor, Tensor], tuple[Tensor, Tensor]]


@dataclass(frozen=True)
class ModelSetting:
    """SmolLM2-135M, but for its vocabulary; `tokens` of a prompt, or of what a step sees."""

    tokens: int
    layers: int = 30
    width: int = 576
    inner: int = 1536
    heads: int = 9
    kv_heads: int = 3
    vocabulary: int = 4096

    def inputs(self) -> "ModelInputs":
        torch.manual_seed(0)
        return ModelInputs(self, torch.randint(self.vocabulary, (1, self.tokens)))

    def small(self) -> Self:
        return replace(self, tokens=min(self.tokens, 24), layers=2, width=36, inner=48)

    def model(self, attention: str) -> Any:
        """The same weights each time."""
        from transformers import LlamaConfig, LlamaForCausalLM

        torch.manual_seed(1)
        sizes = {"num_attention_heads": self.heads, "num_key_value_heads": self.kv_heads}
        config = LlamaConfig(
            hidden_size=self.width, intermediate_size=self.inner, vocab_size=self.vocabulary,
            num_hidden_layers=self.layers, max_position_embeddings=8192, rms_norm_eps=1e-5,
            rope_parameters={"rope_type": "default", "rope_theta": 1e5}, tie_word_embeddings=True,
            attn_implementation=attention, **sizes,
        )  # fmt: skip
        return LlamaForCausalLM(config).eval()


@dataclass(frozen=True)
class ModelInputs:
    setting: ModelSetting
    tokens: Tensor


def cases() -> Iterator[Case]:
    goal = Goal(ROW, f"prefill of {PROMPT}", OURS, THEIRS, 0.8, (), LEAST)
    runs = {THEIRS: prefill(theirs), OURS: prefill(ours), BARE: prefill(bare)}
    runs[LEAST] = prefill(multiplied)
    yield Case(f"whole model, prefill of {PROMPT}", "model", ModelSetting(PROMPT), runs, THEIRS,
               goals=(goal,), rounds=(7, 9))  # fmt: skip
    for keys in CONTEXTS:
        goal = Goal(ROW, f"a step at {keys}", OURS, THEIRS, 1.0, ())
        runs = {THEIRS: decode(theirs), OURS: decode(ours)}
        name = f"whole model, {STEPS} steps from {keys} tokens on"
        yield Case(name, "model", ModelSetting(keys), runs, THEIRS, goals=(goal,), rounds=(7, 15))


def theirs(setting: ModelSetting) -> Any:
    return setting.model("sdpa")


def ours(setting: ModelSetting) -> Any:
    """Rotation and attention through posenc, as whoever has a model of transformers attaches it."""
    rotary = pe.Rotary(setting.width // setting.heads, base=1e5)

    def turn_of(ids: Tensor) -> Turn:
        lowered = pe.lower(rotary, pe.Positions.build(ids=ids))
        return lambda q, k: pe.rotate(q, k, lowered)

    return by_hand(setting, "posenc by hand", turn_of, attention)


def bare(setting: ModelSetting) -> Any:
    """What rotation and attention cannot make faster: what is left of the model without them."""
    return by_hand(setting, BARE, unturned, keep)


def keep(module: Any, q: Tensor, *_: Any, **options: Any) -> tuple[Tensor, None]:
    """Queries for the output of attention."""
    return q.transpose(1, 2), None


def multiplied(setting: ModelSetting) -> Any:
    """The same with as many multiplications as attention has, at the rate of square products."""
    met = pairs(setting.tokens, causal=True)
    multiply = square_products(2 * setting.width * met, torch.float32)

    def keep_multiplying(*args: Any, **options: Any) -> tuple[Tensor, None]:
        multiply()
        return keep(*args, **options)

    return by_hand(setting, LEAST, unturned, keep_multiplying)


def unturned(ids: Tensor) -> Turn:
    return lambda q, k: (q, k)


def by_hand(
    setting: ModelSetting, name: str, turn_of: Callable[[Tensor], Turn], attend: Any
) -> Any:
    """A model that turns q and k by what turn_of makes of its positions, and attends so."""
    from transformers import AttentionInterface
    from transformers.models.llama import modeling_llama as llama

    AttentionInterface.register(name, attend)
    model = setting.model(name)
    model.model.rotary_emb.forward = lambda x, position_ids: (turn_of(position_ids), None)
    turn = llama.apply_rotary_pos_emb

    def rotate(q: Tensor, k: Tensor, cos: Any, sin: Any, **other: Any) -> tuple[Tensor, Tensor]:
        # Or a model beside this one, that nobody changed.
        return cos(q, k) if sin is None else turn(q, k, cos, sin, **other)

    llama.apply_rotary_pos_emb = rotate
    return model


def attention(
    module: Any, q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None, **options: Any
) -> tuple[Tensor, None]:
    """An AttentionInterface of transformers; keys come rotated, and prompts without padding."""
    assert mask is None
    out = pe.attend(q, k, v, causal=True, scale=options["scaling"])
    return out.transpose(1, 2), None


def prefill(make: Any) -> Any:
    """The logits after a prompt."""

    def contestant(inputs: ModelInputs) -> Call:
        model = make(inputs.setting)

        @torch.no_grad()
        def call() -> Tensor:
            return model(inputs.tokens, use_cache=True, logits_to_keep=1).logits

        return call

    return contestant


def decode(make: Any) -> Any:
    """Tokens one by one after a prompt, which are then forgotten again."""

    def contestant(inputs: ModelInputs) -> Call:
        model = make(inputs.setting)
        with torch.no_grad():
            cache = cache_of(model(inputs.tokens, use_cache=True, logits_to_keep=1))
        known = given_cache(model, cache)

        @torch.no_grad()
        def call() -> Tensor:
            logits = torch.empty(0)
            for step in range(STEPS):
                token = inputs.tokens[:, step : step + 1]
                logits = model(token, **known, use_cache=True).logits
            cache.crop(-STEPS)
            return logits

        return call

    return contestant
