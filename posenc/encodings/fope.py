import math
from collections.abc import Iterator
from typing import Literal, get_args

import torch
from jaxtyping import Float64
from torch import Tensor, nn

from posenc.encoding import Encoding, Keys, Pairs, Queries, Scores, Tags
from posenc.encodings._rotary import RotaryEncoding, angle, geometric
from posenc.errors import SettingError, finite, given, one_of, whole
from posenc.positions import Positions
from posenc.terms import Layout, Rotate

Below = Literal["ones", "still"]
# In place of an amplitude of 0, which has no logarithm.
_LEAST = 1e-30


class FoPE(RotaryEncoding):
    """RoPE whose pairs turn by Fourier series, and those below the floor not at all.

        c[pos, h, j] = sum over i of cos(pos * theta[i]) * cos_coef[h, i, j],   s likewise of sin
        (x1, x2)     -> (x1 c - x2 s, x1 s + x2 c)      in pair j

    theta[i] = base**(-2i/dim) radians per token, of those pairs alone that go all the way round in
    `length` tokens, theta > 2 pi/length: the floor. c and s are an angle and an amplitude that
    differ by position. series is how many pairs take one (None: as many as frequencies were
    kept). The others have c = s = 1 (below="ones": as trained, in the authors' code and in
    Intern-S1-Pro's), an eighth of a turn and sqrt(2) long, or c = 1 and s = 0 (below="still": the
    paper's frequency of zero). heads None shares one series; key_heads None counts as heads, and
    with fewer the heads of a group have one, as Intern-S1-Pro does, so that keys can be cached
    turned. The coefficients, (heads, i, j), are the identity, or steps through it, plus gain times
    Xavier's normal noise of `seed`: fixed parameters, kept in checkpoints, in float32. The
    authors' code has series=dim//4, and may divide each series by the sum of its coefficients.
    Raises SettingError for an odd dim, a length in which no pair goes round, a series of more pairs
    than there are, key_heads that do not divide heads, and settings <= 0 (gain < 0).

    Source: Hua et al. 2024, arXiv:2412.17739, and the authors' code; vLLM's fope.py (#33636).
    """

    name = "fope"
    paper = "arXiv:2412.17739"
    sizes = ("head_dim", "train_length", "heads")
    tags = Tags()
    keep_float32 = ("cos_coef", "sin_coef")

    def __init__(
        self,
        dim: int,
        length: int,
        heads: int | None = None,
        key_heads: int | None = None,
        base: float = 10_000.0,
        layout: Layout = "half",
        series: int | None = None,
        below: Below = "ones",
        gain: float = 0.3,
        seed: int = 0,
    ) -> None:
        super().__init__(dim, base, layout)
        whole("FoPE", length=length, **given(heads=heads, key_heads=key_heads, series=series))
        whole("FoPE", 0, seed=seed)
        finite("FoPE", gain=gain)
        one_of("FoPE", get_args(Below), below=below)
        self.length, self.heads, self.key_heads = length, heads, key_heads
        self.series, self.gain, self.seed = series, gain, seed
        self.below: Below = below
        # Drawn, and counted, on a CPU: a default device may hold no numbers, as "meta" does.
        cpu = torch.device("cpu")
        kept = int((geometric(base, dim, cpu) > 2 * math.pi / length).sum())
        width = kept if series is None else series
        if kept == 0 or width > dim // 2:
            raise SettingError(
                f"FoPE(dim={dim}, length={length}, base={base}, series={series}): {kept} of "
                f"{dim // 2} pairs go round within the length, and series is at most {dim // 2}: "
                "give the length of training, 7 or more"
            )
        if key_heads is not None and (heads is None or heads % key_heads):
            raise SettingError(
                f"FoPE(heads={heads}, key_heads={key_heads}): heads must be a multiple of key_heads"
            )
        if gain < 0:
            raise SettingError(f"FoPE(gain={gain}): 0 or more is needed")
        shape = (heads if key_heads is None else key_heads) or 1, kept, width
        generator = torch.Generator("cpu").manual_seed(seed)
        drawn = torch.randn(2, *shape, generator=generator, device=cpu)
        drawn = drawn * gain * math.sqrt(2 / (kept + width))
        # Each series has a frequency of its own where there are as many, else one in so many.
        step = -(-kept // width)
        own = torch.arange(-(-kept // step), device=cpu)
        drawn[..., own * step, own] += 1.0
        # torch 2.7 tells of no device that a context chose, but makes tensors there.
        cos_coef, sin_coef = (x.to(torch.empty(0).device, copy=True) for x in drawn)
        self.cos_coef = nn.Parameter(cos_coef, requires_grad=False)
        self.sin_coef = nn.Parameter(sin_coef, requires_grad=False)

    @classmethod
    def for_model(cls, *, head_dim: int, train_length: int, heads: int, **_: object) -> Encoding:
        return cls(head_dim, max(train_length, 7), heads)

    @classmethod
    def examples(cls) -> Iterator[Encoding]:
        yield cls(16, length=64, heads=4)
        yield cls(12, length=20, base=500.0, layout="interleaved", series=2, below="still")

    def rotation(self, positions: Positions) -> Rotate:
        q, k = positions.one_axis("FoPE")
        k_angle, k_log = self._series(k)
        q_angle, q_log = (k_angle, k_log) if q is k else self._series(q)
        if self.key_heads is not None and self.heads is not None:
            group = self.heads // self.key_heads
            q_angle, q_log = (x.repeat_interleave(group, dim=1) for x in (q_angle, q_log))
        return Rotate(
            q_angle, k_angle, self.layout, q_log_scale=q_log, k_log_scale=k_log, bounded=True
        )

    def _series(self, coordinates: Tensor) -> tuple[Tensor, Tensor]:
        """The angle of every pair, and the logarithm of its amplitude: (1|b, 1|h, t, r)."""
        kept, pairs = self.cos_coef.shape[1], self.dim // 2
        turned = angle(coordinates, geometric(self.base, self.dim, coordinates.device)[:kept])
        c = turned.cos() @ self.cos_coef.double()
        s = turned.sin() @ self.sin_coef.double()
        rest = pairs - c.shape[-1]
        eighth, root = (math.pi / 4, math.log(2) / 2) if self.below == "ones" else (0.0, 0.0)
        pad = torch.nn.functional.pad
        log = 0.5 * (c * c + s * s).clamp_min(_LEAST).log()
        return pad(torch.atan2(s, c), (0, rest), value=eighth), pad(log, (0, rest), value=root)

    def reference_scores(self, q: Queries, k: Keys, at: Pairs) -> Scores:
        turned = (self._turned(q, at.q), self._turned(k, at.k))
        return at.scale * torch.einsum("bhid,bhjd->bhij", *turned)

    def _turned(self, x: Queries, places: Float64[Tensor, "b t"]) -> Queries:
        """x as the paper multiplies it by its two series, pair by pair."""
        kept, width = self.cos_coef.shape[1:]
        out, pairs = x.clone(), self.dim // 2
        for j in range(pairs):
            one, two = (j, j + pairs) if self.layout == "half" else (2 * j, 2 * j + 1)
            c = torch.ones_like(places)[:, None]
            s = c if self.below == "ones" else torch.zeros_like(c)
            if j < width:
                waves = [places * self.base ** (-2 * i / self.dim) for i in range(kept)]
                each = list(enumerate(waves))
                c = sum(w.cos()[:, None] * self.cos_coef[:, i, j, None].double() for i, w in each)
                s = sum(w.sin()[:, None] * self.sin_coef[:, i, j, None].double() for i, w in each)
            out[..., one] = x[..., one] * c - x[..., two] * s
            out[..., two] = x[..., one] * s + x[..., two] * c
        return out
