from collections.abc import Iterator

import torch

from posenc.encoding import Context, Encoding, Keys, Pairs, Queries, Scores, Tags
from posenc.encodings.rotary import Rotary
from posenc.encodings.scaling import Linear
from posenc.positions import Positions
from posenc.terms import RotateValues, Term


class RotaryValues(Rotary):
    """RoPE on values, undone on the output: each value comes turned by its distance.

        out[m] = R[m]^T sum over n of p[m, n] R[n] v[n] = sum over n of p[m, n] R[n - m] v[n]

    with R of Rotary, whose settings these are; scores are left alone, so that alone it tells order
    by what is summed only. dim is the width of a head's values. Beside a Rotary of the same
    settings a token's key and value may be one tensor, turned and kept once (`LatentCache`):
    DeepSeek-V4 gives `[Rotary(512, layout="interleaved", rotary_dim=64, start=-64),
    RotaryValues(...)]` k and v alike, and lays compressed tokens and sparse choices on top, which
    posenc does not compute. A scaling changes frequencies here and its gain does nothing, for
    turned values keep their length. Raises what Rotary raises.

    Source: Su 2025, https://kexue.fm/archives/10862 (VO-RoPE), equation of "the new use"; earlier,
    RoPER of labml.ai; DeepSeek-V4 in transformers, `DeepseekV4Attention`.
    """

    name = "rotary_values"
    paper = "https://kexue.fm/archives/10862"
    tags = Tags(translation_invariant=True, norm_preserving=True)

    @classmethod
    def examples(cls) -> Iterator[Encoding]:
        yield cls(16)
        yield cls(20, base=500.0, layout="interleaved", rotary_dim=8, scaling=Linear(4.0), start=-8)

    def lower(
        self,
        positions: Positions,
        context: Context | None = None,
        *,
        dtype: torch.dtype = torch.float32,
    ) -> tuple[Term, ...]:
        turns = self.rotation(positions)
        return (RotateValues(turns.q_angle, turns.k_angle, turns.layout, turns.start),)

    def reference_scores(self, q: Queries, k: Keys, at: Pairs) -> Scores:
        return at.scale * torch.einsum("bhid,bhjd->bhij", q, k)

    def reference_output(self, p: Scores, v: Keys, at: Pairs) -> Queries:
        out = torch.einsum("bhij,bhjd->bhid", p, v)
        pairs = self.rotated_dim // 2
        for i, angle in enumerate(self.reference_angles(at).unbind(-1)):
            one, two = (i, i + pairs) if self.layout == "half" else (2 * i, 2 * i + 1)
            one, two = self.first + one, self.first + two
            value = torch.complex(v[..., one], v[..., two])[..., None, :]
            # The angle is that of the query against the key, and a value turns the other way.
            summed = (p * value * torch.polar(torch.ones_like(angle), -angle)).sum(dim=-1)
            out[..., one], out[..., two] = summed.real, summed.imag
        return out
