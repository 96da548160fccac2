"""Scores of equal tokens, what position adds to them, their parts, and which are hidden."""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from posenc.analysis import measure
from posenc.analysis.decompose import decompose
from posenc.analysis.decomposition import Decomposition
from posenc.analysis.plot.canvas import (
    DASHED,
    LARGEST,
    Canvas,
    Figure,
    balanced,
    checked_index,
    checked_length,
    note_of,
    spaced,
)
from posenc.analysis.plot.labels import TEXT
from posenc.analysis.plot.style import ThemeName
from posenc.encoding import Encoding
from posenc.errors import SettingError, UnsupportedError
from posenc.lowering import Lowerable, embeds_only
from posenc.words import Language, Words

# Below this a spread is the rounding of float64.
ROUNDING = 1e-9
# A part of a smaller share of the largest score would be a blank square.
LEAST = 0.05
# How many heads a bias is drawn of, where nobody says which, and at most.
SHOWN, MOST = 4, 12
DEEPEST = 64


def scores(
    encoding: Encoding,
    length: int = 48,
    head: int = 0,
    query: int | None = None,
    *,
    theme: ThemeName = "light",
    language: Language = "en",
) -> Figure:
    """Scores where all tokens are alike, so that position alone is left: `measure.equal_scores`.

    Of an absolute encoding they are inner products of positions. The row is that of `query`; None
    is the one in the middle, or the last where no query sees the future. Raises SettingError for a
    length, head or query out of reach.
    """
    all_heads = measure.equal_scores(encoding, checked_length(length))
    matrix = all_heads[checked_index("head", head, len(all_heads))]
    if query is None:
        query = length - 1 if encoding.tags.causal_only else length // 2
    row = matrix[checked_index("query", query, length)]
    canvas = Canvas(theme, language, "scores", note=encoding, height=3.5)
    axes = canvas.axes(1, 2, 1)
    seen = matrix[matrix.isfinite()]
    least, most = (float(seen.min()), float(seen.max())) if len(seen) else (0.0, 1.0)
    if least < 0 < most:
        canvas.heat(axes, matrix, bar="score")
    else:
        limits = least, most if most > least else least + 1.0
        canvas.heat(axes, matrix, palette="sequential", limits=limits, bar="score")
    axes.set_aspect("equal")
    axes.axhline(query, color=canvas.theme.ink, linewidth=0.9, linestyle=DASHED)
    canvas.label(axes, "key", "query")
    beside = canvas.axes(1, 2, 2, grid="y")
    canvas.line(beside, torch.arange(length), row)
    beside.axvline(query, color=canvas.theme.muted, linewidth=0.9, linestyle=DASHED)
    beside.set_xlim(-0.5, length - 0.5)
    canvas.whole(beside.xaxis)
    canvas.label(beside, "key", title="scores_row", query=query)
    return canvas.figure


