"""SGLang of 2026, read at 108c36c and 0b1fd02."""

from dataclasses import replace

from posenc.models.doctor.engine import Engine
from posenc.models.doctor.engines.vllm import VLLM
from posenc.models.doctor.finding import Words

_SOURCE = "https://github.com/sgl-project/sglang/issues/33558"
_GAIN, _, _LONG = VLLM.losses

SGLANG = Engine(
    "sglang",
    "0.5.23 (108c36c, 0b1fd02)",
    (
        replace(
            _GAIN,
            words=Words(
                "SGLang reads attn_factor, not attention_factor: it takes the formula's gain.",
                "SGLang 读取 attn_factor 而不读取 attention_factor：它使用公式给出的增益。",
            ),
            link=_SOURCE,
        ),
        replace(
            _LONG,
            words=Words(
                "SGLang reads short_mscale and long_mscale, not attention_factor, of longrope.",
                "对于 longrope，SGLang 读取 short_mscale 和 long_mscale，而不读取 attention_factor。",
            ),
            link=_SOURCE,
        ),
    ),
)
