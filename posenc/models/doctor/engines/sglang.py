"""SGLang of 2026, read at 108c36c and 0b1fd02."""

from posenc.models.doctor.engine import Engine, Loss
from posenc.models.doctor.engines.gains import (
    attn_factor_for,
    both_scales,
    by_pair,
    long_rope_taken,
    yarn_taken_by,
)
from posenc.models.doctor.finding import Words

_SOURCE = "https://github.com/sgl-project/sglang/tree/108c36c/python/sglang/srt/layers/"

SGLANG = Engine(
    "sglang",
    "0.5.23 (108c36c, 0b1fd02)",
    (
        Loss(
            "yarn-gain",
            yarn_taken_by(by_pair),
            Words(
                "SGLang reads attn_factor and the mscale pair, not attention_factor: it takes "
                "the formula's gain, times attn_factor.",
                "SGLang 读取 attn_factor 和 mscale 对，而不读取 attention_factor："
                "它使用公式给出的增益，再乘以 attn_factor。",
            ),
            "https://github.com/sgl-project/sglang/pull/33558",
            ("attention_factor",),
            attn_factor_for(by_pair),
        ),
        Loss(
            "long-rope-gain",
            long_rope_taken,
            Words(
                "SGLang reads short_mscale and long_mscale, not attention_factor, of longrope.",
                "对于 longrope，SGLang 读取 short_mscale 和 long_mscale，而不读取 attention_factor。",
            ),
            _SOURCE + "rotary_embedding/rope_variant.py",
            ("attention_factor",),
            both_scales,
        ),
    ),
)
