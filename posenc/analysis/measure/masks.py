"""Who sees whom, in one layer and through several."""

import torch
from jaxtyping import Bool, Int64
from torch import Tensor

from posenc.analysis.probe_context import context_of_one_token, device_of
from posenc.encoding import Encoding
from posenc.equation import mask_rules
from posenc.errors import SettingError
from posenc.lowering import Lowerable, embeds_only, flatten, lower
from posenc.positions import Positions


def visibility(
    encoding: Lowerable, length: int, *, causal: bool = True
) -> Bool[Tensor, "length length"]:
    """Whether query i, a row, sees key j, by the masks of an encoding or a list of them.

    Encodings that only change embeddings hide nothing. Raises what `posenc.lower` raises.
    """
    whole = isinstance(encoding, Encoding)
    parts = [encoding] if whole else flatten(encoding)
    parts = [part for part in parts if not embeds_only(part)]
    device = device_of(encoding) if whole else None
    at = Positions.build(length, causal=causal, device=device)
    context = context_of_one_token(encoding, length) if whole and parts else None
    lowered = lower(parts, at, context=context, dtype=torch.float64)
    visible = lowered.positions.visible(mask_rules(lowered.terms))
    if visible is None:
        return torch.ones(length, length, dtype=torch.bool, device=device)
    return visible[0, 0].expand(length, length)


def receptive_field(visible: Bool[Tensor, "t t"], layers: int) -> Int64[Tensor, "t t"]:
    """After how many layers token j first reaches query i: 1 .. layers, 0 where it does not.

    A layer passes on what it sees, and by the residual connection itself. A window of w tokens
    reaches w - 1 farther back with each layer. Raises SettingError for layers < 1.

    Source: Beltagy et al. 2020, arXiv:2004.05150, section 3.1, for windows.
    """
    if layers < 1:
        raise SettingError(f"receptive_field(layers={layers}): at least one layer is needed")
    step = (visible | torch.eye(len(visible), dtype=torch.bool, device=visible.device)).double()
    reached, needed = step, step.long()
    for layer in range(2, layers + 1):
        reached = (step @ reached > 0).double()
        needed = torch.where((needed == 0) & (reached > 0), layer, needed)
    return needed
