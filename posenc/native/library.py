"""The library of C kernels, found beside this file and loaded with ctypes, or why there is none."""

import ctypes
import os
from pathlib import Path

import torch

from posenc.native.attention_struct import CallStruct

_ADDRESS, _SIZE = ctypes.c_void_p, ctypes.c_int64
# What posenc.h exports: name, arguments, result.
FUNCTIONS = (
    ("pe_instruction_set", [], ctypes.c_char_p),
    ("pe_limit_instruction_set", [ctypes.c_char_p], _SIZE),
    ("pe_type_count", [], _SIZE),
    ("pe_rotation_size", [], _SIZE),
    ("pe_rotate", [ctypes.c_char_p], None),
    ("pe_attention_size", [], _SIZE),
    *((f"pe_attention_{real}_scratch", [_ADDRESS], _SIZE) for real in ("float", "double")),
    *((f"pe_attention_{real}", [_ADDRESS], None) for real in ("float", "double")),
    ("pe_query_size", [], _SIZE),
    *((f"pe_query_{real}_scratch", [ctypes.c_char_p], _SIZE) for real in ("float", "double")),
    *((f"pe_query_{real}", [ctypes.c_char_p, _ADDRESS], None) for real in ("float", "double")),
    ("pe_huge_pages", [_ADDRESS, _SIZE], None),
)
# enum pe_type.
TYPES = {torch.float32: 0, torch.bfloat16: 1, torch.float64: 2, torch.float16: 3}
# struct pe_rotation, whose fields are 8 bytes each: 6, and 18 for each of two tensors.
ROTATION_BYTES = 8 * (6 + 2 * 18)
# struct pe_query, likewise.
QUERY_BYTES = 8 * 25
# enum set of dispatch.c: each has all that those before it have.
SETS = ("baseline", "avx2", "avx512", "avx512bf16", "amx")
BESIDE = Path(__file__).with_name("_kernels.so")


class Library:
    """The loaded kernels: `kernels.pe_<name>`, as posenc.h declares them."""

    def __init__(self, kernels: ctypes.CDLL) -> None:
        self.kernels = kernels
        # Other versions of torch need not have this function.
        has_one = getattr(torch.cpu, "_is_amx_tile_supported", bool)
        held = torch.backends.cpu.get_cpu_capability() != "AVX512"
        # Whether torch multiplies bfloat16 in a matrix unit that these do not use.
        self.lacks_matrix_unit = has_one() and not held and not self.reaches("amx")

    @property
    def instruction_set(self) -> str:
        return self.kernels.pe_instruction_set().decode()

    def reaches(self, name: str) -> bool:
        """Whether the kernels that are taken are of this instruction set, or of a better one."""
        return SETS.index(self.instruction_set) >= SETS.index(name)


def load(path: Path | None = None) -> Library | str:
    """The kernels, or a sentence that says why posenc runs without them.

    Two environment variables are read, so they are set before posenc is imported: POSENC_NATIVE
    turns the kernels off where it is 0, and else is the library to load, as of a build with
    sanitizers. POSENC_NATIVE_ISA is the best of SETS that may be used.
    """
    chosen = os.environ.get("POSENC_NATIVE")
    if chosen == "0":
        return "POSENC_NATIVE=0 turns the C kernels off"
    path = path or (Path(chosen) if chosen else BESIDE)
    if not path.exists():
        if chosen:
            return f"POSENC_NATIVE={chosen} is no file"
        return "posenc was installed without its C kernels: a C compiler was missing or failed"
    try:
        kernels = ctypes.CDLL(str(path))
        for name, arguments, result in FUNCTIONS:
            function = getattr(kernels, name)
            function.argtypes, function.restype = arguments, result
        sizes = {
            "pe_rotation": kernels.pe_rotation_size(),
            "pe_attention": kernels.pe_attention_size(),
            "pe_query": kernels.pe_query_size(),
            "pe_type": kernels.pe_type_count(),
        }
    except (OSError, AttributeError) as error:
        return f"the C kernels do not load ({error}): install posenc again"
    wanted = {
        "pe_rotation": ROTATION_BYTES,
        "pe_attention": ctypes.sizeof(CallStruct),
        "pe_query": QUERY_BYTES,
        "pe_type": len(TYPES),
    }
    if sizes != wanted:
        return f"the C kernels read {sizes}, but posenc writes {wanted}: install posenc again"
    limit = os.environ.get("POSENC_NATIVE_ISA")
    if limit and not kernels.pe_limit_instruction_set(limit.encode()):
        return f"POSENC_NATIVE_ISA={limit} is none of {', '.join(SETS)}"
    return Library(kernels)


# On import, not on first use: a graph that is being traced cannot load a library, and what the
# operators can do must not change after they are registered.
LIBRARY = load()
