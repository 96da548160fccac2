"""Scores between equal tokens: how they fall with distance, and whether they tell direction."""

from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float, Float64, Int64, Real
from torch import Tensor

from posenc.analysis.measure.tables import inner_products, position_table
from posenc.analysis.probe_context import context_of_one_token, device_of, sizes_for
from posenc.attention_parts import scores
from posenc.encoding import Encoding
from posenc.errors import ShapeError
from posenc.lowering import embeds_only
from posenc.positions import Positions


@dataclass(frozen=True, eq=False)
class ByDistance:
    """Scores of a (t, t) matrix gathered by distance k - q = -(t - 1) .. t - 1.

    distance  the 2t - 1 distances
    mean      of the scores that have it, nan where none is visible
    spread    largest minus smallest of them: 0 throughout where scores depend on distance alone
    """

    distance: Int64[Tensor, "n"]
    mean: Float64[Tensor, "*batch n"]
    spread: Float64[Tensor, "*batch n"]


@dataclass(frozen=True, eq=False)
class Decay:
    """How a curve falls with distance, or does not.

    upper      the least curve above it that never rises: max over m >= n of curve[m]
    lower      the greatest curve below it that never falls: min over m >= n of curve[m]
    crossings  where it crosses zero, in tokens, interpolated between whole distances
    rises      the distances n from which it rises to n + 1
    monotone   whether it never rises, so that nearer always means a larger score
    """

    upper: Float64[Tensor, "t"]
    lower: Float64[Tensor, "t"]
    crossings: Float64[Tensor, "zeros"]
    rises: Int64[Tensor, "rises"]
    monotone: bool


def cosine_sum(
    frequencies: Float[Tensor, "*batch r"], distance: Real[Tensor, "n"]
) -> Float64[Tensor, "*batch n"]:
    """sum over i of cos(w[i] k) at distances k (n,), for frequencies w in radians per token.

    The inner product of two sinusoidal positions k apart, and half the score of q = k = ones under
    RoPE. It starts at r, and oscillates while it falls.

        cosine_sum(frequencies(pe.Rotary(64)), torch.arange(512))   # (1, 512)

    Source: Vaswani et al. 2017, arXiv:1706.03762, section 3.5.
    """
    angle = frequencies.detach().double()[..., None] * distance.double()
    return angle.cos().sum(dim=-2)


def abel_bound(
    frequencies: Float[Tensor, "*batch r"], distance: Real[Tensor, "n"]
) -> Float64[Tensor, "*batch n"]:
    """RoFormer's bound on how a score can fall: the mean over j of |S[j]| at each distance k (n,).

        S[j] = sum over i < j of exp(1j * k * w[i]),   j = 1 .. r

    By Abel's summation |score| is at most r max |h[i+1] - h[i]| times it, where h[i] are the
    complex products of the pairs of q and k, and h[r] = 0. The paper's figure 2 is this curve. It
    is not monotone either.

        abel_bound(frequencies(pe.Rotary(64)), torch.arange(512))   # (1, 512)

    Source: Su et al. 2021, arXiv:2104.09864, section 3.4.3, equations 35 to 37.
    """
    angle = frequencies.detach().double()[..., None] * distance.double()
    partial = torch.polar(torch.ones_like(angle), angle).cumsum(dim=-2)
    return partial.abs().mean(dim=-2)


def token_scores(
    encoding: Encoding,
    positions: Positions | int,
    q: Float[Tensor, "h d"] | None = None,
    k: Float[Tensor, "h d"] | None = None,
    *,
    scale: float = 1.0,
) -> Float64[Tensor, "h tq tk"]:
    """Scores where every query is q and every key is k, ones if not given: position alone is left.

    -inf where a key is not visible. A number of tokens stands for plain positions without
    causality, or with it where the encoding is causal only. Of an absolute encoding take
    `inner_products(position_table(...))` instead. Raises what `posenc.scores` raises.

        token_scores(pe.ALiBi(8), 16)[0, 5]   # the first head's penalties, seen from token 5

    Source: q = k = ones is the common picture of RoFormer's decay, arXiv:2104.09864, figure 2.
    """
    if isinstance(positions, int):
        causal = encoding.tags.causal_only
        positions = Positions.build(positions, causal=causal, device=device_of(encoding))
    shape = (encoding.heads or 1, sizes_for(encoding).head_dim)
    like = next((x for x in (q, k) if x is not None), torch.ones(shape, device=positions.device))
    ones = torch.ones_like(like, dtype=torch.float64)
    q, k = (ones if x is None else x.detach().double() for x in (q, k))
    matrix = scores(
        q[None, :, None].expand(-1, -1, positions.q_len, -1),
        k[None, :, None].expand(-1, -1, positions.k_len, -1),
        encoding,
        scale=scale,
        positions=positions,
        context=context_of_one_token(encoding, positions.k_len),
    )
    return matrix.detach()[0]


