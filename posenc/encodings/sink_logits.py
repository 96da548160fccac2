from collections.abc import Iterator

import torch
from jaxtyping import Float
from torch import Tensor, nn

from posenc.encoding import Context, Encoding, Scores, Tags
from posenc.errors import finite, one_of, whole
from posenc.positions import Positions
from posenc.terms import SinkLogit, Term


class SinkLogits(Encoding):
    """Each head has a logit of its own in the softmax, to which a query may give its weight.

        p[i, j] = exp(score[i, j]) / (exp(sink[h]) + sum of exp(score[i, n]) over the visible n)

    The weights of a row add up to less than 1: the rest is the sink's, which has no value. It is no
    token, so it has no position, needs no cache and no window hides it; Sinks, by contrast, keeps
    first tokens visible. A row that sees no key is all zeros, and gives the sink no gradient.

    value is the logit of every head, before any training; learned=False fixes it: SinkLogits(heads,
    learned=False) divides by 1 + the sum of exp(score), the "softmax off by one". It tells no
    position, so give it beside an encoding that does: [Rotary(64), SinkLogits(heads=8)]. Raises
    SettingError for heads that are no whole number, 1 or more, and a value that is not finite.

    Source: gpt-oss, OpenAI 2025, arXiv:2508.10925, section 2.2; value 0: Miller 2023, "Attention Is
    Off By One", https://www.evanmiller.org/attention-is-off-by-one.html.
    """

    name = "sink_logits"
    family = "none"
    paper = "arXiv:2508.10925"
    sizes = ("heads",)
    tags = Tags(
        translation_invariant=True,
        norm_preserving=True,
        comparable="it tells no position: it is given beside an encoding that does",
    )

    def __init__(self, heads: int, value: float = 0.0, learned: bool = True) -> None:
        super().__init__()
        whole("SinkLogits", heads=heads)
        finite("SinkLogits", value=value)
        one_of("SinkLogits", (False, True), learned=learned)
        self.heads, self.value, self.learned = heads, value, learned
        self.logit = nn.Parameter(self._initial(torch.float32)) if learned else None

    @classmethod
    def examples(cls) -> Iterator[Encoding]:
        yield cls(6, value=0.5)
        yield cls(4, learned=False)

    def lower(
        self,
        positions: Positions,
        context: Context | None = None,
        *,
        dtype: torch.dtype = torch.float32,
    ) -> tuple[Term, ...]:
        if self.logit is not None:
            return (SinkLogit(self.logit),)
        return (SinkLogit(self._initial(dtype, positions.device)),)

    def _initial(
        self, dtype: torch.dtype, device: torch.device | None = None
    ) -> Float[Tensor, " h"]:
        return torch.full((self.heads or 1,), self.value, dtype=dtype, device=device)

    def reference_weights(self, s: Scores) -> Scores:
        logits = [self.value] * s.shape[1] if self.logit is None else self.logit
        sinks = torch.stack([torch.as_tensor(x, dtype=s.dtype).exp() for x in logits])
        weights = s.exp()
        return weights / (sinks[:, None, None] + weights.sum(dim=-1, keepdim=True))