def inner_product(
    encoding: Encoding,
    length: int | None = None,
    pairs: bool = True,
    head: int = 0,
    *,
    theme: ThemeName = "light",
    language: Language = "en",
) -> Figure:
    """Mean and envelope of p[i] . p[j] against i - j, and the cosine of each pair below.

    Of an encoding with terms it is the score of q = k = ones instead, of one head. The mean is over
    all tokens so far apart, the envelope that of `measure.decay`. `pairs` adds the cosines of
    `measure.pair_cosines`, where the encoding turns. length None: every row of a table, or of a
    longer one the first 1,024, which the figure says; 128 of what has no end. The farther apart,
    the fewer pairs of tokens the mean is over. Raises SettingError for a length or a head out of
    reach.
    """
    note: object = encoding
    if length is None:
        length, rows = 128, getattr(encoding, "max_length", None)
        if isinstance(rows, int) and rows >= 2:
            length = min(rows, LARGEST)
            if length < rows:
                shown = Words(language, TEXT)("first_rows", shown=length, count=rows)
                note = f"{shown}; {note_of(encoding)}"
    matrix = measure.equal_scores(encoding, checked_length(length))
    curve = measure.by_distance(matrix[checked_index("head", head, len(matrix))])
    past = curve.distance <= 0
    back, mean = -curve.distance[past].flip(0), curve.mean[past].flip(0)
    spread = float(curve.spread[past].nan_to_num().max())
    envelope = measure.decay(mean.where(~mean.isnan(), -torch.inf))
    cosines = _cosines(encoding, length, head) if pairs else None
    title, score = "inner_product_score", "score"
    if embeds_only(encoding):
        title, score = "inner_product", "inner"
    canvas = Canvas(theme, language, title, note=note, height=3.4 if cosines is None else 5.2)
    axes = canvas.axes(1 if cosines is None else 2, 1, 1, grid="y")
    varies = spread > ROUNDING * float(mean.nan_to_num().abs().max())
    label = canvas.say("mean_spread", spread=f"{spread:.2g}") if varies else canvas.say("mean")
    canvas.line(axes, back, mean, 0, label=label, zorder=4)
    for name, side in ((canvas.say("envelope"), envelope.upper), (None, envelope.lower)):
        canvas.line(axes, back, side, 1, label=name, linewidth=1.0, zorder=3)
    axes.axhline(0.0, color=canvas.theme.muted, linewidth=0.7, zorder=2)
    axes.set_xlim(-0.5, length - 0.5)
    canvas.whole(axes.xaxis)
    canvas.label(axes, "back", score)
    canvas.legend(axes, loc="lower right", bbox_to_anchor=(1.0, 1.0), ncols=2)
    if cosines is not None:
        below = canvas.axes(2, 1, 2, sharex=axes)
        canvas.heat(below, cosines.T, limits=(-1.0, 1.0), bar="per_pair")
        canvas.label(below, "back", "pair")
    return canvas.figure


def _cosines(encoding: Encoding, length: int, head: int) -> Tensor | None:
    try:
        cosines = measure.pair_cosines(encoding, length)
    except UnsupportedError:
        return None
    return cosines[min(head, len(cosines) - 1)]


def bias(
    encoding: Encoding,
    length: int = 48,
    heads: Sequence[int] | None = None,
    *,
    theme: ThemeName = "light",
    language: Language = "en",
) -> Figure:
    """The curve of each of `heads` (None: up to four), and buckets where there are any.

    The curve is `measure.position_bias`: of tables that meet queries or keys, it is for q = k =
    ones. Buckets are there where neighbouring distances share a
    value; they are numbered from the farthest past, as `measure.groups` finds them. Raises
    SettingError for heads that are not there, UnsupportedError for an encoding that adds nothing.
    """
    added = measure.position_bias(encoding, checked_length(length))
    count = len(added.values)
    chosen = spaced(count, SHOWN) if heads is None else [int(head) for head in heads]
    if not 1 <= len(chosen) <= MOST:
        raise SettingError(f"heads={chosen}: one figure shows 1 to {MOST} of them")
    curves = [added.values[checked_index("heads", head, count)] for head in chosen]
    buckets = measure.groups(added.values.T)
    shared = bool((buckets.diff() == 0).any())
    canvas = Canvas(theme, language, "bias", note=encoding, height=4.6 if shared else 3.4)
    axes = canvas.axes(2 if shared else 1, 1, 1, grid="y")
    for style, (head, values) in enumerate(zip(chosen, curves, strict=True)):
        canvas.line(axes, added.distance, values, style, label=canvas.say("head", head=head))
    axes.axvline(0, color=canvas.theme.muted, linewidth=0.8, linestyle=DASHED)
    canvas.whole(axes.xaxis)
    canvas.label(axes, "distance", "added")
    if len(chosen) > 1:
        canvas.legend(axes)
    if shared:
        below = canvas.axes(2, 1, 2, grid="y", sharex=axes)
        canvas.line(below, added.distance, buckets, 2, drawstyle="steps-mid")
        canvas.whole(below.yaxis)
        canvas.label(below, "distance", "bucket", title="buckets")
    return canvas.figure


