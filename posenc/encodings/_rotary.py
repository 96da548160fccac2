"""What rotary encodings share: frequencies, angles, one rotation or two, and the slow product."""

from collections.abc import Sequence
from typing import get_args

import torch
from jaxtyping import Bool, Float64
from torch import Tensor

from posenc.encoding import Context, Encoding, Keys, Pairs, Queries, Scores, Tags
from posenc.errors import PositionsError, SettingError, even, is_whole, one_of, positive
from posenc.positions import Positions, one_axis
from posenc.terms import Layout, Rotate, Term, Zones
from posenc.torch_modes import settled

Angles = Float64[Tensor, "#b #h t r"]


def geometric(
    base: float | Float64[Tensor, "*#bt 1"], rotated_dim: int, device: torch.device | None
) -> Float64[Tensor, "*#bt r"]:
    """Radians per token of each pair, base**(-2i/rotated_dim) for i = 0 .. rotated_dim/2 - 1."""
    minus_2i = torch.arange(0, -rotated_dim, -2, dtype=torch.float64, device=device)
    # By name, for the operator's wrapper takes as long as the power of a few numbers.
    return torch.pow(base, minus_2i.div_(rotated_dim))


def angle(coordinates: Tensor, frequencies: Float64[Tensor, "*#bht r"]) -> Angles:
    """Coordinates (t,) or (b, t) times frequencies (r,), (h, 1, r) or (b, 1, t, r), in radians."""
    tokens = coordinates.double()
    return tokens.view(-1, 1, tokens.shape[-1], 1) * frequencies


def angle_by_axis(
    coordinates: Tensor,
    axis_of: Sequence[int],
    frequencies: Float64[Tensor, "*#bht r"],
    reader: str,
) -> Angles:
    """Coordinates (b, t, axes), of each pair the one it reads, times frequencies, in radians."""
    axes = max(axis_of) + 1
    if coordinates.shape[-1] != axes:
        raise PositionsError(
            f"{reader} reads {axes} coordinates per token, but the positions have shape "
            f"{tuple(coordinates.shape)}: give (b, t, {axes})"
        )
    return coordinates.double()[:, None, :, axis_of] * frequencies


def rotated_dot(
    q: Queries,
    k: Keys,
    angles: Float64[Tensor, "#b #h #tq #tk r"],
    layout: Layout,
    start: int = 0,
) -> Scores:
    """q . k after rotating pair i of q against that of k by angles[..., i]: for references.

    A pair is a complex number, so that its part is Re(q * conj(k) * exp(i angle)); RoFormer,
    equation 12. The 2r rotated dimensions begin at start; the others enter as they are.
    """
    pairs = angles.shape[-1]
    rest = [i for i in range(q.shape[-1]) if not start <= i < start + 2 * pairs]
    total = torch.einsum("bhid,bhjd->bhij", q[..., rest], k[..., rest])
    for i in range(pairs):
        one, two = (i, i + pairs) if layout == "half" else (2 * i, 2 * i + 1)
        one, two = start + one, start + two
        q_pair, k_pair = (torch.complex(x[..., one], x[..., two]) for x in (q, k))
        turn = torch.polar(torch.ones_like(angles[..., i]), angles[..., i])
        total = total + (q_pair[..., :, None] * k_pair.conj()[..., None, :] * turn).real
    return total


