"""What DistributedDataParallel holds of a model that it was made of before posenc entered."""

from collections.abc import Iterable
from typing import Any

from torch.nn.parallel import DistributedDataParallel

from posenc.encoding import Encoding
from posenc.errors import UnsupportedError
from posenc.models.attach.entry import handles


class Distributed:
    """Those by which a model is called; with none of them nothing is checked or changed."""

    def __init__(self, model: Any) -> None:
        self.wrappers = [x for x in handles(model) if isinstance(x, DistributedDataParallel)]
        self.known = {parameter for x in self.wrappers for parameter in x.parameters()}

    def check(self, encodings: Iterable[Encoding]) -> None:
        """Raise UnsupportedError for parameters whose gradients nobody would sum."""
        for encoding in encodings if self.wrappers else ():
            learned = {x for x in encoding.parameters() if x.requires_grad}
            if learned - self.known:
                raise UnsupportedError(
                    f"attach(DistributedDataParallel, {encoding!r}): it sums the gradients of the "
                    "parameters that the model had when it was wrapped, and not of this encoding: "
                    "attach to the model first, and wrap it then"
                )

    def list_buffers(self) -> None:
        """Tell of the buffers that are left, for it fails at the broadcast of none."""
        for wrapper in self.wrappers:
            wrapper.modules_buffers = list(wrapper.module.buffers())
