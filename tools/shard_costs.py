"""What attention costs on many devices: the tables of the page on shards.

Traffic and memory of keys are formulas (posenc.parallel.cost), held to the simulator's counters by
tests. What an encoding adds is measured on few tokens, by lowering it and by the simulator, and
grows evenly with a rank's tokens, or with all of them.
"""

import dataclasses
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import benchmark
import torch
from torch import Tensor

import posenc as pe
from posenc import Encoding, Positions
from posenc.errors import UnsupportedError
from posenc.lowering import lower
from posenc.parallel import cost
from posenc.parallel.heads import heads_of
from posenc.parallel.ring import ring
from posenc.parallel.simulator import Simulator
from posenc.terms import Term
from posenc.words import LANGUAGES, Language

ROOT = Path(__file__).parent.parent
PAGES = {language: ROOT / "docs" / language / "howto" / "shards.md" for language in LANGUAGES}
WAYS_MARKS = "<!-- ways: make generate -->", "<!-- end of ways -->"
MARKS = "<!-- encodings: make generate -->", "<!-- end of encodings -->"
# Llama 3's layers at 70 billion parameters, in bfloat16.
LAYER, RANKS = cost.Layer(tokens=2**20, heads=64, key_heads=8, head_dim=128), 64
WORDS: dict[str, dict[str, Any]] = {
    "en": {
        "ways": ("", "kept", "moving", "sent forward", "sent backward"),
        "row": ("encoding", "terms, ring", "beside each key", "terms, Ulysses", "from other ranks"),
        "gather": "all keys gathered",
        "refused": "no ring",
        "counts": "all keys",
        "sums": "sums of gates",
    },
    "zh": {
        "ways": ("", "保留", "流动", "前向发送", "反向发送"),
        "row": ("编码", "项（环）", "每个键附带", "项（Ulysses）", "需要其他 rank 的"),
        "gather": "收集全部的键",
        "refused": "不能用环",
        "counts": "所有的键",
        "sums": "门的累积和",
    },
}


@dataclass(frozen=True)
class Added:
    """Bytes that an encoding adds to a rank: its terms, by ring and by Ulysses, and its traffic.

    beside  what goes with each key around the ring, None where a ring is refused
    """

    held: int
    whole: int
    beside: int | None


