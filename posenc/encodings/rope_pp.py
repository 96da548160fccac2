import math
from collections.abc import Iterator, Sequence
from dataclasses import replace

import torch
from jaxtyping import Float64
from torch import Tensor

from posenc.encoding import Encoding, Keys, Pairs, Queries, Scores
from posenc.encodings.rotary import Rotary
from posenc.encodings.scaling import Scaling, YaRN
from posenc.errors import SettingError, is_whole, listed, whole
from posenc.positions import Positions
from posenc.terms import Layout, Rotate


class RoPEPlusPlus(Rotary):
    """RoPE++: some heads take the imaginary part of the product of which RoPE takes the real one.

        z[m, n] = sum over i of q[m, i] * conj(k[n, i]) * exp(1j * (m - n) * base**(-2i/dim))
        score   = scale * Re z in a real head, scale * Im z in an imaginary one

    where pair i of q and of k is a complex number. Im z is Re z of a query that turned by a quarter
    less, so keys turn as in RoPE. It is 0 of equal vectors at the same position, and reaches
    farther. imaginary lists the heads that take it (None: 1, 3, 5, ..., as the authors' code has
    them). Their two models give each query to a real head and the imaginary one behind it,
    `q = q.repeat_interleave(2, dim=1)`, both of which read one key head: with equal cache
    (RoPE++_EC) that doubles the heads of RoPE, with equal heads (RoPE++_EH) it halves queries,
    keys and values. layout and scaling are as in Rotary. Raises SettingError for an odd dim,
    heads < 1, heads listed twice or not there, and a scaling that does not fit.

    Source: Liu et al. 2025, arXiv:2512.07525, and the authors' code, OpenMOSS/rope_pp.
    """

    name = "rope_pp"
    paper = "arXiv:2512.07525"
    sizes = ("head_dim", "heads")

    def __init__(
        self,
        dim: int,
        heads: int,
        imaginary: Sequence[int] | None = None,
        base: float = 10_000.0,
        layout: Layout = "half",
        scaling: Scaling | None = None,
    ) -> None:
        super().__init__(dim, base, layout, scaling=scaling)
        whole("RoPEPlusPlus", heads=heads)
        self.heads = heads
        self.imaginary = None if imaginary is None else listed("RoPEPlusPlus", imaginary=imaginary)
        self._turned = tuple(range(1, heads, 2)) if self.imaginary is None else self.imaginary
        known = set(self._turned) & set(range(heads))
        if len(known) < len(self._turned) or not all(map(is_whole, self._turned)):
            raise SettingError(
                f"RoPEPlusPlus(heads={heads}, imaginary={imaginary!r}): give each head once, "
                f"0 to {heads - 1}"
            )

    @classmethod
    def examples(cls) -> Iterator[Encoding]:
        yield cls(16, heads=4)
        yield cls(10, heads=3, imaginary=(0,), layout="interleaved", scaling=YaRN(4.0, 64))

    def rotation(self, positions: Positions) -> Rotate:
        rotate = super().rotation(positions)
        back = torch.zeros(1, self.heads or 1, 1, 1, dtype=torch.float64)
        back[:, list(self._turned)] = math.pi / 2
        return replace(rotate, q_angle=rotate.q_angle - back.to(positions.device))

    def reference_scores(self, q: Queries, k: Keys, at: Pairs) -> Scores:
        angles, pairs = self.reference_angles(at), self.dim // 2
        z: Tensor | Float64[Tensor, "b h tq tk"] = torch.zeros(())
        for i in range(pairs):
            one, two = (i, i + pairs) if self.layout == "half" else (2 * i, 2 * i + 1)
            q_pair, k_pair = (torch.complex(x[..., one], x[..., two]) for x in (q, k))
            product = q_pair[..., :, None] * k_pair.conj()[..., None, :]
            z = z + product * torch.exp(1j * angles[..., i])
        gains = [self._rule.reference_gain(length) for length in self._reference_lengths(at)]
        z = z * at.scale * at.q.new_tensor(gains).view(-1, 1, 1, 1)
        heads = [z[:, h].imag if h in self._turned else z[:, h].real for h in range(q.shape[1])]
        return torch.stack(heads, dim=1)
