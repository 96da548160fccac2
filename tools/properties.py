"""The property page: what posenc.analysis.measure finds of every encoding, as Markdown.

Everything is measured anew from the classes. What is printed is yes or no, a count, or a number of
few digits, so that every machine prints the same.
"""

import dataclasses

import chinese
import phenomena
import torch
from phenomena import ZERO, Part, yes
from property_texts import TEXTS
from torch import Tensor

import posenc as pe
from posenc import Encoding
from posenc.analysis import measure
from posenc.analysis.probe_context import context_for, embeds
from posenc.errors import UnsupportedError
from posenc.linear.attention import linear_attention
from posenc.lowering import embeds_only
from posenc.terms import CountTable, DenseBias
from posenc.testing.decoding import decodes
from posenc.testing.fixtures import backends_for, model_for, tokens_for
from posenc.words import LANGUAGES, Language, Words

DIM, HEADS, TRAINED, LENGTH = 128, 4, 512, 4096
# Scores are taken among so many tokens, so far apart that no window or group divides it.
TOKENS, STRIDE = 40, 61

SIZES = {"dim": DIM, "heads": HEADS, "trained": TRAINED, "length": LENGTH, "early": LENGTH // 64}


@dataclasses.dataclass(frozen=True)
class Card:
    """What was found of one encoding: the cells of its two rows, by column."""

    name: str
    geometry: dict[str, str]
    use: dict[str, str]


def cards() -> list[Card]:
    return [card(kind) for kind in pe.encodings().values()]


@torch.no_grad()
def card(kind: type[Encoding]) -> Card:
    """What is measured of one encoding."""
    encoding = drawn(kind)
    return Card(encoding.name, geometry(encoding), use(encoding))


def pages(measured: list[Card]) -> dict[Language, str]:
    """The whole page in each language."""
    parts: list[Part] = [
        Part("geometry", SIZES, [card.geometry for card in measured]),
        Part("use", {}, [card.use for card in measured]),
    ]
    with torch.no_grad():
        parts += phenomena.parts()
    return {language: "".join(section(part, language) for part in parts) for language in LANGUAGES}


def section(part: Part, language: Language) -> str:
    """What is said of a table, and the table."""
    rows = part.rows
    if language == "zh":
        rows = [{chinese.head(k): chinese.value(v) for k, v in row.items()} for row in rows]
    return f"{Words(language, TEXTS)(part.text, **part.sizes)}\n{table(rows)}"


def table(rows: list[dict[str, str]]) -> str:
    lines = [list(rows[0]), ["---"] * len(rows[0]), *(list(row.values()) for row in rows)]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def drawn(kind: type[Encoding], seed: int = 0) -> Encoding:
    """An encoding for the model, in float64, its weights as they are at first."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        sizes = {"model_dim": DIM, "heads": HEADS, "max_length": LENGTH, "train_length": TRAINED}
        encoding = pe.make(kind.name, **sizes).double()
        weights = list(encoding.parameters())
        # What starts at zero says nothing yet.
        if not any(weight.any() for weight in weights):
            for weight in weights:
                torch.nn.init.normal_(weight)
    return encoding.requires_grad_(False)


def geometry(encoding: Encoding) -> dict[str, str]:
    card, kind = measure.budget(encoding, TRAINED, LENGTH), type(encoding)
    if isinstance(encoding, (pe.FLOATER, pe.Recurrent)):
        # Its rows are made one after another: once is enough for all that is measured of them.
        encoding = encoding.tabulated()
    rows = None
    if card.said_of != "content":
        of = measure.position_table if embeds(encoding) else measure.distance_table
        rows = of(encoding, LENGTH)
    nothing = encoding.family in ("none", "mask", "scale")
    return {
        "encoding": f"`{kind.name}`",
        "says": "nothing" if nothing else card.said_of,
        "unique": "-" if rows is None else unique(encoding, rows),
        "growth": "-" if rows is None else growth(rows),
        "shift law": shift_law(encoding),
        "relative": "-" if nothing else yes(relative(encoding)),
        "direction": "-" if nothing else direction(encoding, alike=False),
        "same token": "-" if nothing else direction(encoding, alike=True),
        "monotone": "-" if nothing else monotone(kind),
        f"new at {LENGTH}": "-" if rows is None else news(card),
    }


def unique(encoding: Encoding, rows: Tensor) -> str:
    distinct = measure.uniqueness(rows, torch.bfloat16)
    if distinct.collision is None:
        return "yes"
    # For random weights a number would say nothing.
    return "no" if any(True for _ in encoding.parameters()) else f"to {distinct.collision[1] - 1}"


def growth(rows: Tensor) -> str:
    largest = measure.boundedness(rows)
    times = (largest[-1] / largest[LENGTH // 64 - 1]).item()
    # Two digits, for the last ones of trained weights depend on the machine.
    return f"{float(f'{times:.2g}'):g}"


def shift_law(encoding: Encoding) -> str:
    try:
        return yes(measure.shift(measure.position_table(encoding, LENGTH)).residual < ZERO)
    except UnsupportedError:
        return "-"


def matrix(encoding: Encoding, *, alike: bool, start: int = 0) -> Tensor:
    """Scores (h, t, t) among equal tokens, far apart, the first at start; q = k, or random ones."""
    generator = torch.Generator().manual_seed(1)

    def draw(*shape: int) -> Tensor:
        return torch.randn(shape, generator=generator, dtype=torch.float64)

    ids = start + STRIDE * torch.arange(TOKENS)
    causal = encoding.tags.causal_only
    # Tokens that are left out count in the order, as zones and windows read it.
    tokens = pe.Tokens(ids, order=ids)
    at = pe.Positions(tokens, tokens, causal, extent=LENGTH, unit_step=True)
    if embeds_only(encoding):
        rows = measure.position_table(encoding, at)
        width = rows.shape[1]
        maps = () if alike else (draw(width, width), draw(width, width))
        return measure.inner_products(rows, *maps)[None]
    q = draw(HEADS, DIM // HEADS)
    return measure.token_scores(encoding, at, q, q if alike else draw(*q.shape))


def relative(encoding: Encoding) -> bool:
    last = LENGTH - STRIDE * TOKENS
    shifted = [matrix(encoding, alike=False, start=start) for start in (0, last)]
    size = max(scores.where(scores.isfinite(), 0.0).abs().max() for scores in shifted)
    near, far = map(measure.by_distance, shifted)
    off = (near.spread, far.spread, (near.mean - far.mean).abs())
    # nan where a causal mask leaves no pair.
    return all(bool(each.nan_to_num().max() <= ZERO * size) for each in off)


def direction(encoding: Encoding, *, alike: bool) -> str:
    if encoding.tags.causal_only:
        return "causal"
    scores = matrix(encoding, alike=alike)
    return yes(bool(measure.direction_sensitivity(scores).max() > ZERO * scores.abs().max()))


def monotone(kind: type[Encoding]) -> str:
    """Whether it is for every draw of the weights."""
    return yes(all(measure.decay(c).monotone for seed in range(3) for c in curves(kind, seed)))


def curves(kind: type[Encoding], seed: int) -> Tensor:
    """Scores, or inner products, of the last token with one n tokens back: (h, TRAINED)."""
    encoding = drawn(kind, seed)
    if not embeds_only(encoding):
        return measure.score_curve(encoding, TRAINED)
    return measure.inner_products(measure.position_table(encoding, TRAINED))[-1:].flip(-1)


def news(card: measure.Budget) -> str:
    return card.said_of if card.unseen.any() else "nothing"


def use(encoding: Encoding) -> dict[str, str]:
    tags, lowers = encoding.tags, not embeds_only(encoding)
    return {
        "encoding": f"`{encoding.name}`",
        "parameters": f"{sum(weight.numel() for weight in encoding.parameters()):,}",
        "causal only": yes(tags.causal_only),
        "extent": yes(tags.needs_extent),
        "context": yes(tags.needs_context),
        "decodes": decodes(model_for(encoding), tokens_for()) or "no",
        "linear attention": yes(not lowers or linear(encoding)),
        "SDPA": yes(not lowers or "sdpa" in backends_for(encoding)),
        "memory": "quadratic" if lowers and per_pair(encoding) else "linear",
        "compiles": yes(tags.compiles is True),
        "exports": yes(tags.exports is True),
    }


def lowered(encoding: Encoding) -> pe.Lowered:
    context = context_for(encoding, 8)
    return pe.lower(encoding, 8, causal=True, context=context, dtype=torch.float64)


def linear(encoding: Encoding) -> bool:
    x = torch.ones(2, HEADS, 8, DIM // HEADS, dtype=torch.float64)
    try:
        linear_attention(x, x, x, encoding)
    except pe.PosencError:
        return False
    return True


def per_pair(encoding: Encoding) -> bool:
    return any(isinstance(term, (DenseBias, CountTable)) for term in lowered(encoding).terms)


if __name__ == "__main__":
    print(pages(cards())["en"], end="")
