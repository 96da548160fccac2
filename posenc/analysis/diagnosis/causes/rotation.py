"""What can be wrong with a rotation: which pairs it rotates, by which angles, how precisely."""

from collections.abc import Callable
from dataclasses import replace

import torch
from torch import Tensor

from posenc.analysis.diagnosis.computation import Computation, Rotator, in_dimensions
from posenc.analysis.diagnosis.hypotheses import LOW, Rows, with_setting
from posenc.encodings.rotary import Rotary
from posenc.rotation import cos_sin, rotate_pairs
from posenc.terms import Layout, Rotate, Term, turns_in
from posenc.torch_modes import altered

OnAngle = Callable[[Tensor], Tensor]


def rotation(ours: Computation) -> Rows:
    """Everything that can be wrong with a rotation and is no setting."""
    rotate = ours.rotate
    if rotate is None:
        return
    yield from _layouts(ours, rotate)
    yield from _angles(ours, rotate)
    yield from _gains(ours, rotate.gain)
    yield from _fastest_pairs(ours)
    yield from _precision(ours, rotate)


def by_rotation(ours: Computation, change: Callable[[Rotate], Rotate]) -> Computation:
    """The computation with every rotation changed, of every zone where there are some."""

    def edit(term: Term) -> Term:
        turns = {name: change(turn) for name, turn in turns_in(term).items()}
        if turns:
            return altered(term, **turns)
        return change(term) if isinstance(term, Rotate) else term

    return ours.edited(edit)


def by_angle(ours: Computation, q: OnAngle, k: OnAngle | None = None) -> Computation:
    """The computation with other angles of queries and of keys, or of both alike."""
    on_key = k or q

    def change(rotate: Rotate) -> Rotate:
        k_angle = None if rotate.k_angle is None else on_key(rotate.k_angle)
        return replace(rotate, q_angle=q(rotate.q_angle), k_angle=k_angle)

    return by_rotation(ours, change)


def _layouts(ours: Computation, rotate: Rotate) -> Rows:
    own, other = rotate.layout, _other(rotate.layout)
    pairs = {"half": "(i, i + d/2)", "interleaved": "(2i, 2i + 1)"}
    says = f'pairs dimensions {pairs[other]}, layout "{other}"; ours {pairs[own]}'
    if ours.kind != "turned":
        says += f'; or its weights, unlike ours, were converted from "{other}" to "{own}"'
    yield "layout", says, by_rotation(ours, lambda r: replace(r, layout=other))
    if _is_plain(rotate):
        says = f'turns pairs of layout "{own}" with cos and sin laid out as "{other}"'
        yield "tables of the other layout", says, replace(ours, rotator=_mixed)
        says = "leaves the minus of the sine out: (x1 cos + x2 sin, x1 sin + x2 cos)"
        yield "sign of one sine", says, replace(ours, rotator=_unsigned)
    rest = ours.q.shape[-1] - 2 * rotate.q_angle.shape[-1]
    if rest:
        last = 0 if rotate.start else rest
        says = f"turns the dimensions from {last} on, ours from {rotate.start} on"
        yield "which dimensions turn", says, by_rotation(ours, lambda r: replace(r, start=last))
    order = torch.arange(2 * rotate.q_angle.shape[-1])
    for new, shape in (("interleaved", (2, -1)), ("half", (-1, 2))):
        says = (
            f'gets q and k from weights whose rows were converted from layout "{_other(new)}" to '
            f'"{new}", unlike ours, and rotates them as ours does, by layout "{own}"'
        )
        yield "layout of the weights", says, _reordered(ours, rotate, order.view(shape).T.flatten())


def _reordered(ours: Computation, rotate: Rotate, order: Tensor) -> Computation:
    """The computation with the dimensions of q and k that rotate in another order."""
    index = torch.arange(ours.q.shape[-1], device=ours.q.device)
    index[rotate.start : rotate.start + len(order)] = rotate.start + order.to(index)
    return replace(ours, q=ours.q[..., index], k=ours.k[..., index])


def _angles(ours: Computation, rotate: Rotate) -> Rows:
    for cause, says, change in (
        ("sign of the angle", "turns {} by the opposite angle", torch.neg),
        ("not turned", "does not turn {}, or ours turns once more", torch.zeros_like),
        ("turned twice", "turns {} twice, or ours once too few", lambda angle: 2 * angle),
    ):
        sides = {"q and k": (change, change), "q": (change, _same), "k": (_same, change)}
        if ours.alone:
            sides = {"q": (change, change)}
        for side, changes in sides.items():
            yield cause, says.format(side), by_angle(ours, *changes)
    changed = by_angle(ours, lambda angle: torch.pi / 2 - angle)
    yield "cos and sin exchanged", "exchanges cos and sin", changed
    if rotate.q_angle.shape[1] > 1:
        changed = by_angle(ours, lambda angle: angle[:, :1])
        yield "one head's angles for all", "turns every head by the angles of the first", changed
    step = per_token(ours)
    if step.shape[1] > 1:
        return

    def by_head(x: Tensor) -> OnAngle:
        each = step * torch.arange(x.shape[1], device=step.device).view(1, -1, 1, 1)
        return lambda angle: each.expand(-1, -1, angle.shape[-2], -1)

    says = "turns by the index of the head, not of the token: its axes are (b, t, h, d)"
    yield "heads taken for tokens", says, by_angle(ours, by_head(ours.q), by_head(ours.k))


