"""From raw tensors to what two implementations are compared by; a hypothesis changes one step.

Letters: b batch, h query heads, g key heads, t tokens, tq, tk queries and keys, d head dimension,
c model dimension, r turned pairs.
"""

from collections.abc import Callable, Collection
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Literal

import torch
from torch import Tensor
from torch.nn.functional import pad

from posenc.attention import build_call
from posenc.encoding import Context, Encoding
from posenc.equation import output_of, scores_of, weights_of
from posenc.errors import UnsupportedError
from posenc.lowering import Lowered, Part
from posenc.positions import Positions
from posenc.rotation import rotate_both
from posenc.terms import Rotate, Term
from posenc.torch_modes import arithmetic, autocast_off

# turned: q and k (b, h, t, d); scores: (b, h, tq, tk); output: (b, h, tq, d); embedded: (b, t, c)
Kind = Literal["turned", "scores", "output", "embedded"]
Results = tuple[Tensor, ...]
Rotator = Callable[[Tensor, Tensor, Rotate], Tensor]
# A term in place of the one given, or None where it is left out.
Edit = Callable[[Any], Term | None]


@dataclass(frozen=True, eq=False)
class Computation:
    """How results of one kind come about: change a field, and see what comes out.

    q, k, v, x  raw, before any position; those that the kind needs
    edits       applied to the lowered terms, in order
    rotator     rotates x by angles of a Rotate, in place of the right way to do it
    """

    kind: Kind
    parts: tuple[Part, ...]
    positions: Positions
    q: Tensor | None = None
    k: Tensor | None = None
    v: Tensor | None = None
    x: Tensor | None = None
    scale: float = 1.0
    context: Context | None = None
    edits: tuple[Callable[[tuple[Term, ...]], tuple[Term, ...]], ...] = ()
    rotator: Rotator | None = None

    def has(self, *kinds: type) -> bool:
        """Whether some term is of these kinds."""
        return any(isinstance(term, kinds) for term in self.terms)

    def edited(
        self, edit: Edit, *kinds: type, which: Collection[int] | None = None
    ) -> "Computation":
        """The same with its terms edited: those of these kinds, or all, and of these numbers."""

        def edited(terms: tuple[Term, ...]) -> tuple[Term, ...]:
            numbers = range(len(terms)) if which is None else which
            chosen = (n in numbers and isinstance(t, kinds or object) for n, t in enumerate(terms))
            changed = (edit(t) if edits else t for edits, t in zip(chosen, terms, strict=True))
            return tuple(term for term in changed if term is not None)

        return replace(self, edits=(*self.edits, edited))

    def placed(
        self,
        queries: dict[str, Any] | None = None,
        keys: dict[str, Any] | None = None,
        **changes: Any,
    ) -> "Computation":
        """The same with other fields of its positions, and of their queries and keys."""
        positions = self.positions
        changes["queries"] = replace(positions.queries, **(queries or {}))
        changes["keys"] = replace(positions.keys, **(keys or {}))
        return replace(self, positions=replace(positions, **changes))

    def cut(self, tokens: Tensor) -> "Computation":
        """The same for these queries alone; of turned heads for these keys too."""
        at, both = self.positions.ordered(), self.kind == "turned"
        keys = at.keys[tokens] if both else at.keys
        at = replace(at, queries=at.queries[tokens], keys=keys, unit_step=False)
        sides = ("q", "k") if both else ("q",)
        raw = {
            name: value.index_select(-2, tokens)
            for name in (*sides, "x")
            if (value := getattr(self, name)) is not None
        }
        return replace(self, positions=at, **raw)

    @cached_property
    def lowered(self) -> Lowered:
        """Its terms with their edits."""
        assert self.q is not None
        k = self.q if self.k is None else self.k
        v = k if self.v is None else self.v
        made = build_call(
            *(self.q, k, v, list(self.parts)),
            positions=self.positions,
            context=self.context,
            scale=self.scale,
        ).lowered
        terms = made.terms
        for edit in self.edits:
            terms = edit(terms)
        return made.with_terms(terms)

    @property
    def terms(self) -> tuple[Term, ...]:
        """Its lowered terms; none where it ends before attention."""
        return () if self.kind == "embedded" else self.lowered.terms

    @property
    def rotate(self) -> Rotate | None:
        """Its Rotate term, if there is one."""
        return next((term for term in self.terms if isinstance(term, Rotate)), None)

    @torch.no_grad()
    def results(self) -> Results:
        if self.kind != "embedded":
            with autocast_off(self.positions.device):
                return self._attended()
        assert self.x is not None
        x = self.x
        for part in self.parts:
            x = part.embed(x, self.positions) if isinstance(part, Encoding) else x
        return (x,)

    def _attended(self) -> Results:
        assert self.q is not None
        lowered, q = self.lowered, self.q
        k = q if self.k is None else self.k
        rotate = self.rotate
        if rotate is not None and (self.kind == "turned" or self.rotator is not None):
            q, k = self._rotated(q, k, rotate)
            terms = tuple(term for term in lowered.terms if term is not rotate)
            lowered = lowered.with_terms(terms)
        if self.kind == "turned":
            return (q,) if self.k is None else (q, k)
        s = scores_of(q, k, lowered, self.scale)
        if self.kind == "scores":
            return (s,)
        assert self.v is not None
        return (output_of(weights_of(s), self.v, lowered),)

    def _rotated(self, q: Tensor, k: Tensor, rotate: Rotate) -> tuple[Tensor, Tensor]:
        dtype = arithmetic(q, k)
        if self.rotator is None or rotate.k_angle is None:
            return rotate_both(q, k, rotate, dtype)
        q, k = q.to(dtype), k.to(dtype)
        return self.rotator(q, rotate.q_angle, rotate), self.rotator(k, rotate.k_angle, rotate)


