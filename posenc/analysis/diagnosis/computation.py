"""From raw tensors to what two implementations are compared by; a hypothesis changes one step.

Letters: b batch, h query heads, g key heads, t tokens, tq, tk queries and keys, d head dimension,
c model dimension, r rotated pairs.
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
from posenc.equation import output_of, scores_of, sink_of, weights_of
from posenc.errors import UnsupportedError
from posenc.lowering import Lowered, Part
from posenc.positions import Positions
from posenc.rotation import rotate_both
from posenc.terms import Rotate, Term
from posenc.torch_modes import arithmetic, autocast_off

# turned: q and k (b, h, t, d); scores: (b, h, tq, tk); output: (b, h, tq, d); embedded: (b, t, c)
Kind = Literal["turned", "scores", "output", "embedded"]
# What is compared of each kind, and the raw tensors that it comes from.
NAMES: dict[Kind, tuple[str, ...]] = {
    "turned": ("q", "k"),
    "scores": ("scores",),
    "output": ("output",),
    "embedded": ("embeddings",),
}
RAW: dict[Kind, tuple[str, ...]] = {
    "turned": ("q", "k"),
    "scores": ("q", "k"),
    "output": ("q", "k", "v"),
    "embedded": ("x",),
}
Results = tuple[Tensor, ...]
Rotator = Callable[[Tensor, Tensor, Rotate], Tensor]
# A term in place of the one given, or None where it is left out.
Edit = Callable[[Any], Term | None]


@dataclass(frozen=True, eq=False)
class Computation:
    """How results of one kind come about: change a field, and see what comes out.

    q, k, v  raw, before any position; of embeddings q is x; what a kind lacks repeats the last
    alone    whether of rotated q and k only q is compared
    edits    applied to the lowered terms, in order
    rotator  rotates x by angles of a Rotate, in place of the right way to do it
    """

    kind: Kind
    parts: tuple[Part, ...]
    positions: Positions
    q: Tensor
    k: Tensor
    v: Tensor
    alone: bool = False
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
            changed = (
                edit(term) if number in numbers and isinstance(term, kinds or object) else term
                for number, term in enumerate(terms)
            )
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

    def at(self, q: Tensor, k: Tensor, **changes: Any) -> "Computation":
        """The same with queries and keys at other positions."""
        return self.placed({"position": q}, {"position": k}, unit_step=False, **changes)

    def cut(self, tokens: Tensor | None) -> "Computation":
        """The same for these queries alone, None for all; of rotated heads for these keys too."""
        if tokens is None:
            return self
        positions, names = self.positions.ordered(), ["q"]
        changes = {"queries": positions.queries[tokens], "unit_step": False}
        if self.kind == "turned":
            names, changes["keys"] = ["q", "k", "v"], positions.keys[tokens]
        raw = {name: getattr(self, name).index_select(-2, tokens) for name in names}
        return replace(self, positions=replace(positions, **changes), **raw)

    @cached_property
    def lowered(self) -> Lowered:
        """Its terms with their edits."""
        options = {"positions": self.positions, "context": self.context, "scale": self.scale}
        lowered = build_call(self.q, self.k, self.v, list(self.parts), **options).lowered
        terms = lowered.terms
        for edit in self.edits:
            terms = edit(terms)
        return lowered.with_terms(terms)

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
        x = self.q
        for part in self.parts:
            x = part.embed(x, self.positions) if isinstance(part, Encoding) else x
        return (x,)

    def _attended(self) -> Results:
        lowered, q, k, rotate = self.lowered, self.q, self.k, self.rotate
        if rotate is not None and (self.kind == "turned" or self.rotator is not None):
            q, k = self._rotated(rotate)
            terms = tuple(term for term in lowered.terms if term is not rotate)
            lowered = lowered.with_terms(terms)
        if self.kind == "turned":
            return (q,) if self.alone else (q, k)
        s = scores_of(q, k, lowered, self.scale)
        if self.kind == "scores":
            return (s,)
        p = weights_of(s, sink_of(lowered.terms))
        return (output_of(p, self.v, lowered),)

    def _rotated(self, rotate: Rotate) -> tuple[Tensor, Tensor]:
        dtype = arithmetic(self.q, self.k)
        if self.rotator is None or rotate.k_angle is None:
            return rotate_both(self.q, self.k, rotate, dtype)
        q = self.rotator(self.q.to(dtype), rotate.q_angle, rotate)
        return q, self.rotator(self.k.to(dtype), rotate.k_angle, rotate)


def rotated_back(forward: Computation) -> Computation:
    """The computation whose results are the q and k of this one: its raw ones are rotated back."""

    def undone(term: Term) -> Term:
        if not isinstance(term, Rotate):
            return term
        if term.grows:
            raise UnsupportedError(
                "factors that grow with position are known up to an origin only, so that q and k "
                "cannot be turned back: give the raw ones, diagnose(..., q=..., k=...)"
            )
        k_angle = None if term.k_angle is None else -term.k_angle
        q_log, k_log = (None if x is None else -x for x in (term.q_log_scale, term.k_log_scale))
        back = replace(term, q_angle=-term.q_angle, k_angle=k_angle, gain=1 / term.gain)
        return replace(back, q_log_scale=q_log, k_log_scale=k_log)

    raw = forward.edited(undone).results()
    return replace(forward, q=raw[0], k=raw[-1], v=raw[-1])


def in_dimensions(pairs: Tensor, rotate: Rotate, width: int) -> Tensor:
    """One value per rotated pair (..., r), for each of the dimensions of a head; 0 where none."""
    if rotate.layout == "half":
        spread = torch.cat((pairs, pairs), dim=-1)
    else:
        spread = pairs.repeat_interleave(2, dim=-1)
    return pad(spread, (rotate.start, width - rotate.start - spread.shape[-1]))


def in_pairs(x: Tensor, rotate: Rotate) -> Tensor:
    """The rotated pairs of x as complex numbers (..., r)."""
    pairs = rotate.q_angle.shape[-1]
    part = x[..., rotate.start : rotate.start + 2 * pairs]
    if rotate.layout == "half":
        return torch.complex(part[..., :pairs].contiguous(), part[..., pairs:].contiguous())
    return torch.complex(part[..., 0::2].contiguous(), part[..., 1::2].contiguous())


def finite_pair(one: Tensor, two: Tensor) -> tuple[Tensor, Tensor]:
    """Both in float64, with 0 where either is hidden."""
    seen = one.isfinite() & two.isfinite()
    return one.double().masked_fill(~seen, 0.0), two.double().masked_fill(~seen, 0.0)


def misfit(results: Results, wanted: Results) -> float:
    """The root of the mean squared difference; a hidden score counts as one far below the rest."""
    total, count = 0.0, 0
    for one, two in zip(results, wanted, strict=True):
        one, two = one.double(), two.double()
        if one.shape != two.shape:
            return torch.inf
        hidden = (one == -torch.inf) | (two == -torch.inf)
        if hidden.any():
            floor = torch.minimum(one, two).masked_fill(hidden, 0.0).min().item() - 10.0
            one, two = (side.masked_fill(side == -torch.inf, floor) for side in (one, two))
        total += (one - two).square().sum().item()
        count += one.numel()
    return (total / max(count, 1)) ** 0.5
