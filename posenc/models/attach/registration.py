"""The name by which transformers knows posenc's attention and its masks."""

from posenc.errors import UnsupportedError, installing
from posenc.models.attach.attention import posenc_attention
from posenc.models.attach.mask import posenc_mask

NAME = "posenc"
# Before, some models' code made masks otherwise, and caches were told which length to crop to.
OLDEST = 5, 20


def register() -> None:
    """Make "posenc" a value of `attn_implementation`, with a mask function of the same name.

    Without the second transformers passes no mask, and padding and documents would be forgotten.

    Raises UnsupportedError where transformers is older than 5.20.

    Example:

        posenc.models.attach.register()
        model = AutoModelForCausalLM.from_pretrained(folder, attn_implementation="posenc")
    """
    from transformers import AttentionInterface, AttentionMaskInterface, __version__

    if tuple(map(int, __version__.split(".")[:2])) < OLDEST:
        raise UnsupportedError(
            f"posenc.models.attach: transformers {__version__} is older than "
            f"{'.'.join(map(str, OLDEST))}: {installing('models')}"
        )
    AttentionInterface.register(NAME, posenc_attention)
    AttentionMaskInterface.register(NAME, posenc_mask)
