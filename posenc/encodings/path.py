from collections.abc import Iterator

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor, nn

from posenc.encoding import Context, Encoding, Keys, Pairs, Queries, Scores, Tags
from posenc.encodings._weights import head_dim_of, linear_in_dtype
from posenc.errors import PositionsError, SettingError, ShapeError, UnsupportedError, given, whole
from posenc.positions import Positions
from posenc.terms import Householder, Term
from posenc.torch_modes import autocast_off

# Under the root of the norm, as in the authors' code.
_EPS = 1e-6


class PaTH(Encoding):
    """Every token reflects all keys before it, in a direction and as far as it says itself.

        score[i, j] = scale * q[i] . H[i] H[i - 1] .. H[j + 1] k[j]
        H[t] = I - beta[t] w[t] w[t]^T
        w[t] = unit vector of silu(sum over s = 0 .. 2 of c[2 - s] * W x[t - s])
        beta[t] = 2 * sigmoid(u . x[t] + b)

    x is the input of the attention layer, of width dim: a call needs context=Context(x=...) and
    causal attention, and its queries are the last of the keys. c is a convolution of each dimension
    over three tokens of the document; rank is that of W, None: full. key_heads, None: heads, is how
    many heads have a w, to be given where query heads share keys. beta near 0 leaves keys as they
    are, near 1 forgets a direction, near 2 reflects it. A list with ForgetGate is PaTH-FoX, whose
    code multiplies the gates' logarithms by scale too, which ForgetGate does not.

    It takes the place of a rotary encoding. Longer inputs go by blocks, in memory that grows with
    the length. A cache keeps raw keys, and head_dim + 1 numbers per token and key head beside them;
    a step of decoding goes over all of them once more. The authors multiply the cached keys
    instead, a single product per step. Transformer(encoding=lambda layer: PaTH(...)) gives each
    layer its own. torch.export takes it, ONNX does not: it has no operator for the triangular
    equations that join the blocks. Raises SettingError for sizes below 1 and for heads that are no
    multiple of key_heads, ShapeError for x of another width or of another number of tokens than
    the keys.

    Source: Yang et al. 2025, arXiv:2505.16381, section 3, and fla-org/flash-linear-attention.
    """

    name = "path"
    family = "content"
    paper = "arXiv:2505.16381"
    sizes = ("model_dim", "heads", "head_dim")
    tags = Tags(causal_only=True, needs_context=True, translation_invariant=True)

    def __init__(
        self,
        dim: int,
        heads: int,
        head_dim: int | None = None,
        key_heads: int | None = None,
        rank: int | None = 32,
    ) -> None:
        super().__init__()
        self.width = self.head_dim = head_dim_of("PaTH", dim, heads, head_dim)
        whole("PaTH", **given(key_heads=key_heads, rank=rank))
        if key_heads is not None and heads % key_heads:
            raise SettingError(
                f"PaTH(heads={heads}, key_heads={key_heads}): heads must be a multiple, for as "
                "many query heads share each key head"
            )
        self.dim, self.heads, self.key_heads, self.rank = dim, heads, key_heads, rank
        self.model_dim = dim
        self.groups = heads if key_heads is None else key_heads
        width = self.groups * self.width
        shared = rank is not None and rank < min(dim, width)
        self.down = nn.Linear(dim, rank, bias=False) if shared and rank is not None else None
        self.up = nn.Linear(dim if self.down is None else self.down.out_features, width, bias=False)
        self.mix = nn.Parameter(torch.empty(self.groups, self.head_dim, 3))
        nn.init.uniform_(self.mix, -(3**-0.5), 3**-0.5)
        self.gate = nn.Linear(dim, self.groups)

    @classmethod
    def examples(cls) -> Iterator[Encoding]:
        yield cls(16, heads=4)
        yield cls(24, heads=4, head_dim=6, key_heads=2, rank=5)

    def payload(self, x: Float[Tensor, "b t c"]) -> Float[Tensor, "b g n t"]:
        """W x of each token and key head, and below it u . x + b: before what tokens share."""
        if x.ndim != 3 or x.shape[-1] != self.dim or not x.is_floating_point():
            raise ShapeError(
                f"{self!r} got Context(x=...) of shape {tuple(x.shape)} and {x.dtype}: "
                f"floating-point (batch, tokens, {self.dim}) is needed, the layer's input"
            )
        wide = torch.promote_types(x.dtype, self.gate.weight.dtype)
        x = x.to(torch.promote_types(wide, torch.float32))
        with autocast_off(x.device):
            low = x if self.down is None else linear_in_dtype(x, self.down)
            direction = linear_in_dtype(low, self.up).unflatten(-1, (self.groups, -1))
            logit = linear_in_dtype(x, self.gate)[..., None]
            return torch.cat((direction, logit), dim=-1).permute(0, 2, 3, 1)

    def lower(
        self,
        positions: Positions,
        context: Context | None = None,
        *,
        dtype: torch.dtype = torch.float32,
    ) -> tuple[Term, ...]:
        if context is not None and context.own is not None:
            raise UnsupportedError(
                f"{self!r} multiplies by the tokens between a key and a query, so that queries "
                "must be the last of the keys: leave Context(own=...) away"
            )
        told, valid = self._told(positions, context), positions.keys.valid
        with autocast_off(told.device):
            if valid is not None:
                # What is not a number in padding would go into every later product.
                told = told.masked_fill(~valid[:, None, None], 0.0)
            x, logit = told[:, :, :-1], told[:, :, -1]
            mix = self.mix.to(x.dtype)[..., None]
            mixed = x * mix[:, :, 2]
            for back, earlier in enumerate(_earlier(x, positions), start=1):
                mixed = mixed + earlier * mix[:, :, 2 - back]
            w = F.silu(mixed).mT
            w = w * (w.square().sum(-1, keepdim=True) + _EPS).rsqrt()
            beta = 2 * logit.sigmoid()
            if valid is not None:
                beta = beta.masked_fill(~valid[:, None], 0.0)
        return (Householder(w, beta, self.heads),)

    def _told(self, positions: Positions, context: Context | None) -> Float[Tensor, "b g n tk"]:
        told = None if context is None else context.payload
        if told is None and context is not None and context.x is not None:
            told = self.payload(context.x)
        if told is None:
            raise PositionsError(f"{self!r} reads the layer's input: pass context=Context(x=...)")
        wanted = (self.groups, self.width + 1, positions.k_len)
        if told.ndim != 4 or told.shape[1:] != wanted:
            raise ShapeError(
                f"{self!r} has directions of shape {tuple(told.shape)}, but (batch, {wanted[0]}, "
                f"{wanted[1]}, {wanted[2]}) is needed: give Context(x=...) or the payload of every "
                "key"
            )
        return told

    def reference_scores(self, q: Queries, k: Keys, at: Pairs) -> Scores:
        assert at.context is not None
        assert at.context.x is not None
        x, d, shared = at.context.x, self.width, q.shape[1] // self.groups
        matrix = self.up.weight if self.down is None else self.up.weight @ self.down.weight
        moved, before = k.clone(), k.shape[2] - q.shape[2]
        total = at.scale * torch.einsum("bhid,bhjd->bhij", q, k)
        for t in range(k.shape[2]):
            for h in range(q.shape[1]):
                g = h // shared
                rows = slice(g * d, g * d + d)
                mixed = torch.zeros_like(x[:, t, :1])
                for s in range(min(3, t + 1)):
                    mixed = mixed + self.mix[g, :, 2 - s] * (x[:, t - s] @ matrix[rows].T)
                w = mixed * mixed.sigmoid()
                w = w / (w.square().sum(-1, keepdim=True) + _EPS).sqrt()
                beta = 2 * torch.sigmoid(x[:, t] @ self.gate.weight[g] + self.gate.bias[g])
                step = torch.eye(d, dtype=x.dtype) - beta[:, None, None] * (
                    w[:, :, None] * w[:, None, :]
                )
                # Every key before this token, by its matrix.
                earlier = moved[:, h, :t] @ step
                if t >= before:
                    last = q[:, h, t - before, None] @ earlier.mT
                    total[:, h, t - before, :t] = at.scale * last[:, 0]
                moved = moved.clone()
                moved[:, h, :t] = earlier
        return total


