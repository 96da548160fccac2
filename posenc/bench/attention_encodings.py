"""What attention is measured with: encodings by the name that cases have for them, at their sizes.

Sizes of tables are those of the papers' models; of a table per distance, all distances.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import torch

import posenc as pe
from posenc.terms import DistanceTable

if TYPE_CHECKING:
    from posenc.bench.attention_inputs import AttentionSetting

WINDOW, SINKS, ZONE = 256, 4, 2048
BUCKETS = 256
# Of 8192 tokens; other lengths are cut in the same shares.
DOCUMENTS = (2048, 512, 3072, 128, 1024, 896, 256, 256)

ENCODINGS: dict[str, Callable[["AttentionSetting"], Any]] = {
    "none": lambda setting: None,
    "rotary": lambda setting: pe.Rotary(setting.dim),
    "xpos": lambda setting: pe.XPos(setting.dim),
    "alibi": lambda setting: pe.ALiBi(setting.heads),
    "t5": lambda setting: pe.T5Bias(setting.heads, bidirectional=not setting.causal),
    "kerple": lambda setting: pe.KERPLE(setting.heads),
    "sandwich": lambda setting: pe.Sandwich(setting.heads),
    "learned table": lambda setting: DistanceTable(
        torch.nn.Parameter(torch.randn(setting.heads, 2 * setting.length - 1)),
        zero=setting.length - 1,
    ),
    "fire": lambda setting: pe.FIRE(setting.heads),
    "forget_gate": lambda setting: pe.ForgetGate(setting.heads * setting.dim, setting.heads),
    "cope": lambda setting: pe.CoPE(setting.dim),
    "shaw": lambda setting: pe.Shaw(setting.dim, clip=64),
    "transformer_xl": lambda setting: pe.TransformerXL(setting.heads * setting.dim, setting.heads),
    "deberta": lambda setting: pe.DeBERTa(
        setting.heads * setting.dim, setting.heads, span=512, buckets=BUCKETS, projections="own"
    ),
    "rerope": lambda setting: pe.ReRoPE(setting.dim, window=WINDOW),
    "self_extend": lambda setting: pe.SelfExtend(setting.dim, window=WINDOW, group=8),
    "lm_infinite": lambda setting: pe.LMInfinite(setting.dim, window=ZONE, sinks=SINKS),
    "re-indexed sinks": lambda setting: pe.Sinks(SINKS, window=ZONE, rotary=pe.Rotary(setting.dim)),
    "window of 256": lambda setting: pe.SlidingWindow(WINDOW),
    "packed documents": lambda setting: None,
}


def positions(setting: "AttentionSetting", queries: int) -> pe.Positions:
    """Those of the setting: packed documents, or one sequence whose last tokens are the queries."""
    if setting.encoding != "packed documents":
        return pe.Positions.build(queries, setting.length, causal=setting.causal)
    ends = torch.tensor(DOCUMENTS).cumsum(0) * setting.length // sum(DOCUMENTS)
    documents = torch.searchsorted(ends, torch.arange(setting.length), right=True)
    return pe.Positions.build(documents=documents[None], causal=setting.causal)


def pairs(length: int, causal: bool) -> int:
    """How many pairs of a query and a key there are in one head, or causality leaves."""
    return length * (length + 1) // 2 if causal else length**2


def visible_share(encoding: str, length: int, of_causal: bool = False) -> float:
    """Which part of all pairs, or of those that causality leaves, a mask leaves visible."""
    if encoding == "packed documents":
        sizes = [size * length // sum(DOCUMENTS) for size in DOCUMENTS]
        visible = sum(pairs(size, causal=True) for size in sizes)
    else:
        width = {"window of 256": WINDOW, "lm_infinite": ZONE, "re-indexed sinks": ZONE}[encoding]
        visible = width * length - width * (width - 1) // 2
    return visible / pairs(length, of_causal)
