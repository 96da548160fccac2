"""Who sees whom by order: rules, not matrices. `Positions.visible` applies them."""

from dataclasses import dataclass
from typing import get_args

import torch

from posenc.errors import whole

# Wider than any sequence; with orders below 2**61 no sum of them leaves 64 bits.
WIDEST = 2**62


@dataclass(frozen=True)
class Window:
    """See keys closer than `width`, oneself included.

    A width beyond WIDEST is taken for that, so that kernels may add orders to it.
    Raises SettingError for a width that is no whole number, 1 or more.
    """

    width: int

    def __post_init__(self) -> None:
        whole("Window", width=self.width)
        if self.width > WIDEST:
            object.__setattr__(self, "width", WIDEST)


@dataclass(frozen=True)
class Sink:
    """See the first `count` tokens of the document in spite of a window.

    Raises SettingError for a count that is no whole number, 0 or more.
    """

    count: int

    def __post_init__(self) -> None:
        whole("Sink", least=0, count=self.count)
        if self.count > WIDEST:
            object.__setattr__(self, "count", WIDEST)


@dataclass(frozen=True)
class Prefix:
    """See the first `count` tokens of the document in spite of causality.

    Raises SettingError for a count that is no whole number, 0 or more.
    """

    count: int

    def __post_init__(self) -> None:
        whole("Prefix", least=0, count=self.count)
        if self.count > WIDEST:
            object.__setattr__(self, "count", WIDEST)


@dataclass(frozen=True)
class Chunk:
    """See keys of one's own chunk of `width` orders: those with the same order // width.

    A width beyond WIDEST is taken for that, as of a Window.
    Raises SettingError for a width that is no whole number, 1 or more.
    """

    width: int

    def __post_init__(self) -> None:
        whole("Chunk", width=self.width)
        if self.width > WIDEST:
            object.__setattr__(self, "width", WIDEST)


MaskRule = Window | Sink | Prefix | Chunk

for _rule in get_args(MaskRule):
    torch.export.register_dataclass(_rule, serialized_type_name=f"posenc.{_rule.__name__}")
