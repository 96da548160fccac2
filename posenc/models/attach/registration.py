"""The name by which transformers knows posenc's attention and its masks."""

from posenc.models.attach.attention import posenc_attention
from posenc.models.attach.mask import posenc_mask

NAME = "posenc"


def register() -> None:
    """Make "posenc" a value of `attn_implementation`, with a mask function of the same name.

    Without the second transformers passes no mask, and padding and documents would be forgotten.

    Example:

        posenc.models.attach.register()
        model = AutoModelForCausalLM.from_pretrained(folder, attn_implementation="posenc")
    """
    from transformers import AttentionInterface, AttentionMaskInterface

    AttentionInterface.register(NAME, posenc_attention)
    AttentionMaskInterface.register(NAME, posenc_mask)
