"""What `diagnose` is given: checked, and as computations that may have led to it."""

import math
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from posenc.analysis.diagnosis.computation import Computation, Kind, Results, misfit, rotated_back
from posenc.encoding import Context
from posenc.encodings.rotary import Rotary
from posenc.errors import ShapeError, UnsupportedError
from posenc.lowering import Lowerable, Lowered, flatten, lower
from posenc.positions import Documents, Positions, as_positions
from posenc.terms import Rotate

# Bases of published models: what an encoding is taken for when none is given.
GUESSED_BASES = (10_000.0, 500_000.0, 1_000_000.0)


DTYPES = (torch.float16, torch.bfloat16, torch.float32, torch.float64)


def as_results(given: Tensor | Sequence[Tensor], name: str) -> Results:
    pair = given if isinstance(given, (tuple, list)) else ()
    results = (given,) if isinstance(given, Tensor) else tuple(pair)
    if not 1 <= len(results) <= 2 or not all(isinstance(one, Tensor) for one in results):
        raise ShapeError(f"diagnose({name}=...): give one tensor, or a pair (q, k) after rotation")
    for one in results:
        check_numbers(one, name)
    return tuple(one.detach() for one in results)


def check_numbers(given: Tensor, name: str) -> None:
    """Raise ShapeError for what holds no numbers that could be compared."""
    if not isinstance(given, Tensor):
        raise ShapeError(f"diagnose({name}=...): a tensor is needed, not {type(given).__name__}")
    shown = f"diagnose({name}=...): a tensor of shape {tuple(given.shape)} and {given.dtype}"
    if given.dtype not in DTYPES or not given.numel():
        raise ShapeError(f"{shown}: float16 to float64, at least one number, is needed")
    if given.is_meta or given.layout != torch.strided:
        raise ShapeError(f"{shown} on {given.device}, {given.layout}: give one that holds numbers")
    if given.isnan().any():
        place = tuple(given.isnan().nonzero()[0].tolist())
        raise ShapeError(f"{shown} has NaN, first at {place}: find out where it comes from")
    if (given == torch.inf).any():
        raise ShapeError(f"{shown} holds inf: only hidden scores may be infinite, as -inf")


def check(ours: Results, theirs: Results) -> None:
    shapes = [[tuple(one.shape) for one in side] for side in (ours, theirs)]
    if shapes[0] != shapes[1]:
        raise ShapeError(
            f"diagnose: ours has shapes {shapes[0]}, theirs {shapes[1]}: bring both into the same "
            "form, heads before tokens (b, h, t, d), and key heads both repeated or both not"
        )
    if any(one.device != two.device for one, two in zip(ours, theirs, strict=True)):
        raise ShapeError("diagnose: ours and theirs are on two devices: move one of them")


def check_kind(results: Results, kind: Kind) -> None:
    if kind not in ("turned", "scores", "output", "embedded"):
        raise ShapeError(
            f"diagnose(kind={kind!r}): kind is 'turned', 'scores', 'output' or 'embedded'"
        )
    dims, most = (3, 1) if kind == "embedded" else (4, 2 if kind == "turned" else 1)
    shapes = [tuple(one.shape) for one in results]
    if len(results) > most or any(one.ndim != dims for one in results):
        form = "(b, t, c)" if dims == 3 else "(b, h, t, d)"
        raise ShapeError(f"diagnose: {kind} of shapes {shapes}, but {form} is needed of each")
    if kind != "scores" and any(one.isinf().any() for one in results):
        raise ShapeError(f"diagnose: {kind} with -inf in it, which only scores may hold")


def kind_of(
    ours: Results, q: Tensor | None, k: Tensor | None, v: Tensor | None, encoding: Lowerable
) -> Kind:
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
    terms = encoding.terms if isinstance(encoding, Lowered) else ()
    rotary = any(getattr(part, "family", "") == "rotary" for part in _parts(encoding))
    return "turned" if rotary or any(isinstance(term, Rotate) for term in terms) else "output"


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
    given: dict[str, Tensor | None],
    positions: Positions | Tensor | None,
    causal: bool | None,
    scale: float | None,
    context: Context | None,
) -> list[Computation]:
    """How ours may have come about: one way where enough is given, else guesses, or none."""
    if scale is not None and not math.isfinite(scale):
        raise ShapeError(f"diagnose(scale={scale}): a finite number is needed")
    q, k = given["q"], given["k"]
    needed = {
        "turned": ("q", "k")[: len(ours)],
        "scores": ("q", "k"),
        "output": ("q", "k", "v"),
        "embedded": ("x",),
    }[kind]
    missing = [name for name in needed if given[name] is None]
    if missing and len(missing) < len(needed):
        raise ShapeError(
            f"diagnose: {kind} of {', '.join(n for n in needed if n not in missing)} without "
            f"{', '.join(missing)}: give all of {', '.join(needed)}, or none"
        )
    if not missing:
        _check_raw(kind, given, ours)
    q_len = ours[0].shape[-2]
    k_len = q_len if kind == "embedded" else (ours[-1] if missing or k is None else k).shape[-2]
    if isinstance(encoding, Lowered):
        at = lower(encoding, positions, causal=causal).positions
    else:
        at = as_positions(positions, q_len, k_len, causal=causal, device=ours[0].device)
        for part in flatten(encoding):
            at = part.place(at) if isinstance(part, Documents) else at
    parts = _parts(encoding)
    if not missing and (kind != "turned" or encoding is not None):
        scale = (1.0 if q is None else q.shape[-1] ** -0.5) if scale is None else scale
        raw: dict[str, Any] = {name: given[name] for name in needed}
        start = Computation(kind, parts, at, **raw, scale=scale, context=context)
        _check_turns(start)
        return [start]
    if kind != "turned":
        return []
    if encoding is not None:
        _check_turns(Computation(kind, parts, at, ours[0], ours[-1]))
        return [rotated_back(ours, parts, at)]
    width = ours[0].shape[-1]
    guesses = [
        Rotary(width, base, layout, turned)
        for turned in (width, width // 2, width // 4)
        for base in GUESSED_BASES
        for layout in ("half", "interleaved")
        if width % 2 == 0 and turned % 2 == 0 and turned
    ]
    if missing:
        return [rotated_back(ours, (guess,), at) for guess in guesses]
    made = [Computation(kind, (guess,), at, q, k) for guess in guesses]
    return sorted(made, key=lambda start: misfit(start.results(), ours))[:1]


def _check_raw(kind: Kind, given: dict[str, Tensor | None], ours: Results) -> None:
    """Raise ShapeError where these raw tensors cannot have led to ours."""
    for name, one in given.items():
        if one is None:
            continue
        check_numbers(one, name)
        if one.device != ours[0].device:
            raise ShapeError(
                f"diagnose: {name} is on {one.device}, ours on {ours[0].device}: move one of them"
            )
        if one.isinf().any():
            raise ShapeError(f"diagnose({name}=...) holds -inf: raw tensors are finite")
    q, k, v, x = (None if one is None else tuple(one.shape) for one in given.values())
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


def _check_turns(start: Computation) -> None:
    """Raise UnsupportedError for turned q and k of an encoding that does not turn them once."""
    if start.kind == "turned" and start.rotate is None:
        raise UnsupportedError(
            f"diagnose: {list(start.parts)} turns neither q nor k, or turns them twice over, so "
            "that no turned q and k can be compared: give scores or outputs"
        )