class RotaryEncoding(Encoding):
    """Base of encodings that rotate pairs of a head's dimensions; by itself it is plain RoPE.

    A member overrides `angles` and `reference_angles`, and no more where one rotation is all.
    """

    family = "rotary"
    sizes = ("head_dim",)

    def __init__(
        self,
        dim: int,
        base: float = 10_000.0,
        layout: Layout = "half",
        rotary_dim: int | None = None,
        start: int = 0,
    ) -> None:
        super().__init__()
        kind = type(self).__name__
        self.dim = self.head_dim = even(kind, "dim", dim)
        if not is_whole(start) or not -dim <= start < dim:
            raise SettingError(
                f"{kind}(dim={dim}, start={start}): start is a dimension of the head, "
                f"0 to {dim - 1}, or -1 to {-dim} from its end"
            )
        self.start, self.first = start, start + dim if start < 0 else start
        rest = dim - self.first
        self.rotated_dim = (
            even(kind, "dim - start", rest)
            if rotary_dim is None
            else even(kind, "rotary_dim", rotary_dim)
        )
        if self.rotated_dim > rest:
            after = "at most dim" if self.first == 0 else f"from start={start} on at most {rest}"
            raise SettingError(f"{kind}(dim={dim}, rotary_dim={rotary_dim}): {after} can turn")
        positive(kind, base=base)
        one_of(kind, get_args(Layout), layout=layout)
        self.base = base
        self.layout: Layout = layout

    def angles(self, coordinates: Tensor) -> Angles:
        """By how much each pair is rotated at coordinates (t,), (b, t) or (b, t, axes)."""
        tokens = one_axis(coordinates, type(self).__name__)
        return angle(tokens, self.theta(tokens.device))

    def theta(self, device: torch.device) -> Float64[Tensor, "r"]:
        """Radians per token of each pair before any scaling, kept for the tokens to come."""
        settings = self.base, self.rotated_dim
        return settled(self, "theta", settings, device, lambda: geometric(*settings, device))

    def rotation(self, positions: Positions) -> Rotate:
        """One rotation of queries and keys, whose angles are made once for shared positions."""
        q, k = positions.queries.position, positions.keys.position
        k_angle = self.angles(k)
        return Rotate(k_angle if q is k else self.angles(q), k_angle, self.layout, self.first)

    def lower(
        self,
        positions: Positions,
        context: Context | None = None,
        *,
        dtype: torch.dtype = torch.float32,
    ) -> tuple[Term, ...]:
        return (self.rotation(positions),)

    def reference_back(self, at: Pairs) -> Float64[Tensor, "b 1 tq tk"]:
        """How many tokens each key counts as being behind its query."""
        return -at.distance()

    def reference_angles(self, at: Pairs) -> Float64[Tensor, "#b #h #tq #tk r"]:
        """By how much each pair of a query is rotated against that of a key, by the paper."""
        back, dim = self.reference_back(at), self.rotated_dim
        return torch.stack([back * self.base ** (-2 * i / dim) for i in range(dim // 2)], dim=-1)

    def reference_scores(self, q: Queries, k: Keys, at: Pairs) -> Scores:
        return at.scale * rotated_dot(q, k, self.reference_angles(at), self.layout, self.first)


class TwoZones(RotaryEncoding):
    """Base of RoPE where the order distance is under `window`, and at other coordinates beyond.

    A member says which in `far` and, by its paper, in `reference_back`. Papers have consecutive
    tokens only; where explicit positions leave gaps, tokens between are what counts for the window.
    """

    tags = Tags(causal_only=True, translation_invariant=True, norm_preserving=True)

    def __init__(self, dim: int, window: int, base: float, layout: Layout) -> None:
        super().__init__(dim, base, layout)
        self.window = window

    def near(self, at: Pairs) -> Bool[Tensor, "b 1 tq tk"]:
        """Whether the order distance is under the window."""
        q, k = at.orders()
        return q - k < self.window

    def far(self, q: Tensor, k: Tensor) -> tuple[Tensor, Tensor]:
        """The coordinates beyond the window of queries and keys at q and k, (t,) or (b, t)."""
        raise NotImplementedError

    def lower(
        self,
        positions: Positions,
        context: Context | None = None,
        *,
        dtype: torch.dtype = torch.float32,
    ) -> tuple[Term, ...]:
        q, k = self.far(*positions.one_axis(type(self).__name__))
        far = Rotate(self.angles(q), self.angles(k), self.layout)
        return (Zones(self.rotation(positions), far, self.window),)
