"""Which tensors of a checkpoint hold queries and keys, by their names."""

import re
from dataclasses import dataclass
from typing import Literal

from posenc.errors import SettingError, UnknownNameError

# Tensors of a projection, LoRA's wrapping included: those with its outputs along dimension 0, those
# with them along the last one (flax's kernels; biases have no other), and those with none.
_ROWS = (
    r"(?:base_layer\.)?(?:weight|weight_scale)$"
    r"|lora_(?:B|magnitude_vector)(?:\.[^.]+)?(?:\.(?:weight|bias))?$"
)
_COLUMNS = r"(?:base_layer\.)?(?:kernel|bias)$"
_INPUTS = r"lora_A(?:\.[^.]+)?(?:\.weight)?$"
# StableLM has one for each head.
_NORMS = r"(?:q|k|query|key)_(?:layer)?norm(?:\.norms\.\d+)?"
# What stands beside a projection of q or k, and changes with it: the other one, and norms.
BESIDE = re.compile(rf"(?:^|\.)(?:[qk]_proj|w[qk]|{_NORMS})\.(?:weight|kernel|bias|scale)$")
# Whether a tensor is of queries or of keys, where its module is named after one of them.
SIDE = re.compile(r"(?:^|\.)w?(q|k)(?:uery(?!_key)|ey)?(?:_[^.]*)?(?:\.|$)")


@dataclass(frozen=True)
class Names:
    """Regular expressions, searched in the names of tensors.

    rows: dimension 0 runs over heads, as in torch's Linear (out, in), biases, LoRA's factor B.
    columns: the last dimension does, as in kernels stored (in, out).
    norms: the last dimension does, in norms of q and k (head_dim,) or (heads, head_dim); they are
        apart where queries, keys and values are fused.
    one_head: dimension 0 is a single head, whatever its size, as MLA's shared key.
    kept: tensors of q and k that the layout does not touch, as LoRA's factor A.
    guarded: names that are refused where none of the others finds them, because leaving them as
        they are would be wrong without anyone noticing (packed and block-scaled weights).
    order: of the heads, where queries, keys and values are fused into one matrix.
    """

    rows: str | None = None
    columns: str | None = None
    norms: str | None = None
    one_head: str | None = None
    kept: str | None = None
    guarded: str | None = None
    order: Literal["concatenated", "grouped"] | None = None

    def __post_init__(self) -> None:
        for field in ("rows", "columns", "norms", "one_head", "kept", "guarded"):
            try:
                re.compile(getattr(self, field) or "")
            except re.error as error:
                raise SettingError(
                    f"Names({field}={getattr(self, field)!r}) is no regular expression: {error}"
                ) from None

    def find(self, field: str, name: str) -> bool:
        """Whether the expression in `field` finds itself in `name`."""
        pattern = getattr(self, field)
        return pattern is not None and re.search(pattern, name) is not None


def _modules(
    heads: str,
    one_head: str | None = None,
    order: Literal["concatenated", "grouped"] | None = None,
    norms: str | None = _NORMS,
) -> Names:
    def owned(parts: str, *modules: str | None) -> str:
        return rf"(?:^|\.)(?:{'|'.join(filter(None, modules))})\.(?:{parts})"

    return Names(
        rows=owned(_ROWS, heads),
        columns=owned(_COLUMNS, heads),
        norms=None if norms is None else owned(r"(?:weight|bias|scale)$", norms),
        one_head=None if one_head is None else owned(_ROWS, one_head),
        kept=owned(_INPUTS, heads, one_head),
        guarded=owned("", heads, one_head, norms),
        order=order,
    )


# Named after the first model with such names.
FAMILIES = {
    "llama": _modules(r"[qk]_proj"),
    "meta": _modules(r"w[qk]"),
    # Its norms are of what the heads are made from, not of the heads.
    "deepseek": _modules(r"q_proj|q_b_proj", one_head=r"kv_a_proj_with_mqa", norms=None),
    "gpt_neox": _modules(r"query_key_value", order="grouped"),
    "phi3": _modules(r"qkv_proj", order="concatenated"),
    "chatglm": _modules(r"query_key_value", order="concatenated"),
}
# Of model types whose matrix of queries, keys and values is named as another's is that has its
# heads in another order.
ORDERS = {
    "chatglm": "concatenated",
    "bailing_moe": "concatenated",
    "codegen": "four blocks of queries, values and keys",
}


def family(names: str | Names) -> Names:
    """The names themselves, or those of a family of FAMILIES."""
    if isinstance(names, Names):
        return names
    if names not in FAMILIES:
        raise UnknownNameError("family of checkpoints", names, FAMILIES)
    return FAMILIES[names]
