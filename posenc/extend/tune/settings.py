"""What a person chooses of training: plain values."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace

from posenc.errors import SettingError, given, positive, whole

RANK = 8
# What a few cores train in seconds a step.
WINDOW = 512
LORA_RATE, FULL_RATE = 5e-4, 2e-5
FULL = "full"

_ORDER = "it tells tokens apart by their order in the input, which position_ids do not change"
# Methods that cannot be trained on short windows, each with the reason.
UNTUNABLE: Mapping[str, str] = {
    "dynamic": "it turns by the length of the input, and windows that skip ahead are short",
    "longrope2": "it turns long inputs otherwise than short ones, and windows are short",
    "self_extend": _ORDER,
    "rerope": _ORDER,
    "lm_infinite": _ORDER,
    "sinks": _ORDER,
}


@dataclass(frozen=True)
class Tuning:
    """How a method is trained on: so many steps of one window of text.

    length is in tokens, None for the trained length or 512, whichever is less; rank is that of
    LoRA, None for all weights; rate is AdamW's, None for 5e-4 with LoRA and 2e-5 with all weights.
    Raises SettingError for values that no training can have.
    """

    steps: int
    length: int | None = None
    rate: float | None = None
    rank: int | None = RANK

    def __post_init__(self) -> None:
        whole("extend --tune", steps=self.steps)
        # A window of two chunks predicts one token at least.
        whole("extend --tune-length", 3, **given(length=self.length))
        whole("extend --tune-rank", **given(rank=self.rank))
        positive("extend --tune-lr", **given(rate=self.rate))

    def settled(self, trained: int, target: int) -> "Tuning":
        """The same with every default filled in, for a model and the farthest length to reach.

        Raises SettingError for windows that are longer than that.
        """
        length = min(trained, WINDOW) if self.length is None else self.length
        if length > target:
            raise SettingError(
                f"extend --tune-length {length}: positions of a window lie within the farthest "
                f"length of --to, {target}; give no more than that"
            )
        rate = (FULL_RATE if self.rank is None else LORA_RATE) if self.rate is None else self.rate
        return replace(self, length=length, rate=rate)

    def tokens(self, parts: int) -> int:
        """How many tokens each part of a text gives, so that no window is read twice."""
        assert self.length is not None
        return math.ceil(self.steps / parts) * self.length

    def words(self) -> list[str]:
        """The options of the command that say this."""
        words = ["--tune", str(self.steps)]
        words += [] if self.length is None else ["--tune-length", str(self.length)]
        words += [] if self.rate is None else ["--tune-lr", repr(self.rate)]
        return [*words, "--tune-rank", FULL if self.rank is None else str(self.rank)]


def tunable(methods: tuple[str, ...]) -> tuple[str, ...]:
    """Those of the methods that can be trained on. Raises SettingError where none can."""
    kept = tuple(name for name in methods if name not in UNTUNABLE)
    if not kept:
        said = "; ".join(f"{name}: {UNTUNABLE[name]}" for name in methods)
        raise SettingError(
            f"extend --tune with --methods {','.join(methods)}: none of them can be trained on "
            f"({said}); name one that turns each token by its position, as yarn does"
        )
    return kept
