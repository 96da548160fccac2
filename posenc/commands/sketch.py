"""What an encoding does to a score, or to embeddings, as a few lines of braille."""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from torch import Tensor

from posenc.analysis import measure
from posenc.analysis.plot.canvas import checked_index, checked_length
from posenc.commands.braille import braille
from posenc.encoding import Encoding
from posenc.lowering import embeds_only
from posenc.words import Language, Texts, Words

TOKENS, LONGEST = 128, 256
# Sines of the first pairs in the usual layout, or the lowest digits.
COLUMNS = (0, 2, 4)
ROUNDING = 1e-9


TEXTS: Texts = {
    "column": ("dimension {column}, by position", "第 {column} 维随位置的变化"),
    "distance": (
        "score of q = k = ones in head {head}, by how many tokens back the key is",
        "q、k 全为 1 时第 {head} 个头的得分，随键在查询之前多少个词元的变化",
    ),
    "growth": (
        "score of q = k = ones in head {head}, by position of the query",
        "q、k 全为 1 时第 {head} 个头的得分，随查询位置的变化",
    ),
    "gap": (", a gap where it is hidden", "；空白处不可见"),
}


class Curve(NamedTuple):
    """What is drawn: its name, the values, what the ends of the axis are, and how many lines."""

    name: str
    values: Tensor
    ends: tuple[str, str]
    rows: int


def sketch(
    encoding: Encoding, length: int | None = None, head: int = 0, language: Language = "en"
) -> Iterator[str]:
    """Lines of text; none of an encoding that does the same everywhere.

    length is how many tokens are shown, by default 128, or as many as there are. Raises
    SettingError for a length or a head out of reach, and what the encoding raises.
    """
    reach = getattr(encoding, "max_length", None)
    usual = min(TOKENS, reach) if isinstance(reach, int) and reach >= 2 else TOKENS
    tokens = checked_length(usual if length is None else length, LONGEST)
    for curve in _curves(encoding, tokens, head, Words(language, TEXTS)):
        yield curve.name
        yield from _labelled(curve)


def _curves(encoding: Encoding, tokens: int, head: int, say: Words) -> Iterator[Curve]:
    """Waves of what is added to embeddings; else the score by distance, or by position."""
    far = str(tokens - 1)
    if embeds_only(encoding):
        table = measure.position_table(encoding, tokens)
        for column in COLUMNS:
            if column < table.shape[1]:
                name = say("column", column=column)
                yield Curve(name, table[:, column], ("0", far), rows=2)
        return
    scores = measure.score_curve(encoding, tokens)
    row = scores[checked_index("head", head, len(scores))]
    if _varies(row):
        name = say("distance", head=head)
        if not row.isfinite().all():
            name += say("gap")
        yield Curve(name, row, ("0", far), rows=6 if _spread(row) else 1)
        return
    grown = measure.token_scores(encoding, tokens).diagonal(0, -2, -1)[head]
    if _varies(grown):
        name = say("growth", head=head)
        yield Curve(name, grown, ("0", far), rows=6)


def _varies(values: Tensor) -> bool:
    return _spread(values) or not bool(values.isfinite().all())


def _spread(values: Tensor) -> bool:
    seen = values[values.isfinite()]
    return len(seen) > 0 and bool(seen.max() - seen.min() > ROUNDING)


def _labelled(curve: Curve) -> Iterator[str]:
    """The curve with its largest and least value to the left, and the ends of the axis below."""
    seen = curve.values[curve.values.isfinite()]
    lines: Sequence[str] = braille(curve.values.tolist(), curve.rows)
    marks = {len(lines) - 1: f"{seen.min():.4g}", 0: f"{seen.max():.4g}"}
    width = max(8, *map(len, marks.values()))
    for place, line in enumerate(lines):
        yield f"    {marks.get(place, ''):>{width}} {line}".rstrip()
    left, right = curve.ends
    yield f"    {'':{width}} {left}{right:>{len(lines[0]) - len(left)}}"
