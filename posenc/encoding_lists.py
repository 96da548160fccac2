"""Lists of encodings, as modules own them."""

from collections.abc import Sequence
from typing import cast

from torch import nn

from posenc.encoding import Encoding
from posenc.errors import UnsupportedError
from posenc.lowering import Lowerable, check_fits, flatten


def encodings_in(encoding: Lowerable, owner: str) -> list[Encoding]:
    """The encodings of a list, where a module is to own them: terms and documents are refused."""
    parts = flatten(encoding)
    found = [part for part in parts if isinstance(part, Encoding)]
    if len(found) < len(parts):
        raise UnsupportedError(
            f"{owner} owns encodings; terms and Documents belong to one call: "
            "pass them to attend, or build Positions and pass these"
        )
    return found


def fitting(
    encoding: Encoding | Sequence[Encoding] | None, owner: str, heads: int, head_dim: int
) -> nn.ModuleList:
    """The encodings that `owner` was given, if they suit its heads."""
    parts = encodings_in(encoding, owner)
    for part in parts:
        check_fits(part, heads=heads, head_dim=head_dim)
    return nn.ModuleList(parts)


def owned(encodings: nn.ModuleList) -> list[Encoding]:
    """The members of a list that holds encodings only, which ModuleList's type does not tell."""
    return cast(list[Encoding], list(encodings))