def _gains(ours: Computation, gain: float) -> Rows:
    if gain == 1.0:
        return
    for power, says in (
        (0.0, "leaves the factor {:.6g} of cos and sin out"),
        (2.0, "multiplies cos and sin by the factor {:.6g} twice"),
        (0.5, "multiplies scores by the factor {:.6g} once, not by its square"),
    ):
        changed = by_rotation(ours, lambda r, p=power: replace(r, gain=r.gain**p))
        yield "attention factor", says.format(gain), changed
    scaled = replace(ours, scale=ours.scale * gain**2)
    says = f"multiplies whole scores by {gain**2:.6g}, not cos and sin of what turns"
    yield "attention factor", says, by_rotation(scaled, lambda r: replace(r, gain=1.0))


def _fastest_pairs(ours: Computation) -> Rows:
    for part in (part for part in ours.parts if isinstance(part, Rotary) and not part.first):
        whole = with_setting(ours, part, rotary_dim=None, scaling=None) or ours
        for width in range(2, part.dim, 2):
            says = (
                f"turns {width} of {part.dim} dimensions, at frequencies counted over the whole "
                "head, base**(-2i/dim)"
            )
            changed = by_angle(whole, lambda angle, pairs=width // 2: angle[..., :pairs])
            yield "frequencies of a partial width", says, changed


def _precision(ours: Computation, rotate: Rotate) -> Rows:
    step = per_token(ours)
    sides = (ours.positions.queries.position, ours.positions.keys.position)
    for low, name in LOW.items():
        tie = round(2 / torch.finfo(low).eps)
        says = f"rounds positions to {name}: neighbours beyond {tie} become equal"
        changed = ours.at(*(side.to(low).to(side.dtype) for side in sides))
        yield "precision of positions", says, changed
        ratio = torch.where(step == 0, 1.0, step.to(low).double() / step)
        says = f"rounds frequencies to {name}: the error grows with position"
        yield "precision of frequencies", says, by_angle(ours, lambda a, r=ratio: a * r)
        says = f"rounds angles to {name}: the error grows with position"
        yield "precision of angles", says, by_angle(ours, lambda a, to=low: a.to(to).double())
        if _is_plain(rotate):
            says = f"rounds cos and sin to {name}: the error is alike at every position"
            yield "precision of tables", says, replace(ours, rotator=_in_low(low))
    if _is_plain(rotate):
        says = "makes angles, cos and sin in float32: the error grows with position"
        yield "precision of angles", says, replace(ours, rotator=_in_low(torch.float32))


def per_token(ours: Computation) -> Tensor:
    """Radians per token of each pair, (1|b, 1|h, 1, r)."""
    now = replace(ours, edits=())
    sides = (ours.positions.queries.position, ours.positions.keys.position)
    queries, keys = ({"position": side + 1} for side in sides)
    later = now.placed(queries, keys, extent=ours.positions.bound)
    one, two = now.rotate, later.rotate
    if one is None or two is None:
        assert ours.rotate is not None
        return torch.zeros_like(ours.rotate.q_angle[..., :1, :])
    return (two.q_angle - one.q_angle)[..., :1, :]


def _is_plain(rotate: Rotate) -> bool:
    """Whether cos and sin are all there is to it."""
    return rotate.q_log_scale is None and rotate.k_angle is not None


def _in_low(low: torch.dtype) -> Rotator:
    def rotator(x: Tensor, angle: Tensor, rotate: Rotate) -> Tensor:
        angle = angle.float() if low == torch.float32 else angle
        cos, sin = (wave.to(x.dtype) for wave in cos_sin(angle, rotate.gain, low))
        return rotate_pairs(x, cos, sin, rotate.layout, rotate.start)

    return rotator


def _unsigned(x: Tensor, angle: Tensor, rotate: Rotate) -> Tensor:
    cos, sin = cos_sin(angle, rotate.gain, x.dtype)
    right, opposite = (rotate_pairs(x, cos, s, rotate.layout, rotate.start) for s in (sin, -sin))
    dims = torch.arange(x.shape[-1], device=x.device) - rotate.start
    first = dims < angle.shape[-1] if rotate.layout == "half" else dims % 2 == 0
    return torch.where(first, opposite, right)


def _mixed(x: Tensor, angle: Tensor, rotate: Rotate) -> Tensor:
    """The tables of one layout on the pairs of the other."""
    laid_out = replace(rotate, layout=_other(rotate.layout))
    waves = cos_sin(angle, rotate.gain, x.dtype)
    cos, sin = (in_dimensions(wave, laid_out, x.shape[-1]) for wave in waves)
    quarter = torch.full_like(angle, torch.pi / 2)
    partner = rotate_pairs(x, *cos_sin(quarter, 1.0, x.dtype), rotate.layout, rotate.start)
    rotated = in_dimensions(torch.ones_like(angle), rotate, x.shape[-1]) > 0
    return torch.where(rotated, x * cos + partner * sin, x)


def _other(layout: str) -> Layout:
    return "interleaved" if layout == "half" else "half"


def _same(angle: Tensor) -> Tensor:
    return angle
