"""Which tokens a configuration lets be seen, before and behind, as transformers' masks have it."""

from typing import Any

import pytest
import torch

from posenc.models.read import read
from tests.support.families import SIZES, VOCABULARY

transformers = pytest.importorskip("transformers")

KINDS = {"layer_types": ["sliding_attention", "sliding_attention", "full_attention"]}
GEMMA3 = {"model_type": "gemma3_text", **KINDS}
GEMMA4 = {"model_type": "gemma4_text", "global_head_dim": 8, "vocab_size_per_layer_input": 97}
FILES: dict[str, dict[str, Any]] = {
    "EmbeddingGemma": {**GEMMA3, "use_bidirectional_attention": True},
    "Gemma 3": {**GEMMA3, "use_bidirectional_attention": False},
    "Gemma 4 of both sides": {**GEMMA4, "use_bidirectional_attention": "all"},
    "Gemma 4 of images": {**GEMMA4, "use_bidirectional_attention": "vision"},
    "Gemma 3, open": {**GEMMA3, "is_causal": False},
    "Mistral, open": {"model_type": "mistral", "is_causal": False},
    "Mistral": {"model_type": "mistral", "is_causal": True},
    "Qwen 2, open": {"model_type": "qwen2", "is_causal": False, "use_sliding_window": False},
    "BERT": {"model_type": "bert"},
    "BERT that writes": {"model_type": "bert", "is_decoder": True},
    "RoBERTa that writes": {"model_type": "roberta", "is_decoder": True},
    "XLM-RoBERTa that writes": {"model_type": "xlm-roberta", "is_decoder": True},
    "ELECTRA that writes": {"model_type": "electra", "is_decoder": True, "embedding_size": 32},
}
TOKENS, HERE = 24, 12


@pytest.mark.parametrize("width", [6, 7])
@pytest.mark.parametrize("name", FILES)
def test_each_layer_sees_as_far_as_it_is_read(name: str, width: int) -> None:
    values = {**SIZES, "sliding_window": width, **FILES[name]}
    layer = read(values).layers[0]
    assert layer is not None
    reach = (layer.window or TOKENS) - 1
    before = min(HERE, reach)
    behind = 0 if layer.causal else min(TOKENS - 1 - HERE, reach)
    assert seen_by_first_layer(values) == list(range(HERE - before, HERE + behind + 1))


def seen_by_first_layer(values: dict[str, Any]) -> list[int]:
    """The tokens whose change changes what the first layer makes of the token HERE."""
    config = transformers.CONFIG_MAPPING[values["model_type"]].from_dict(dict(values))
    torch.manual_seed(0)
    model = transformers.AutoModel.from_config(config).eval()
    rows = torch.randint(3, VOCABULARY, (1, TOKENS)).repeat(TOKENS + 1, 1)
    for number in range(TOKENS):
        rows[number, number] = 3 + (rows[number, number] + 40) % 94
    with torch.no_grad():
        states = model(rows, use_cache=False, output_hidden_states=True).hidden_states[1][:, HERE]
    return ((states[:-1] - states[-1]).abs() > 1e-6).any(-1).nonzero().flatten().tolist()
