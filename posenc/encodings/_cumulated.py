"""What rotary encodings share whose angles are sums over tokens of what each one tells."""

import torch
from jaxtyping import Float, Float64
from torch import Tensor

from posenc.encoding import Context, Encoding, Keys, Pairs, Queries, Scores, Tags
from posenc.encodings._rotary import rotated_dot
from posenc.errors import PositionsError, SettingError, ShapeError, even, whole
from posenc.positions import Positions
from posenc.terms import Layout, Rotate, Term


class CumulatedRotary(Encoding):
    """Base of rotations by angle[t] = sum over l <= t of a step that token l tells.

    A member says the steps of tokens in `payload` and `reference_steps`. They are made and summed
    in float64, for an error of an angle is one of the score: steps rounded to float32 are 1e-4 rad
    off after 32 thousand tokens. A cache keeps them, half as many numbers as its keys have.
    """

    family = "content"
    sizes = ("model_dim", "heads", "head_dim")
    tags = Tags(
        causal_only=True, needs_context=True, translation_invariant=True, norm_preserving=True
    )
    payload_adds = True
    layout: Layout = "half"

    def __init__(self, dim: int, heads: int, head_dim: int, rotary_dim: int | None) -> None:
        super().__init__()
        kind = type(self).__name__
        whole(kind, dim=dim, heads=heads)
        self.head_dim = even(kind, "head_dim", head_dim)
        self.rotated_dim = head_dim if rotary_dim is None else even(kind, "rotary_dim", rotary_dim)
        if self.rotated_dim > head_dim:
            raise SettingError(
                f"{kind}(head_dim={head_dim}, rotary_dim={rotary_dim}): at most head_dim can turn"
            )
        self.dim, self.heads, self.rotary_dim = dim, heads, rotary_dim
        self.model_dim = dim

    def reference_steps(self, x: Tensor) -> Float[Tensor, "b h t r"]:
        """By how much each token turns the pairs further, by the paper."""
        raise NotImplementedError

    def read(self, x: Tensor) -> Float64[Tensor, "b t c"]:
        """x in float64, after checking that it is this layer's input."""
        if x.ndim != 3 or x.shape[-1] != self.dim or not x.is_floating_point():
            raise ShapeError(
                f"{self!r} got Context(x=...) of shape {tuple(x.shape)} and {x.dtype}: "
                f"floating-point (batch, tokens, {self.dim}) is needed, the layer's input"
            )
        return x.double()

    def steps(self, positions: Positions, context: Context | None) -> Float[Tensor, "b h r tk"]:
        """What `payload` told of every key, zero for padding."""
        told = None if context is None else context.payload
        if told is None and context is not None and context.x is not None:
            told = self.payload(context.x)
        if told is None:
            raise PositionsError(f"{self!r} reads the layer's input: pass context=Context(x=...)")
        if told.ndim != 4 or told.shape[1] != self.heads or told.shape[-1] != positions.k_len:
            raise ShapeError(
                f"{self!r} has steps of shape {tuple(told.shape)}, but (batch, {self.heads}, n, "
                f"{positions.k_len}) is needed: give Context(x=...) or the payload of every key"
            )
        valid = positions.keys.valid
        # A sum would carry what is not a number in padding to every later token.
        return told if valid is None else told.masked_fill(~valid[:, None, None], 0.0)

    def lower(
        self,
        positions: Positions,
        context: Context | None = None,
        *,
        dtype: torch.dtype = torch.float32,
    ) -> tuple[Term, ...]:
        angle = self.steps(positions, context).double().cumsum(dim=-1).mT
        own = None if context is None else context.own
        last = angle[..., positions.k_len - positions.q_len :, :]
        return (Rotate(last if own is None else angle.index_select(-2, own), angle, self.layout),)

    def reference_scores(self, q: Queries, k: Keys, at: Pairs) -> Scores:
        assert at.context is not None
        assert at.context.x is not None
        steps = self.reference_steps(at.context.x)
        before = k.shape[2] - q.shape[2]
        between = torch.zeros(*steps.shape[:2], q.shape[2], *steps.shape[2:], dtype=steps.dtype)
        for i in range(q.shape[2]):
            for j in range(before + i):
                between[:, :, i, j] = steps[:, :, j + 1 : before + i + 1].sum(dim=2)
        return at.scale * rotated_dot(q, k, between, self.layout)
