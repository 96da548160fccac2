from collections.abc import Iterator

import torch
from jaxtyping import Float64
from torch import Tensor, nn

from posenc.encoding import Context, Encoding, Keys, Pairs, Queries, Scores, Tags
from posenc.encodings._rotary import Angles
from posenc.errors import SettingError, positive, whole
from posenc.positions import Positions, one_axis
from posenc.terms import Rotate, Term, Transform


class GRAPE(Encoding):
    """Multiplicative GRAPE (GRAPE-M): each head turns in one plane of its own, which it learns.

        L = a b^T - b a^T,   G(n) = exp(n omega L),   score = scale * G(m) q . G(n) k

    with trained vectors a and b (heads, dim) and frequency omega = exp(log_omega) of each head, in
    radians per token where a and b are orthogonal and of length 1, as they start. L turns the plane
    of a and b by -omega sqrt(|a|^2 |b|^2 - (a . b)^2) per token, and all else passes (Rodrigues'
    formula, the paper's section 2.3): the terms are a basis that begins with this plane, and a
    rotation of one pair. The paper leaves open where omega starts; here head h starts with
    base**(-h/heads). Of several planes GRAPE-M is LearnedRotary where they are pairs of dimensions,
    as in the authors' models, and CayleySTRING in a learned basis. The additive GRAPE-A is ALiBi,
    or ForgetGate where tokens tell how much is added. Parameters stay float32 when the module is
    cast down; the plane and angles are float64. Raises SettingError for dim < 2 and settings <= 0.

    Source: Zhang et al. 2025, arXiv:2512.07805, sections 2.1 to 2.3.
    """

    name = "grape"
    family = "rotary"
    paper = "arXiv:2512.07805"
    sizes = ("head_dim", "heads")
    tags = Tags(translation_invariant=True, norm_preserving=True)
    keep_float32 = ("a", "b", "log_omega")

    def __init__(self, dim: int, heads: int, base: float = 10_000.0) -> None:
        super().__init__()
        whole("GRAPE", dim=dim, heads=heads)
        positive("GRAPE", base=base)
        if dim < 2:
            raise SettingError(f"GRAPE(dim={dim}): a plane has two dimensions")
        self.dim = self.head_dim = dim
        self.heads, self.base = heads, base
        a, b = torch.linalg.qr(torch.randn(heads, dim, 2))[0].unbind(-1)
        self.a, self.b = nn.Parameter(a.contiguous()), nn.Parameter(b.contiguous())
        steps = torch.arange(heads) / heads
        self.log_omega = nn.Parameter(-steps * torch.tensor(base).log())

    @classmethod
    def examples(cls) -> Iterator[Encoding]:
        yield cls(7, heads=4)

    def lower(
        self,
        positions: Positions,
        context: Context | None = None,
        *,
        dtype: torch.dtype = torch.float32,
    ) -> tuple[Term, ...]:
        basis, speed = self._plane()
        basis = basis[None, :, None, None].to(dtype)
        q, k = positions.queries.position, positions.keys.position
        k_angle = _angle(k, speed)
        q_angle = k_angle if q is k else _angle(q, speed)
        return Transform(basis, basis), Rotate(q_angle, k_angle, "half")

    def _plane(self) -> tuple[Float64[Tensor, "h d d"], Float64[Tensor, " h"]]:
        """An orthogonal matrix that begins with the plane of a and b, and its radians per token."""
        a, b = self.a.double(), self.b.double()
        one = a / a.norm(dim=-1, keepdim=True)
        rest = b - (one * b).sum(-1, keepdim=True) * one
        two = rest / rest.norm(dim=-1, keepdim=True)
        first = _mirror(one, 0)
        second = _mirror((first @ two[..., None])[..., 0], 1)
        speed = -self.log_omega.double().exp() * a.norm(dim=-1) * rest.norm(dim=-1)
        return torch.cat((one[:, None], two[:, None], (second @ first)[:, 2:]), dim=1), speed

    def reference_scores(self, q: Queries, k: Keys, at: Pairs) -> Scores:
        a, b = self.a.double()[..., None], self.b.double()[..., None]
        generator = torch.exp(self.log_omega.double())[:, None, None] * (a @ b.mT - b @ a.mT)
        back = at.q[:, None, :, None] - at.k[:, None, None, :]
        scores = q.new_zeros(*q.shape[:3], k.shape[2])
        for i in range(q.shape[2]):
            for j in range(k.shape[2]):
                turn = torch.linalg.matrix_exp(back[:, :, i, j, None, None] * generator)
                turned = (turn @ q[:, :, i, :, None])[..., 0]
                scores[:, :, i, j] = (turned * k[:, :, j]).sum(-1)
        return at.scale * scores


def _angle(coordinates: Tensor, speed: Float64[Tensor, " h"]) -> Angles:
    tokens = one_axis(coordinates, "GRAPE").double()
    return tokens.view(-1, 1, tokens.shape[-1], 1) * speed[:, None, None]


def _mirror(x: Float64[Tensor, "h d"], place: int) -> Float64[Tensor, "h d d"]:
    """The reflection that takes a vector of length 1 to the axis of this place, or against it."""
    axis = torch.zeros_like(x)
    axis[:, place] = 1.0
    # Away from the nearer end, so that the mirror is told exactly.
    normal = x + torch.where(x[:, place, None] < 0, -axis, axis)
    normal = normal / normal.norm(dim=-1, keepdim=True)
    one = torch.eye(x.shape[-1], dtype=x.dtype, device=x.device)
    return one - 2 * normal[:, :, None] * normal[:, None, :]
