"""What differs between models into which posenc gets by different ways."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from posenc.encoding import Encoding
from posenc.models.attach.attachment import Attachment
from posenc.models.attach.body import Body
from posenc.models.spec import ModelSpec


@dataclass(frozen=True, eq=False)
class Family:
    """How posenc gets into models of one kind.

    body       finds the parts; raises UnsupportedError for a model that posenc cannot enter
    encodings  of each layer, as the model has them
    enter      makes the model's code call posenc, and tells the attachment how to undo it
    no_room    why no other encoding can take the place of its own; empty where one can
    """

    body: Callable[[Any, ModelSpec], Body]
    encodings: Callable[[Body, Attachment], list[tuple[Encoding, ...]]]
    enter: Callable[[Body, Attachment], None]
    no_room: str = ""