def equal_scores(encoding: Encoding, length: int) -> Float64[Tensor, "h t t"]:
    """What position makes of the score of every two tokens, if the tokens are equal.

    Of an absolute encoding it is p[i] . p[j], `inner_products` of its `position_table`, one head;
    of any other the `token_scores` of q = k = ones, -inf where a key is not visible.
    """
    if embeds_only(encoding):
        return inner_products(position_table(encoding, length))[None]
    return token_scores(encoding, length)


def score_curve(
    encoding: Encoding,
    length: int,
    q: Float[Tensor, "h d"] | None = None,
    k: Float[Tensor, "h d"] | None = None,
    *,
    scale: float = 1.0,
) -> Float64[Tensor, "h t"]:
    """The score of the last query with a key n tokens back, n = 0 .. length - 1, as `token_scores`.

    Linear in the length, where the whole matrix is quadratic. Raises what `token_scores` raises.

        score_curve(pe.Rotary(64), 512)[0]   # falls from 64, as in RoFormer's figure 2
    """
    positions = Positions.build(1, length, causal=True, device=device_of(encoding))
    return token_scores(encoding, positions, q, k, scale=scale)[:, 0].flip(-1)


def decay(curve: Float[Tensor, "t"]) -> Decay:
    """How a curve over distances 0, 1, 2, ... falls: its envelope, zeros and rises.

    Keys that are not visible (-inf) are left out: what follows them is compared with what was
    before. Steps within 1e-12 of the largest value are rounding, and rise nowhere.

        decay(score_curve(pe.ALiBi(8), 512)[0]).monotone   # True
    """
    value = curve.detach().double()
    seen = _finite(value)
    upper = value.flip(0).cummax(0).values.flip(0)
    lower = value.where(seen, torch.inf).flip(0).cummin(0).values.flip(0)
    distance, value = seen.nonzero().flatten(), value[seen]
    rises = distance
    if len(distance):
        rises = distance[:-1][value.diff() > 1e-12 * value.abs().amax()]
    return Decay(upper, lower, _zeros(distance, value), rises, len(rises) == 0)


def by_distance(matrix: Float[Tensor, "*batch t t"]) -> ByDistance:
    """Scores by distance k - q; what is not visible (-inf) counts nowhere.

    A spread of 0 is what a relative encoding promises: RoFormer, arXiv:2104.09864, equation 11.
    Raises ShapeError for a matrix that is not square.

        by_distance(token_scores(pe.Rotary(64), 32)).spread.max()   # rounding
    """
    length = _square(matrix, "by_distance")
    value = matrix.detach().double()
    distance = torch.arange(1 - length, length, device=value.device)
    means, spreads = [], []
    for step in range(1 - length, length):
        entries = value.diagonal(step, -2, -1)
        seen = _finite(entries)
        count = seen.sum(dim=-1)
        means.append(entries.where(seen, 0.0).sum(dim=-1) / count)
        most = entries.where(seen, -torch.inf).amax(dim=-1)
        least = entries.where(seen, torch.inf).amin(dim=-1)
        spreads.append((most - least).where(count > 0, torch.nan))
    return ByDistance(distance, torch.stack(means, dim=-1), torch.stack(spreads, dim=-1))


def direction_sensitivity(matrix: Float[Tensor, "*batch t t"]) -> Float64[Tensor, "*batch"]:
    """The largest |s[i, j] - s[j, i]| among pairs that see each other.

    0 where a token before and the same token after score alike, as sinusoidal inner products do,
    and ALiBi. Use scores without a causal mask: with it no two tokens see each other, and the mask
    itself tells the direction. Raises ShapeError for a matrix that is not square.

        direction_sensitivity(equal_scores(pe.Sinusoidal(64), 32))   # rounding

    Source: Yan et al. 2019, arXiv:1911.04474 (TENER), which finds sinusoids blind to direction.
    """
    _square(matrix, "direction_sensitivity")
    value = matrix.detach().double()
    mutual = _finite(value) & _finite(value.mT)
    return (value - value.mT).abs().where(mutual, 0.0).amax(dim=(-2, -1))


def _zeros(distance: Int64[Tensor, "n"], value: Float64[Tensor, "n"]) -> Float64[Tensor, "zeros"]:
    """Zeros met at a whole distance, and sign changes between two of them."""
    before, after = value[:-1], value[1:]
    between = (before * after < 0).nonzero().flatten()
    share = (before / (before - after))[between]
    crossed = distance[between] + share * (distance[between + 1] - distance[between])
    return torch.cat((crossed, distance[value == 0].double())).sort().values


def _finite(value: Float64[Tensor, "*shape"]) -> Bool[Tensor, "*shape"]:
    return value > -torch.inf


def _square(matrix: Tensor, called: str) -> int:
    if matrix.shape[-1] != matrix.shape[-2]:
        raise ShapeError(
            f"{called} got scores of shape {tuple(matrix.shape)}: every token must be query and "
            "key, (..., t, t)"
        )
    return matrix.shape[-1]
