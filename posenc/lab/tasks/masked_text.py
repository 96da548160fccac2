"""Say the hidden bytes of a text."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

import torch
from jaxtyping import Bool, Int64
from torch import Tensor, nn

from posenc.errors import SettingError
from posenc.lab.config import RunConfig
from posenc.lab.evaluate import losses, spans, windows
from posenc.lab.tasks.task import Batch, Row, Tell, missing
from posenc.lab.tasks.text import Text

MASK = 256


@dataclass(frozen=True, eq=False)
class MaskedText(Text):
    """d_f f(_): e, x: an encoder reads bytes of which a share is hidden, and says those.

    Of each text so many places are hidden, drawn anew in training. The loss is theirs, in nats per
    byte, of windows of each test length. In the source, BERT's way, some of them are not hidden but
    wrong or as they were.

    Source: Haviv et al. 2022, arXiv:2203.16634 (masked language models).
    """

    name: ClassVar[str] = "masked_text"
    causal: ClassVar[bool] = False

    share: float = 0.15

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0 < self.share <= 1:
            raise SettingError(f"masked_text(share={self.share}): it is a share, above 0 up to 1")

    @property
    def vocabulary(self) -> int:
        return MASK + 1

    def batch(self, config: RunConfig, generator: torch.Generator) -> Batch:
        text = super().batch(config, generator).tokens
        hidden = self.hidden(text, generator)
        return Batch(text.masked_fill(hidden, MASK), text, hidden)

    def hidden(self, text: Int64[Tensor, "b t"], generator: torch.Generator) -> Bool[Tensor, "b t"]:
        """The same number of places of each text, at least one."""
        count = max(1, round(self.share * text.shape[1]))
        chosen = torch.rand(text.shape, generator=generator).argsort(1)[:, :count]
        return torch.zeros_like(text, dtype=torch.bool).scatter(1, chosen, True)

    def evaluate(self, model: nn.Module, config: RunConfig, tell: Tell) -> Iterator[Row]:
        """The hidden bytes are the same for every model."""
        device = next(model.parameters()).device
        chosen = spans(self.test, max(config.test_lengths), config.spans)
        for done, length in enumerate(config.test_lengths, 1):
            text, _ = windows(chosen, length)
            hidden = self.hidden(text, torch.Generator().manual_seed(length))
            read = text.masked_fill(hidden, MASK)
            try:
                found = losses(model, read.to(device), text.to(device), config.heads)
            except Exception as error:
                if length <= config.train_length:
                    raise
                yield missing(length, error)
            else:
                found = found.cpu()[hidden]
                row = {"kind": "loss", "protocol": "windows", "length": length}
                loss = found.mean().item() if found.isfinite().all() else None
                yield row | {"tokens": found.numel(), "loss": loss}
            tell(done / len(config.test_lengths))
