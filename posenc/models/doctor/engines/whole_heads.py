"""Model types that transformers turns whole, whatever share of a head a file says."""

# Whose own code computes "default" without partial_rotary_factor.
WHOLE_HEADS = frozenset(
    {"llama", "mistral", "mixtral", "qwen2", "qwen2_moe", "qwen3", "qwen3_moe", "gemma", "gemma2"}
    | {"gemma3_text", "phimoe", "gpt_oss", "smollm3", "llama4_text", "starcoder2", "olmo", "olmo2"}
    | {"olmo3", "granite", "cohere", "cohere2", "ernie4_5", "seed_oss", "apertus", "lfm2"}
    | {"modernbert", "exaone4", "ministral3", "helium", "falcon", "ministral", "lfm2_moe"}
    | {"ernie4_5_moe", "ernie4_5_vl_moe_text", "exaone4_5_text", "falcon_h1", "gemma3n_text"}
    | {"gemma4_text", "hunyuan_v1_dense", "hunyuan_v1_moe", "nomic_bert", "qwen2_vl"}
    | {"qwen2_vl_text", "qwen2_5_vl", "qwen2_5_vl_text", "qwen3_vl_text", "qwen3_vl_moe_text"}
    | {"granitemoehybrid", "hunyuan_vl_text", "internlm3", "exaone", "apertus1p5_text", "dory"}
    | {"lara_mini", "arcee", "olmoe", "jais2", "flex_olmo", "bitnet", "granitemoe", "hy_v3"}
    | {"granitemoeshared", "dots1", "afmoe", "vaultgemma"}
)
