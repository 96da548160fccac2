"""Hypotheses about a rotation: which pairs it turns, by which angles, in which precision."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from posenc.analysis.diagnosis.computation import Computation, Turner, in_dimensions
from posenc.analysis.diagnosis.hypotheses import Hypothesis, otherwise, with_setting
from posenc.encoding import Encoding
from posenc.encodings.rotary import Rotary
from posenc.encodings.scaling import NTK, Linear, Llama3, Proportional, Scaling, YaRN
from posenc.errors import SettingError
from posenc.rotation import cos_sin, turn
from posenc.terms import Rotate, Term, Zones

BASES = (100.0, 1e3, 1e4, 1e5, 2e5, 2.5e5, 5e5, 8e5, 1e6, 1.5e6, 5e6, 1e7)
FACTORS = (2.0, 4.0, 8.0, 16.0, 32.0, 40.0, 64.0)
LENGTHS = (512, 1_024, 2_048, 4_096, 8_192, 32_768)
LOW = {torch.bfloat16: "bfloat16", torch.float16: "float16"}
Change = Callable[[Tensor], Tensor]


def turning(at: Computation) -> Iterator[Hypothesis]:
    """Everything that can be wrong with a rotation and needs no number to be fitted."""
    rotate = at.rotate()
    if rotate is None:
        return
    yield from _layout(at, rotate)
    yield from _weights(at, rotate)
    yield from _sides(at, rotate)
    yield from _gain(at, rotate)
    for part in at.parts:
        own = getattr(part, "base", None)
        if isinstance(part, Encoding) and own is not None:
            for base in BASES:
                says = f"has the base {base:g}, ours {own:g}"
                yield from otherwise(at, part, "base", says, base=base)
        if isinstance(part, Rotary):
            yield from _width(at, part)
            yield from _scaling(at, part)
    yield from _precision(at, rotate)


def by_rotation(at: Computation, change: Callable[[Rotate], Rotate]) -> Computation:
    """The computation with every rotation changed, of both zones where there are two."""

    def edit(term: Term) -> Term:
        if isinstance(term, Zones):
            return replace(term, near=change(term.near), far=change(term.far))
        return change(term) if isinstance(term, Rotate) else term

    return at.edited(edit)


def by_angle(at: Computation, q: Change, k: Change) -> Computation:
    """The computation with other angles of queries and of keys."""

    def change(rotate: Rotate) -> Rotate:
        k_angle = None if rotate.k_angle is None else k(rotate.k_angle)
        return replace(rotate, q_angle=q(rotate.q_angle), k_angle=k_angle)

    return by_rotation(at, change)


def _layout(at: Computation, rotate: Rotate) -> Iterator[Hypothesis]:
    assert at.q is not None
    other = "interleaved" if rotate.layout == "half" else "half"
    pairs = {"half": "(i, i + d/2)", "interleaved": "(2i, 2i + 1)"}
    says = f'pairs dimensions {pairs[other]}, layout "{other}"; ours {pairs[rotate.layout]}'
    if at.kind != "turned":
        says += f'; or its weights, unlike ours, were converted from "{other}" to "{rotate.layout}"'
    yield Hypothesis("layout", says, by_rotation(at, lambda r: replace(r, layout=other)))
    if _is_plain(rotate):
        says = f'turns pairs of layout "{rotate.layout}" with cos and sin laid out as "{other}"'
        yield Hypothesis("tables of the other layout", says, replace(at, turner=_mixed))
        says = "leaves the minus of the sine out: (x1 cos + x2 sin, x1 sin + x2 cos)"
        yield Hypothesis("sign of one sine", says, replace(at, turner=_unsigned))
    rest = at.q.shape[-1] - 2 * rotate.q_angle.shape[-1]
    if rest:
        last = 0 if rotate.start else rest
        says = f"turns the dimensions from {last} on, ours from {rotate.start} on"
        changed = by_rotation(at, lambda r: replace(r, start=last))
        yield Hypothesis("which dimensions turn", says, changed)


def _weights(at: Computation, rotate: Rotate) -> Iterator[Hypothesis]:
    """Projections converted from one layout to the other, once too often or not at all."""
    pairs = torch.arange(2 * rotate.q_angle.shape[-1]).view(2, -1)
    orders = {"interleaved": pairs.T.flatten(), "half": pairs.flatten().view(-1, 2).T.flatten()}
    for new, order in orders.items():
        old = "half" if new == "interleaved" else "interleaved"
        says = (
            f'gets q and k from weights whose rows were converted from layout "{old}" to "{new}", '
            f'unlike ours, and rotates them as ours does, by layout "{rotate.layout}"'
        )
        yield Hypothesis("layout of the weights", says, reordered(at, rotate, order))


def reordered(at: Computation, rotate: Rotate, order: Tensor) -> Computation:
    """The computation with the dimensions of q and k that turn in another order."""
    assert at.q is not None
    first, width = rotate.start, at.q.shape[-1]
    last = torch.arange(first + len(order), width)
    index = torch.cat((torch.arange(first), first + order, last)).to(at.q.device)
    k = None if at.k is None else at.k[..., index]
    return replace(at, q=at.q[..., index], k=k)


def _sides(at: Computation, rotate: Rotate) -> Iterator[Hypothesis]:
    changes: list[tuple[str, str, Change]] = [
        ("sign of the angle", "turns {} by the opposite angle", torch.neg),
        ("not turned", "does not turn {}, or ours turns once more", torch.zeros_like),
        ("turned twice", "turns {} twice, or ours once too few", lambda angle: 2 * angle),
    ]
    for cause, says, change in changes:
        sides = {"q and k": (change, change), "q": (change, _same), "k": (_same, change)}
        for side, both in sides.items() if at.k is not None else [("q", (change, change))]:
            yield Hypothesis(cause, says.format(side), by_angle(at, *both))
    changed = by_angle(at, lambda a: torch.pi / 2 - a, lambda a: torch.pi / 2 - a)
    yield Hypothesis("cos and sin exchanged", "exchanges cos and sin", changed)
    if rotate.q_angle.shape[1] > 1:
        says = "turns every head by the angles of the first"
        changed = by_angle(at, lambda a: a[:, :1], lambda a: a[:, :1])
        yield Hypothesis("one head's angles for all", says, changed)
        return
    step = _per_token(at, rotate)

    def by_head(x: Tensor | None) -> Change:
        heads = torch.arange(1 if x is None else x.shape[1], device=step.device)
        each = step * heads.view(1, -1, 1, 1)
        return lambda angle: each.expand(-1, -1, angle.shape[-2], -1)

    says = "turns by the index of the head, not of the token: its axes are (b, t, h, d)"
    changed = by_angle(at, by_head(at.q), by_head(at.q if at.k is None else at.k))
    yield Hypothesis("heads taken for tokens", says, changed)


def _gain(at: Computation, rotate: Rotate) -> Iterator[Hypothesis]:
    if rotate.gain == 1.0:
        return
    cause, square = "attention factor", rotate.gain**2
    for power, says in (
        (0.0, "leaves the factor {} of cos and sin out"),
        (2.0, "multiplies cos and sin by the factor {} twice"),
        (0.5, "multiplies scores by the factor {} once, not by its square"),
    ):
        changed = by_rotation(at, lambda r, p=power: replace(r, gain=r.gain**p))
        yield Hypothesis(cause, says.format(f"{rotate.gain:.6g}"), changed)
    changed = by_rotation(replace(at, scale=at.scale * square), lambda r: replace(r, gain=1.0))
    says = f"multiplies whole scores by {square:.6g}, not cos and sin of what turns"
    yield Hypothesis(cause, says, changed)


def _width(at: Computation, part: Rotary) -> Iterator[Hypothesis]:
    whole = with_setting(at, part, rotary_dim=None, scaling=None)
    whole = at if whole is None else whole
    for width in range(2, part.dim + 1, 2):
        says = f"turns {width} of {part.dim} dimensions, ours {part.turned}"
        if width != part.turned:
            yield from otherwise(at, part, "partial width", says, rotary_dim=width)
        if width == part.dim:
            return
        pairs = width // 2
        says = (
            f"turns {width} of {part.dim} dimensions, at frequencies counted over the whole "
            "head, base**(-2i/dim)"
        )
        fastest = by_angle(whole, lambda a, n=pairs: a[..., :n], lambda a, n=pairs: a[..., :n])
        yield Hypothesis("frequencies of a partial width", says, fastest)
        says = (
            f"turns the fastest {pairs} of {part.dim // 2} pairs of the whole head "
            f"(proportional), ours {part.turned} dimensions"
        )
        settings = {"rotary_dim": None, "scaling": Proportional(width / part.dim)}
        yield from otherwise(at, part, "proportional width", says, **settings)


def _scaling(at: Computation, part: Rotary) -> Iterator[Hypothesis]:
    own = part.scaling
    factor, length = (getattr(own, name, None) or 1 for name in ("factor", "original_length"))
    fields: list[tuple[str, Any]] = [("factor", other) for other in FACTORS]
    lengths = {*LENGTHS, length * int(factor), length // int(factor)}
    fields += [("original_length", other) for other in sorted(lengths)]
    fields += [("truncate", True), ("truncate", False), ("ramp", "code"), ("ramp", "paper")]
    others = [None, *(_changed(own, *field) for field in fields)]
    others += [kind(each) for kind in (Linear, NTK) for each in (factor, *FACTORS)]
    others += [YaRN(each, reach) for each in FACTORS for reach in LENGTHS]
    others += [Llama3(8.0, 1.0, 4.0, 8_192), Llama3(32.0, 1.0, 4.0, 8_192)]
    for other in others:
        cause = "linear factor" if isinstance(other, Linear) else "scaling"
        says = f"scales frequencies by {other!r}, ours by {own!r}"
        yield from otherwise(at, part, cause, says, scaling=other)


def _changed(scaling: Any, name: str, value: object) -> Scaling | None:
    """The scaling with another field; itself where it has none, or where that has no meaning."""
    try:
        return replace(scaling, **{name: value}) if hasattr(scaling, name) else scaling
    except SettingError:
        return scaling


def _precision(at: Computation, rotate: Rotate) -> Iterator[Hypothesis]:
    step = _per_token(at, rotate)
    for low, name in LOW.items():
        tie = round(2 / torch.finfo(low).eps)
        sides = (at.positions.queries.position, at.positions.keys.position)
        queries, keys = ({"position": side.to(low).to(side.dtype)} for side in sides)
        says = f"rounds positions to {name}: neighbours beyond {tie} become equal"
        yield Hypothesis("precision of positions", says, at.placed(queries, keys, unit_step=False))
        ratio = torch.where(step == 0, 1.0, step.to(low).double() / step)
        changed = by_angle(at, lambda a, r=ratio: a * r, lambda a, r=ratio: a * r)
        says = f"rounds frequencies to {name}: the error grows with position"
        yield Hypothesis("precision of frequencies", says, changed)
        says = f"rounds angles to {name}: the error grows with position"
        changed = by_angle(at, lambda a, d=low: a.to(d).double(), lambda a, d=low: a.to(d).double())
        yield Hypothesis("precision of angles", says, changed)
        if _is_plain(rotate):
            says = f"rounds cos and sin to {name}: the error is alike at every position"
            yield Hypothesis("precision of tables", says, replace(at, turner=_in_low(low)))
    if _is_plain(rotate):
        says = "makes angles, cos and sin in float32: the error grows with position"
        yield Hypothesis("precision of angles", says, replace(at, turner=_in_low(torch.float32)))


def _per_token(at: Computation, rotate: Rotate) -> Tensor:
    """Radians per token of each pair, (1|b, 1|h, 1, r)."""
    now = replace(at, edits=())
    sides = (at.positions.queries.position, at.positions.keys.position)
    queries, keys = ({"position": side + 1} for side in sides)
    later = now.placed(queries, keys, extent=at.positions.bound)
    one, two = now.rotate(), later.rotate()
    if one is None or two is None:
        return torch.zeros_like(rotate.q_angle[..., :1, :])
    return (two.q_angle - one.q_angle)[..., :1, :]


def _is_plain(rotate: Rotate) -> bool:
    return rotate.q_log_scale is None and rotate.k_angle is not None


def _in_low(low: torch.dtype) -> Turner:
    def turner(x: Tensor, angle: Tensor, rotate: Rotate) -> Tensor:
        angle = angle.float() if low == torch.float32 else angle
        cos, sin = (wave.to(x.dtype) for wave in cos_sin(angle, rotate.gain, low))
        return turn(x, cos, sin, rotate.layout, rotate.start)

    return turner


def _unsigned(x: Tensor, angle: Tensor, rotate: Rotate) -> Tensor:
    cos, sin = cos_sin(angle, rotate.gain, x.dtype)
    right, opposite = (turn(x, cos, s, rotate.layout, rotate.start) for s in (sin, -sin))
    dims = torch.arange(x.shape[-1], device=x.device) - rotate.start
    first = dims < angle.shape[-1] if rotate.layout == "half" else dims % 2 == 0
    return torch.where(first, opposite, right)


def _mixed(x: Tensor, angle: Tensor, rotate: Rotate) -> Tensor:
    """The tables of one layout on the pairs of the other."""
    other = replace(rotate, layout="interleaved" if rotate.layout == "half" else "half")
    waves = cos_sin(angle, rotate.gain, x.dtype)
    cos, sin = (in_dimensions(wave, other, x.shape[-1]) for wave in waves)
    quarter = torch.full_like(angle, torch.pi / 2)
    partner = turn(x, *cos_sin(quarter, 1.0, x.dtype), rotate.layout, rotate.start)
    turns = in_dimensions(torch.ones_like(angle), rotate, x.shape[-1]) > 0
    return torch.where(turns, x * cos + partner * sin, x)


def _same(angle: Tensor) -> Tensor:
    return angle