def decomposition(
    x_or_q: Any,
    *inputs: Any,
    head: int = 0,
    row: int = 0,
    note: str | None = None,
    theme: ThemeName = "light",
    language: Language = "en",
    **options: Any,
) -> Figure:
    """What tokens, positions, and both together add to the scores, on one scale.

    Takes what `posenc.decompose` takes, (q, k, encoding) or (x, encoding, w_q, w_k) with its
    options, or what it returned. Shown are one head and one row of the batch; shares are those of
    `Decomposition.share`, over the batch. Parts below 5% of the largest score are named, not drawn.
    note stands below the figure, the encoding by default. Raises SettingError for a head or row
    that is not there, and what `decompose` raises.
    """
    split = x_or_q if isinstance(x_or_q, Decomposition) else decompose(x_or_q, *inputs, **options)
    batch, heads = split.visible.shape[:2]
    shown = checked_index("row", row, batch), checked_index("head", head, heads)
    visible, share = split.visible[shown], split.share()
    parts = {name: part[shown].where(visible, torch.nan) for name, part in split.parts().items()}
    total = split.total()[shown]
    limits = balanced(total.where(visible, 0.0), *parts.values())
    least = LEAST * limits[1]
    tiny = [name for name, part in parts.items() if not bool((part.abs() >= least).any())]
    tiles = {"total": total} | {name: parts[name] for name in parts if name not in tiny}
    if note is None:
        note = next((note_of(each) for each in inputs if not isinstance(each, Tensor)), "")
    columns = {1: 1, 2: 2, 4: 2}.get(len(tiles), 3)
    rows = -(-len(tiles) // columns)
    canvas = Canvas(theme, language, "decomposition", note=note, height=0.8 + 1.9 * rows)
    heights = [1.0] * rows + [0.06] * bool(tiny)
    grid = canvas.figure.add_gridspec(len(heights), columns, height_ratios=heights)
    for place, (name, tile) in enumerate(tiles.items()):
        axes = canvas.axes(grid[divmod(place, columns)])
        first, lowest = place % columns == 0, place + columns >= len(tiles)
        canvas.heat(axes, tile, limits=limits, bar="score" if place == columns - 1 else "")
        axes.set_aspect("equal")
        axes.tick_params(labelleft=first, labelbottom=lowest)
        text = canvas.say(name)
        if name != "total":
            text = canvas.say("share", part=text, share=f"{100 * share[name][head].item():.0f}")
        axes.set_title(text, fontsize=8, loc="left", **canvas.font())
        canvas.label(axes, "key" if lowest else "", "query" if first else "")
    if tiny:
        axes = canvas.axes(grid[rows, :])
        axes.set_axis_off()
        text = canvas.say("tiny", parts=", ".join(map(canvas.say, tiny)))
        canvas.write(axes, text, (0.0, 0.0), fontsize=7.5)
    return canvas.figure


def mask(
    encoding: Lowerable,
    length: int = 32,
    layers: int = 4,
    causal: bool = True,
    *,
    theme: ThemeName = "light",
    language: Language = "en",
) -> Figure:
    """The mask of one layer, and after how many layers a key's token reaches a query.

    encoding may be a list, as for `posenc.attend`: [SlidingWindow(4), Sinks(1)]. What is blank is
    not reached within `layers` layers. Raises SettingError for a length or depth out of reach.
    """
    if not 1 <= layers <= DEEPEST:
        raise SettingError(f"layers={layers}: this figure shows 1 to {DEEPEST} layers")
    visible = measure.visibility(encoding, checked_length(length), causal=causal)
    needed = measure.receptive_field(visible, layers).double()
    canvas = Canvas(theme, language, "mask", note=encoding, height=3.4)
    axes = canvas.axes(1, 2, 1)
    ones = visible.double().where(visible, torch.nan)
    canvas.heat(axes, ones, palette="sequential", limits=(1.0, 1.0 + layers))
    canvas.label(axes, "key", "query", title="one_layer")
    beside = canvas.axes(1, 2, 2)
    limits = (1.0, float(max(layers, 2)))
    canvas.heat(beside, needed.where(needed > 0, torch.nan), palette="sequential", limits=limits)
    canvas.bar(beside, "sequential", *limits, canvas.say("layers"), whole=True)
    canvas.label(beside, "key", title="field")
    for part in (axes, beside):
        part.set_aspect("equal")
    return canvas.figure
