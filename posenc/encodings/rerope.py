import math
from collections.abc import Iterator

import torch
from jaxtyping import Float64
from torch import Tensor

from posenc.encoding import Encoding, Pairs
from posenc.encodings._rotary import TwoZones
from posenc.errors import SettingError, finite, given, whole
from posenc.terms import Layout


class ReRoPE(TwoZones):
    """RoPE up to a window; beyond it every distance counts as the window, or grows slowly.

        distance(m, n) = m - n                        where m - n < window
                         window                       beyond, or with a leak
                         window + (m - n - window) / leak

        score = scale * q[m] . R[-distance] k[n],   turning as in Rotary

    A model so reads any length by distances that it was trained on; window is in tokens, also
    where explicit positions leave gaps, about half of the training length. leak is the factor by
    which distances beyond the window shrink (None: infinite, they are clipped). Causal only;
    decoding needs Cache("raw"). The authors' code also multiplies scores by Temperature("log_n"):
    give it beside. Raises SettingError for an odd dim, window < 1 or leak < 1.

    Source: Su 2023, https://kexue.fm/archives/9708 (ReRoPE and Leaky ReRoPE), and bojone/rerope.
    """

    name = "rerope"
    paper = "https://kexue.fm/archives/9708"

    def __init__(
        self,
        dim: int,
        window: int,
        leak: float | None = None,
        base: float = 10_000.0,
        layout: Layout = "half",
    ) -> None:
        super().__init__(dim, window, base, layout)
        whole("ReRoPE", window=window)
        finite("ReRoPE", **given(leak=leak))
        if leak is not None and leak < 1:
            raise SettingError(
                f"ReRoPE(leak={leak}): distances beyond the window shrink by it, so leak must be "
                "at least 1 (1 is plain RoPE, None clips them)"
            )
        self.leak = leak

    @classmethod
    def for_model(cls, *, head_dim: int, train_length: int, **_: object) -> Encoding:
        return cls(head_dim, window=max(1, train_length // 2))

    @classmethod
    def examples(cls) -> Iterator[Encoding]:
        yield cls(16, window=3)
        yield cls(12, window=4, leak=2.5, base=500.0, layout="interleaved")

    def far(self, q: Tensor, k: Tensor) -> tuple[Tensor, Tensor]:
        leak = math.inf if self.leak is None else self.leak
        return q.double() / leak + (self.window - self.window / leak), k.double() / leak

    def reference_back(self, at: Pairs) -> Float64[Tensor, "b 1 tq tk"]:
        back, window = -at.distance(), self.window
        far = torch.full_like(back, window)
        if self.leak is not None:
            far = window + (back - window) / self.leak
        return torch.where(self.near(at), back, far)