def rotated_back(rotated: Results, parts: tuple[Part, ...], positions: Positions) -> Computation:
    """The computation whose results are these turned q and k: its raw ones are turned back."""

    def back(term: Term) -> Term:
        if not isinstance(term, Rotate):
            return term
        if term.q_log_scale is not None or term.k_log_scale is not None:
            raise UnsupportedError(
                "factors that grow with position are known up to an origin only, so that q and k "
                "cannot be turned back: give the raw ones, diagnose(..., q=..., k=...)"
            )
        k_angle = None if term.k_angle is None else -term.k_angle
        return replace(term, q_angle=-term.q_angle, k_angle=k_angle, gain=1 / term.gain)

    k = rotated[1] if len(rotated) > 1 else None
    at = Computation("turned", parts, positions, rotated[0], k)
    raw = at.edited(back).results()
    return replace(at, q=raw[0], k=raw[1] if len(raw) > 1 else None)


def in_dimensions(pairs: Tensor, rotate: Rotate, width: int) -> Tensor:
    """One value per turned pair (..., r), for each of the dimensions of a head; 0 where none."""
    if rotate.layout == "half":
        spread = torch.cat((pairs, pairs), dim=-1)
    else:
        spread = pairs.repeat_interleave(2, dim=-1)
    return pad(spread, (rotate.start, width - rotate.start - spread.shape[-1]))


def in_pairs(x: Tensor, rotate: Rotate) -> Tensor:
    """The turned pairs of x as complex numbers (..., r)."""
    pairs = rotate.q_angle.shape[-1]
    part = x[..., rotate.start : rotate.start + 2 * pairs]
    if rotate.layout == "half":
        return torch.complex(part[..., :pairs].contiguous(), part[..., pairs:].contiguous())
    return torch.complex(part[..., 0::2].contiguous(), part[..., 1::2].contiguous())


def finite_pair(one: Tensor, two: Tensor) -> tuple[Tensor, Tensor]:
    """Both in float64, with 0 where either is hidden."""
    seen = one.isfinite() & two.isfinite()
    return one.double().masked_fill(~seen, 0.0), two.double().masked_fill(~seen, 0.0)


def misfit(found: Results, wanted: Results) -> float:
    """The root of the mean squared difference; a hidden score counts as one far below the rest."""
    total, count = 0.0, 0
    for one, two in zip(found, wanted, strict=True):
        one, two = one.double(), two.double()
        if one.shape != two.shape:
            return torch.inf
        hidden = (one == -torch.inf) | (two == -torch.inf)
        if hidden.any():
            floor = torch.minimum(one, two).masked_fill(hidden, 0.0).min() - 10.0
            one, two = (side.masked_fill(side == -torch.inf, floor.item()) for side in (one, two))
        total += (one - two).square().sum().item()
        count += one.numel()
    return (total / max(count, 1)) ** 0.5
