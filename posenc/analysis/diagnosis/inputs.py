"""What `diagnose` is given: checked, and as computations that may have led to it."""

import math
from collections.abc import Sequence
from dataclasses import replace

import torch
from torch import Tensor

from posenc.analysis.diagnosis.computation import (
    NAMES,
    RAW,
    Computation,
    Kind,
    Results,
    misfit,
    rotated_back,
)
from posenc.encoding import Context
from posenc.encodings.rotary import Rotary
from posenc.errors import ShapeError, UnsupportedError
from posenc.lowering import Lowerable, Lowered, flatten, lower
from posenc.positions import Documents, Positions, as_positions
from posenc.terms import Rotate

# Bases of published models: what an encoding is taken for when none is given.
GUESSED_BASES = (10_000.0, 500_000.0, 1_000_000.0)
DTYPES = (torch.float16, torch.bfloat16, torch.float32, torch.float64)


def as_results(value: Tensor | Sequence[Tensor], name: str) -> Results:
    """One tensor or two as a tuple; ShapeError for anything else."""
    results = (value,) if isinstance(value, Tensor) else value
    pair = isinstance(results, (tuple, list)) and all(isinstance(one, Tensor) for one in results)
    if not pair or not 1 <= len(results) <= 2:
        raise ShapeError(f"diagnose({name}=...): give one tensor, or a pair (q, k) after rotation")
    for one in results:
        check_numbers(one, name)
    return tuple(one.detach() for one in results)


def check_numbers(x: Tensor, name: str) -> None:
    """Raise ShapeError for what holds no numbers that could be compared."""
    if not isinstance(x, Tensor):
        raise ShapeError(f"diagnose({name}=...): a tensor is needed, not {type(x).__name__}")
    shown = f"diagnose({name}=...): a tensor of shape {tuple(x.shape)} and {x.dtype}"
    if x.dtype not in DTYPES or not x.numel():
        raise ShapeError(f"{shown}: float16 to float64, at least one number, is needed")
    if x.is_meta or x.layout != torch.strided:
        raise ShapeError(f"{shown} on {x.device}, {x.layout}: give one that holds numbers")
    if x.isnan().any():
        place = tuple(x.isnan().nonzero()[0].tolist())
        raise ShapeError(f"{shown} has NaN, first at {place}: find out where it comes from")
    if (x == torch.inf).any():
        raise ShapeError(f"{shown} holds inf: only hidden scores may be infinite, as -inf")


def check_alike(ours: Results, theirs: Results) -> None:
    """Raise ShapeError for two results of other shapes, or on other devices."""
    shapes = [[tuple(one.shape) for one in side] for side in (ours, theirs)]
    if shapes[0] != shapes[1]:
        raise ShapeError(
            f"diagnose: ours has shapes {shapes[0]}, theirs {shapes[1]}: bring both into the same "
            "form, heads before tokens (b, h, t, d), and key heads both repeated or both not"
        )
    if any(one.device != two.device for one, two in zip(ours, theirs, strict=True)):
        raise ShapeError("diagnose: ours and theirs are on two devices: move one of them")


def check_kind(results: Results, kind: Kind) -> None:
    """Raise ShapeError for results that cannot be of this kind."""
    if kind not in NAMES:
        raise ShapeError(
            f"diagnose(kind={kind!r}): kind is 'turned', 'scores', 'output' or 'embedded'"
        )
    form = "(b, t, c)" if kind == "embedded" else "(b, h, t, d)"
    shapes = [tuple(one.shape) for one in results]
    if len(results) > len(NAMES[kind]) or any(len(one) != form.count(",") + 1 for one in shapes):
        raise ShapeError(f"diagnose: {kind} of shapes {shapes}, but {form} is needed of each")
    if kind != "scores" and any(one.isinf().any() for one in results):
        raise ShapeError(f"diagnose: {kind} with -inf in it, which only scores may hold")


def kind_of(
    ours: Results, q: Tensor | None, k: Tensor | None, v: Tensor | None, encoding: Lowerable
) -> Kind:
    """What ours is, by its shape and by what it is said to come from."""
    if len(ours) == 2:
        return "turned"
    if ours[0].ndim == 3:
        return "embedded"
    if v is not None:
        return "output"
    if k is not None or (ours[0] == -torch.inf).any():
        return "scores"
    if q is not None or encoding is None:
        return "turned"
    rotates = any(
        isinstance(part, Rotate) or getattr(part, "family", "") == "rotary"
        for part in _parts(encoding)
    )
    return "turned" if rotates else "output"


