"""The library of C kernels, found beside this file and loaded with ctypes, or why there is none."""

import ctypes
import os
from pathlib import Path

import torch

# PE_INTERFACE in posenc.h: a library of older sources would be called wrongly.
INTERFACE = 2
BESIDE = Path(__file__).with_name("_kernels.so")


class Library:
    """The loaded kernels: `kernels.pe_<name>`, as posenc.h declares them."""

    def __init__(self, kernels: ctypes.CDLL) -> None:
        self.kernels = kernels
        self._process = os.getpid()

    @property
    def instruction_set(self) -> str:
        return self.kernels.pe_instruction_set().decode()

    def threads(self) -> int:
        """How many threads a kernel may use.

        OpenMP's threads do not survive a fork, and a child that waits for them hangs: it has one.
        """
        return torch.get_num_threads() if os.getpid() == self._process else 1


def load(path: Path = BESIDE) -> Library | str:
    """The kernels, or a sentence that says why posenc runs without them.

    The environment variable POSENC_NATIVE=0, set before posenc is imported, turns them off.
    """
    if os.environ.get("POSENC_NATIVE") == "0":
        return "POSENC_NATIVE=0 turns the C kernels off"
    if not path.exists():
        return "posenc was installed without its C kernels: a C compiler was missing or failed"
    try:
        kernels = ctypes.CDLL(str(path))
        kernels.pe_interface.restype = ctypes.c_int64
        interface = kernels.pe_interface()
        kernels.pe_instruction_set.restype = ctypes.c_char_p
        kernels.pe_turn.argtypes = [ctypes.c_char_p]
        for kernel in (kernels.pe_attention_float, kernels.pe_attention_double):
            kernel.argtypes = [ctypes.c_void_p]
        for size in (kernels.pe_attention_float_scratch, kernels.pe_attention_double_scratch):
            size.argtypes, size.restype = [ctypes.c_void_p], ctypes.c_int64
        kernels.pe_huge_pages.argtypes = [ctypes.c_void_p, ctypes.c_int64]
    except (OSError, AttributeError) as error:
        return f"the C kernels do not load ({error}): install posenc again"
    if interface != INTERFACE:
        return (
            f"the C kernels have interface {interface}, but this posenc calls {INTERFACE}: "
            "install posenc again"
        )
    return Library(kernels)


# Once, when the operators are registered: what they can do must not change afterwards.
LIBRARY = load()
