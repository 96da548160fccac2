"""Frequencies that are rounded when a model is cast."""

from collections.abc import Iterator

from posenc.models.angles import bfloat16, compare
from posenc.models.doctor.finding import Case, Finding, Words


def bfloat16_frequencies(case: Case) -> Iterator[Finding]:
    """`model.to(torch.bfloat16)` rounds inv_freq, and no later cast brings it back."""
    # A GGUF file is none of transformers', and the positions of a picture are no count of tokens.
    layers = (layer for layer in case.spec.layers if layer is not None)
    if not case.values or any(x.rotary and x.rotary.name == "axial" for x in layers):
        return
    effect = compare(case.spec, case.spec, case.target, lambda waves: [bfloat16(x) for x in waves])
    if effect is not None and effect.grave:
        yield Finding(
            "bfloat16-frequencies",
            "note",
            Words(
                "If the model is cast with model.to(torch.bfloat16), its frequencies are rounded. "
                "Load it with dtype=torch.bfloat16 instead, which keeps them.",
                "若用 model.to(torch.bfloat16) 转换模型，其频率会被舍入。请改用 dtype=torch.bfloat16 加载，可保持频率。",
            ),
            effect=effect,
            link="https://github.com/huggingface/transformers/issues/45902",
        )