def hidden(results: Results, others: Results) -> Results:
    """Scores with -inf where one side hides by it, and the other by a large negative number."""
    least = torch.finfo(results[0].dtype).min / 2
    hidden = (results[0] <= least) | ((results[0] < -9e3) & (others[0] == -torch.inf))
    return (results[0].masked_fill(hidden, -torch.inf),)


def _parts(encoding: Lowerable) -> tuple:
    if isinstance(encoding, Lowered):
        return encoding.terms
    return tuple(part for part in flatten(encoding) if not isinstance(part, Documents))


def starts(
    ours: Results,
    kind: Kind,
    encoding: Lowerable,
    tensors: dict[str, Tensor | None],
    positions: Positions | Tensor | None,
    causal: bool | None,
    scale: float | None,
    context: Context | None,
) -> list[Computation]:
    """How ours may have come about: one way where enough is given, else guesses, or none."""
    if scale is not None and not math.isfinite(scale):
        raise ShapeError(f"diagnose(scale={scale}): a finite number is needed")
    names = ("q",) if kind == "turned" and len(ours) == 1 else RAW[kind]
    raw = {name: x for name in names if (x := tensors[name]) is not None}
    if 0 < len(raw) < len(names):
        missing = ", ".join(name for name in names if name not in raw)
        raise ShapeError(
            f"diagnose: {kind} of {', '.join(raw)} without {missing}: give all of "
            f"{', '.join(names)}, or none"
        )
    if raw:
        _check_raw(kind, tensors, ours)
    sides = tuple(raw.values()) or ours
    q, k, v = (*sides, sides[-1], sides[-1])[:3]
    if isinstance(encoding, Lowered):
        placed = lower(encoding, positions, causal=causal).positions
    else:
        lengths = q.shape[-2], k.shape[-2]
        placed = as_positions(positions, *lengths, causal=causal, device=q.device)
        for part in flatten(encoding):
            placed = part.place(placed) if isinstance(part, Documents) else placed
    factor = q.shape[-1] ** -0.5 if scale is None else scale
    start = Computation(kind, _parts(encoding), placed, q, k, v, len(sides) == 1, factor, context)
    if kind != "turned":
        return [start] if raw else []
    if encoding is None:
        guessed = [replace(start, parts=(guess,)) for guess in _guesses(q.shape[-1])]
        if raw:
            return sorted(guessed, key=lambda guess: misfit(guess.results(), ours))[:1]
        return [rotated_back(guess) for guess in guessed]
    if start.rotate is None:
        raise UnsupportedError(
            f"diagnose: {list(start.parts)} turns neither q nor k, or turns them twice over, so "
            "that no turned q and k can be compared: give scores or outputs"
        )
    return [start if raw else rotated_back(start)]


def _guesses(width: int) -> list[Rotary]:
    """The usual rotations of heads of this width."""
    return [
        Rotary(width, base, layout, rotated)
        for rotated in (width, width // 2, width // 4)
        for base in GUESSED_BASES
        for layout in ("half", "interleaved")
        if width % 2 == 0 and rotated % 2 == 0 and rotated
    ]


def _check_raw(kind: Kind, tensors: dict[str, Tensor | None], ours: Results) -> None:
    """Raise ShapeError where these raw tensors cannot have led to ours."""
    for name, x in tensors.items():
        if x is None:
            continue
        check_numbers(x, name)
        if x.device != ours[0].device:
            raise ShapeError(
                f"diagnose: {name} is on {x.device}, ours on {ours[0].device}: move one of them"
            )
        if x.isinf().any():
            raise ShapeError(f"diagnose({name}=...) holds -inf: raw tensors are finite")
    q, k, v, x = (None if one is None else tuple(one.shape) for one in tensors.values())
    expected = {
        "turned": (q, k)[: len(ours)],
        "scores": ((*q[:3], k[2]) if q and k else None,),
        "output": ((*q[:3], v[3]) if q and v else None,),
        "embedded": (x,),
    }[kind]
    shapes = tuple(tuple(one.shape) for one in ours)
    # Merging by concat widens embeddings.
    width = 2 if kind == "embedded" else 4
    pairs = zip(expected, shapes, strict=True)
    if any(one is None or one[:width] != two[:width] for one, two in pairs):
        raise ShapeError(
            f"diagnose: raw tensors of shapes {[one for one in (q, k, v, x) if one]} give "
            f"{kind} of shapes {list(expected)}, but ours has {list(shapes)}: give those "
            "that ours was computed from"
        )
