from collections.abc import Iterator

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from posenc.encoding import Context, Encoding, Keys, Pairs, Queries, Scores, Tags
from posenc.encodings._weights import linear_in_dtype
from posenc.errors import PositionsError, ShapeError, finite, whole
from posenc.positions import Positions
from posenc.terms import Offset, Term
from posenc.torch_modes import autocast_off


class ForgetGate(Encoding):
    """Each token says by how much every later query forgets what came before it.

        f[t] = sigmoid(w[h] . x[t] + b[h])
        score[i, j] = scale * q[i] . k[j] + sum over l = j + 1 .. i of log f[l]

    x is the input of the attention layer, of width dim (c): a call needs context=Context(x=...) and
    causal attention, and its queries are the last of the keys. bias is where b starts, f then near
    sigmoid(bias). Logs of gates are made in at least float32 and summed in float64; a cache keeps
    them, one per head and token. Transformer(encoding=lambda layer: ForgetGate(...)) gives each
    layer its own gates. Raises SettingError for dim or heads < 1, ShapeError for x of another width
    or of another number of tokens than the keys.

    Source: Lin et al. 2025, arXiv:2503.02130, section 3 (the Forgetting Transformer, FoX).
    """

    name = "forget_gate"
    family = "content"
    paper = "arXiv:2503.02130"
    sizes = ("model_dim", "heads")
    tags = Tags(
        causal_only=True, needs_context=True, translation_invariant=True, norm_preserving=True
    )
    payload_adds = True

    def __init__(self, dim: int, heads: int, bias: float = 0.0) -> None:
        super().__init__()
        whole(type(self).__name__, dim=dim, heads=heads)
        finite(type(self).__name__, bias=bias)
        self.dim, self.heads, self.bias = dim, heads, bias
        self.model_dim = dim
        self.gate = nn.Linear(dim, heads)
        nn.init.normal_(self.gate.weight, std=0.02)
        nn.init.constant_(self.gate.bias, bias)

    @classmethod
    def examples(cls) -> Iterator[Encoding]:
        yield cls(16, heads=4)
        yield cls(24, heads=3, bias=2.0)

    def payload(self, x: Float[Tensor, "b t c"]) -> Float[Tensor, "b h t"]:
        """log f of each token, in at least float32 whatever the model's dtype."""
        if x.ndim != 3 or x.shape[-1] != self.dim or not x.is_floating_point():
            raise ShapeError(
                f"{self!r} got Context(x=...) of shape {tuple(x.shape)} and {x.dtype}: "
                f"floating-point (batch, tokens, {self.dim}) is needed, the layer's input"
            )
        wide = torch.promote_types(x.dtype, self.gate.weight.dtype)
        dtype = torch.promote_types(wide, torch.float32)
        with autocast_off(x.device):
            logit = linear_in_dtype(x.to(dtype), self.gate)
            return self._log_gate(logit).transpose(1, 2)

    def _log_gate(self, logit: Tensor) -> Tensor:
        return F.logsigmoid(logit)

    def lower(
        self,
        positions: Positions,
        context: Context | None = None,
        *,
        dtype: torch.dtype = torch.float32,
    ) -> tuple[Term, ...]:
        log_f, valid = self._log_gates(positions, context), positions.keys.valid
        if valid is not None:
            # A sum would carry what is not a number in padding to every later token.
            log_f = log_f.masked_fill(~valid[:, None], 0.0)
        # Summed in float32, differences are 2e-3 off at 32 thousand tokens.
        total = log_f.double().cumsum(dim=-1)
        last = total[..., positions.k_len - positions.q_len :]
        own = None if context is None else context.own
        return (Offset(last if own is None else total.index_select(-1, own), -total),)

    def _log_gates(self, positions: Positions, context: Context | None) -> Float[Tensor, "b h tk"]:
        log_f = None if context is None else context.payload
        if log_f is None and context is not None and context.x is not None:
            log_f = self.payload(context.x)
        if log_f is None:
            raise PositionsError(f"{self!r} reads the layer's input: pass context=Context(x=...)")
        if log_f.ndim != 3 or log_f.shape[1:] != (self.heads, positions.k_len):
            raise ShapeError(
                f"{self!r} has gates of shape {tuple(log_f.shape)}, but (batch, {self.heads}, "
                f"{positions.k_len}) is needed: give Context(x=...) or the payload of every key"
            )
        return log_f

    def reference_scores(self, q: Queries, k: Keys, at: Pairs) -> Scores:
        assert at.context is not None
        assert at.context.x is not None
        gates = torch.sigmoid(at.context.x @ self.gate.weight.T + self.gate.bias)
        total = at.scale * torch.einsum("bhid,bhjd->bhij", q, k)
        before = k.shape[2] - q.shape[2]
        for i in range(q.shape[2]):
            for j in range(before + i):
                kept = gates[:, j + 1 : before + i + 1].prod(dim=1)
                total[:, :, i, j] += kept.log()
        return total
