"""A kernel's launch, made again as it was: Triton binds a call's arguments for longer than it runs.

    launch = Launch(kernel, programs, q, rest, {"DIM": 64, "num_warps": 4})
    launch(q, k)  # by Triton, which compiles the kernel where it is new
    launch(other_q, other_k)  # straight to the driver; allowed where they have the same facts

Keep it on what the rest belongs to, under the facts of the tensors and under all else that the rest
was made of: `posenc.torch_modes.kept_for`. Another launch of the kernel goes straight to the driver
too, where Triton compiled it for such arguments before.
"""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from triton import knobs
from triton.runtime import driver

# Numbers beyond are of 64 bits.
_WIDE = 1 << 31


def facts(*tensors: Tensor) -> list[Any]:
    """All that a launch depends on of tensors but their addresses: of these, what 16 leaves."""
    return [(x.shape, x.stride(), x.dtype, x.data_ptr() % 16, x.get_device()) for x in tensors]


class Launch:
    """One launch of a kernel, for tensors that have the facts of those it is first called with.

    programs  how many, in one dimension
    unread    what stands in the rest for a tensor that is not read; it is not kept
    rest      the arguments after the tensors that differ from call to call
    settings  constants and what Triton compiles by, all by name
    """

    def __init__(
        self,
        kernel: Any,
        programs: int,
        unread: Tensor,
        rest: Sequence[Any],
        settings: dict[str, Any],
    ) -> None:
        self.kernel, self.grid, self.settings = kernel, (programs, 1, 1), settings
        self.rest = [None if x is unread else x for x in rest]
        # What launches the compiled kernel, and the rest as the driver takes it.
        self.made: tuple[Any, Sequence[Any]] | None = None

    def __call__(self, *tensors: Tensor) -> None:
        device = tensors[0].get_device()
        if device < 0 or device == torch.cuda.current_device():
            self._launch(tensors)
        else:
            with torch.cuda.device(device):
                self._launch(tensors)

    def _launch(self, tensors: Sequence[Tensor]) -> None:
        if self.made is None:
            self._first(tensors)
            return
        run, told = self.made
        # A number is taken for an address as it is, where a tensor is asked what it is.
        run(*[x.data_ptr() for x in tensors], *told)

    def _first(self, tensors: Sequence[Tensor]) -> None:
        arguments = [*tensors, *[tensors[0] if x is None else x for x in self.rest]]
        if knobs.runtime.interpret:
            # Which compiles nothing.
            self.kernel[self.grid](*arguments, **self.settings)
            return
        # With the kernel, as Triton keeps them too.
        known = self.kernel.__dict__.setdefault("_compiled_for", {})
        like = self._specialised(arguments)
        compiled = known.get(like)
        new = compiled is None
        if new:
            compiled = self.kernel[self.grid](*arguments, **self.settings)
            # What is still compiling, or is of another kind, Triton launches each time.
            if not hasattr(type(compiled), "__getitem__"):
                return
            known[like] = compiled
        run = compiled[self.grid]
        constants = [self.settings[name] for name in self.kernel.arg_names[len(arguments) :]]
        if not new:
            # By tensors, of which the driver refuses those that are on no GPU.
            run(*arguments, *constants)
        # `rest` holds the tensors that these addresses are of.
        addresses = [
            0 if x is None else x if type(x) in (int, float) else x.data_ptr() for x in self.rest
        ]
        self.made = run, (*addresses, *constants)

    def _specialised(self, arguments: Sequence[Any]) -> tuple[Any, ...]:
        """All that Triton compiles by, or more: of any number, whether it is 1 and whether 16
        divides it, so that nobody has to know which of them a kernel asks so much of.
        """
        told = [
            (-1 if x == 1 else x & 15 == 0) if type(x) is int and -_WIDE <= x < _WIDE
            else float if type(x) is float
            else (x.dtype, x.data_ptr() & 15 == 0) if isinstance(x, Tensor)
            else (type(x), x)
            for x in arguments
        ]  # fmt: skip
        device = driver.active.get_current_device()
        return device, knobs.runtime.debug, *told, *self.settings.items()
