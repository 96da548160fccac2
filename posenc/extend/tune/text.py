"""The text that is trained on: what no span and no passkey is measured on."""

import torch
from jaxtyping import Int
from torch import Tensor

from posenc.errors import LabError
from posenc.extend.material import Material


def training_windows(material: Material, length: int) -> Int[Tensor, "n t"]:
    """The text behind the spans in windows of `length` tokens, each opened as a text of its own.

    Raises LabError where no part of the text has as many left.
    """
    body = length - len(material.opening)
    windows = [material.opened(x) for rest in material.rests for x in rest.split(body)]
    whole = [ids for ids in windows if len(ids) == length]
    if not whole:
        raise LabError(
            f"the text is too short to tune on: {body} tokens behind a span are needed, which no "
            f"span scores, and at most {max(map(len, material.rests))} are left of one of "
            f"{len(material.rests)} parts; give more with --text, fewer --spans, or a shorter "
            "--tune-length or --to"
        )
    return torch.stack(whole)
