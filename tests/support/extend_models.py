"""Models for tests of `posenc extend`: a tiny random Llama in a folder, and one built to copy."""

import random
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

TRAINED = 64


def tiny_config(**settings: Any) -> Any:
    from transformers import LlamaConfig

    sizes = {
        "vocab_size": 257,
        "hidden_size": 32,
        "intermediate_size": 48,
        "num_hidden_layers": 2,
        "num_attention_heads": 2,
        "num_key_value_heads": 1,
        "max_position_embeddings": TRAINED,
        # Weights so large that attention is far from even, and positions change the losses.
        "initializer_range": 0.15,
        "bos_token_id": 256,
        "eos_token_id": 256,
    }
    return LlamaConfig(**sizes | settings)


def tiny_model(**settings: Any) -> Any:
    from transformers import LlamaForCausalLM

    torch.manual_seed(0)
    return LlamaForCausalLM(tiny_config(**settings)).eval()


def byte_tokenizer(opens: bool = False) -> Any:
    """One token for each byte; with `opens` a token 256 before every text."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors
    from transformers import PreTrainedTokenizerFast

    letters = sorted(pre_tokenizers.ByteLevel.alphabet())
    vocabulary = {letter: i for i, letter in enumerate(letters)} | {"<s>": 256}
    rust = Tokenizer(models.BPE(vocabulary, []))
    rust.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    rust.decoder = decoders.ByteLevel()
    if opens:
        rust.post_processor = processors.TemplateProcessing(
            single="<s> $A", special_tokens=[("<s>", 256)]
        )
    return PreTrainedTokenizerFast(tokenizer_object=rust, bos_token="<s>")


def save_tiny(folder: Path, tokenizer: Any = None, **settings: Any) -> Path:
    """A folder as transformers has them, with weights and a tokenizer."""
    tiny_model(**settings).save_pretrained(folder)
    (tokenizer or byte_tokenizer()).save_pretrained(folder)
    return folder


def some_text(letters: int = 20_000) -> str:
    drawn = random.Random(0)
    words = ["position", "rotary", "window", "token", "far", "near", "of", "the", "a", "length"]
    lines = []
    while sum(map(len, lines)) < letters:
        lines.append(" ".join(drawn.choices(words, k=8)) + "\n")
    return "".join(lines)


class Copier(nn.Module):
    """A model built to copy: it says what followed the longest earlier run that ends like the text.

    It sees all that a cache went through, and takes what transformers' models take.
    """

    def __init__(self, words: int = 257) -> None:
        super().__init__()
        self.config, self.device, self.words = tiny_config(), torch.device("cpu"), words

    def forward(self, input_ids: Tensor, cache: Any, use_cache: bool, logits_to_keep: int) -> Any:
        from transformers.modeling_outputs import CausalLMOutputWithPast

        seen = [*getattr(cache, "seen", []), *input_ids[0].tolist()]
        cache.seen = seen
        ends = range(len(seen) - logits_to_keep + 1, len(seen) + 1)
        logits = torch.zeros(1, logits_to_keep, self.words)
        for row, end in enumerate(ends):
            logits[0, row, self._next(seen[:end])] = 20.0
        return CausalLMOutputWithPast(logits=logits)

    @staticmethod
    def _next(seen: list[int]) -> int:
        best, said = 0, 0
        for i in range(1, len(seen)):
            same = 0
            while same < i and seen[i - 1 - same] == seen[-1 - same]:
                same += 1
            if same >= best:
                best, said = same, seen[i]
        return said