def _earlier(x: Float[Tensor, "b g d t"], positions: Positions) -> Iterator[Tensor]:
    """x of the token before each, and of the one before that: of its document, padding left out;
    0 where there is none."""
    keys, length = positions.keys, x.shape[-1]
    if keys.valid is None and keys.document is None:
        for back in (1, 2):
            yield F.pad(x, (back, 0))[..., :length]
        return
    before = _last_real(keys.valid, length, x.device)
    index = before
    for _ in range(2):
        found = index >= 0
        at = index.clamp(min=0)
        if keys.document is not None:
            own = keys.document.view(-1, length)
            own, at = own.expand(max(len(own), len(at)), -1), at.expand(max(len(own), len(at)), -1)
            found = found & (own.gather(-1, at) == own)
        rows = at[:, None, None].expand(x.shape)
        yield x.gather(-1, rows).masked_fill(~found[:, None, None], 0.0)
        index = torch.where(index < 0, -1, before.expand(at.shape).gather(-1, at))


def _last_real(valid: Tensor | None, length: int, device: torch.device) -> Int[Tensor, "#b t"]:
    """Of each token the last one before it that is no padding, -1 where there is none."""
    at = torch.arange(length, device=device)[None]
    if valid is not None:
        at = torch.where(valid, at, -1).cummax(dim=-1).values
    return F.pad(at, (1, 0), value=-1)[..., :length]