def measured(kind: type[Encoding], layer: cost.Layer, size: int) -> Added:
    """What is added for this layer; the encoding has the settings of `for_model`."""
    encoding = kind.for_model(
        model_dim=layer.head_dim,
        heads=layer.heads,
        head_dim=layer.head_dim,
        max_length=layer.tokens,
        train_length=128,
        causal=True,
    )
    n = layer.tokens // size
    held = _grown([_held(encoding, *few) for few in _FEW], layer.tokens, n)
    count = max(1, layer.heads // size)
    whole = _grown([_whole(encoding, few, count) for few, _ in _FEW], layer.tokens, n)
    return Added(held, whole, _beside(encoding, layer))


# Numbers of tokens and of ranks beyond all windows: these tell what grows with which.
_FEW = ((256, 2), (512, 4), (512, 2))


def _grown(few: list[int], tokens: int, own: int) -> int:
    """Bytes that are a + b * own tokens + c * all tokens, from those of _FEW."""
    of_own, of_all = (few[2] - few[1]) / 128, (few[1] - few[0]) / 256
    return round(few[0] + of_own * (own - 128) + of_all * (tokens - 256))


def _held(encoding: Encoding, tokens: int, size: int) -> int:
    """Of a rank's own tokens."""
    mine = Positions.build(tokens, causal=True).shard(0, size)
    return _bytes(lower(encoding, mine, context=_context(encoding, mine.q_len)).terms, encoding)


def _whole(encoding: Encoding, tokens: int, count: int) -> int:
    """Of all tokens, for some heads."""
    made = lower(encoding, tokens, causal=True, context=_context(encoding, tokens))
    return _bytes(heads_of(made, 0, count).terms, encoding)


def _beside(encoding: Encoding, layer: cost.Layer) -> int | None:
    """What the simulator counts beyond keys and values, for each key that is sent."""
    try:
        few, more = (_sent(encoding, layer, tokens) for tokens in (16, 32))
    except UnsupportedError:
        return None
    # Of 8 more keys, for what is exchanged besides are a few numbers for each rank.
    return (more - few) // 8


def _sent(encoding: Encoding, layer: cost.Layer, tokens: int) -> int:
    """What a rank of two sends in the forward pass, keys and values aside."""
    few, own = dataclasses.replace(layer, tokens=tokens), tokens // 2
    x = torch.zeros(1, layer.heads, own, layer.head_dim, dtype=torch.bfloat16)
    keys, simulator = x[:, : layer.key_heads], Simulator(2)
    contexts = [_context(encoding, own)] * 2
    whole = Positions.build(tokens, causal=True)
    with torch.enable_grad():
        # Angles that learn travel with the keys.
        parts = [x] * 2, [keys] * 2, [keys] * 2
        ring(simulator, *parts, encoding, positions=whole, contexts=contexts)
    return simulator.traffic["forward"].sent[0] - cost.ring(few, 2).forward


def _context(encoding: Encoding, tokens: int) -> pe.Context | None:
    if not encoding.tags.needs_context:
        return None
    width, heads, dim = encoding.model_dim or 1, encoding.heads or 1, encoding.head_dim or 1

    def project(table: Tensor) -> Tensor:
        return table.new_zeros(heads, table.shape[0], dim)

    return pe.Context(torch.zeros(1, tokens, width), None, project, project)


def _bytes(terms: Iterable[Term], encoding: Encoding) -> int:
    """Of tensors that are made; weights are there once, however long the input is."""
    weights = {x.untyped_storage().data_ptr() for x in encoding.parameters()}
    found: dict[int, int] = {}

    def collect(value: object) -> None:
        if isinstance(value, Tensor):
            if value.untyped_storage().data_ptr() not in weights:
                found[value.data_ptr()] = value.numel() * value.element_size()
        elif dataclasses.is_dataclass(value):
            for field in dataclasses.fields(value):
                collect(getattr(value, field.name))

    for term in terms:
        collect(term)
    return sum(found.values())


def said(size: int) -> str:
    """Bytes in a unit of which there are less than a thousand."""
    for unit, scale in (("B", 1), ("KiB", 2**10), ("MiB", 2**20)):
        if size < 1000 * scale:
            return f"{size / scale:.3g} {unit}" if size else "0"
    return f"{size / 2**30:.3g} GiB"


def ways(language: Language) -> str:
    """Ring, gathered keys and Ulysses."""
    rows, gathered = [list(WORDS[language]["ways"])], WORDS[language]["gather"]
    for name, way in (("`ring_attend`", cost.ring), (gathered, cost.gather)):
        rows.append([name, *map(said, vars(way(LAYER, RANKS)).values())])
    rows.append(["`ulysses_attend`", *map(said, vars(cost.ulysses(LAYER, RANKS)).values())])
    return table(rows)


@torch.no_grad()
def encodings(language: Language) -> str:
    """Every encoding that says something to attention."""
    words = WORDS[language]
    rows = [list(words["row"])]
    for name, kind in pe.encodings().items():
        added = None if kind.embed is not Encoding.embed else measured(kind, LAYER, RANKS)
        if added is None or not (added.held or added.whole or added.beside is None):
            continue
        beside = words["refused"] if added.beside is None else said(added.beside)
        sums = words["sums"] if kind.payload_adds else ""
        needs = words["counts"] if added.beside is None else sums
        rows.append([f"`{name}`", said(added.held), beside, said(added.whole), needs])
    return table(rows)


def table(rows: list[list[str]]) -> str:
    lines = [rows[0], ["---"] * len(rows[0]), *rows[1:]]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def pages() -> dict[Path, str]:
    """The page in each language, with its tables between their marks."""
    made = {}
    for language, path in PAGES.items():
        text = benchmark.between(path.read_text(), WAYS_MARKS, ways(language), language)
        made[path] = benchmark.between(text, MARKS, encodings(language), language)
    return made
