"""What llama.cpp calls the types of transformers, where it calls them otherwise.

Source: github.com/ggml-org/llama.cpp, convert_hf_to_gguf.py and MODEL_ARCH_NAMES of
gguf-py/gguf/constants.py.
"""

from posenc.models.spec import ModelSpec

_OTHERS = {
    "bert": "distilbert roberta xlm-roberta",
    "chatglm": "glm",
    "command-r": "cohere",
    "deepseek2": "deepseek_v2 deepseek_v3 kimi_k2",
    "ernie4_5-moe": "ernie4_5_moe",
    "falcon": "RefinedWeb RefinedWebModel",
    "falcon-h1": "falcon_h1",
    "gemma3": "gemma3_text",
    "gemma3n": "gemma3n_text",
    "gemma4": "gemma4_text",
    "glm4moe": "glm4_moe",
    "gpt-oss": "gpt_oss",
    "gptneox": "gpt_neox",
    "granitehybrid": "granitemoehybrid",
    "hunyuan-dense": "hunyuan_v1_dense",
    "hunyuan-moe": "hunyuan_v1_moe",
    "kimi-linear": "kimi_linear",
    "lfm2moe": "lfm2_moe",
    "llama": "mistral mixtral internlm3",
    "llama4": "llama4_text",
    "mistral3": "ministral3",
    "modern-bert": "modernbert",
    "nomic-bert": "nomic_bert",
    "olmo2": "olmo3",
    "phi2": "phi phi-msft",
    "qwen2moe": "qwen2_moe",
    "qwen2vl": "qwen2_vl qwen2_vl_text qwen2_5_vl qwen2_5_vl_text",
    "qwen35": "qwen3_5 qwen3_5_text",
    "qwen35moe": "qwen3_5_moe qwen3_5_moe_text",
    "qwen3moe": "qwen3_moe",
    "qwen3next": "qwen3_next",
    "qwen3vl": "qwen3_vl qwen3_vl_text",
    "qwen3vlmoe": "qwen3_vl_moe qwen3_vl_moe_text",
    "starcoder": "gpt_bigcode",
    "t5": "mt5 umt5",
}


def architecture_of(spec: ModelSpec) -> str:
    """llama.cpp's name of a model's type; the same where posenc knows of no other.

    Example: `architecture_of(read({"model_type": "mistral"}))` is "llama".
    """
    model_type = spec.model_type
    if model_type == "gemma3_text" and not all(x is None or x.causal for x in spec.main.layers):
        # EmbeddingGemma, whose file says so by the class of its model.
        return "gemma-embedding"
    for name, types in _OTHERS.items():
        if model_type in types.split():
            return name
    return model_type
