"""What posenc did to a model, and how it is undone."""

import weakref
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from torch import nn

from posenc.models.attach.body import Place
from posenc.models.attach.registration import register
from posenc.models.spec import ModelSpec
from posenc.words import counted


@dataclass(eq=False)
class Attachment:
    """What `attach` did to a model: for each layer with attention, what computes its positions."""

    spec: ModelSpec
    routes: list[str] = field(default_factory=list)
    _undo: list[Callable[[], None]] = field(default_factory=list, repr=False)

    def __str__(self) -> str:
        lines = [f"posenc under {self.spec.model_type}:"]
        for route in dict.fromkeys(self.routes):
            count = counted(self.routes.count(route))
            lines.append(f"  {count:# layer|# layers}: {route}")
        return "\n".join(lines)

    def replace(self, place: Place, module: nn.Module) -> None:
        """Another module in this place, until `leave`."""
        before = place.module
        setattr(place.owner, place.name, module)
        self.at_leaving(partial(setattr, place.owner, place.name, before))

    def put(self, owner: Any, name: str, value: Any) -> None:
        """Another value of this attribute, or another method, until `leave`."""
        own = vars(owner)
        if name in own:
            before = own[name]
            self.at_leaving(partial(setattr, owner, name, before))
        else:
            self.at_leaving(partial(delattr, owner, name))
        setattr(owner, name, value)

    def at_leaving(self, undo: Callable[[], None]) -> None:
        """What `leave` calls: no closure, so that a copy of the model, or a file, has its own."""
        self._undo.append(undo)

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)
        # Transformers does not know the name in a process that reads the model from a file.
        register()

    def leave(self) -> None:
        """Make the model what it was."""
        while self._undo:
            self._undo.pop()()


class Mark:
    """By what a layer tells of the attachment to its model; copies of the layer tell of none."""

    def __init__(self, attachment: Attachment | None = None) -> None:
        self._attachment = None if attachment is None else weakref.ref(attachment)

    @classmethod
    def of(cls, module: nn.Module) -> Attachment | None:
        """What this module tells of; None for nothing, and for an attachment that is gone."""
        mark = vars(module).get("posenc_mark")
        return None if mark is None or mark._attachment is None else mark._attachment()

    def __reduce__(self) -> tuple[Any, ...]:
        # A layer is copied without its model.
        return Mark, ()
