"""Ways to compute attention, each an optimisation of `posenc.equation`.

A backend is one module with two functions, and imports nothing from another backend:

    refusal(call) -> str | None    why it cannot compute this call, or None
    attend(call) -> Tensor         the output (b, h, tq, d_v), in v's dtype

`auto` takes the first in the order below that does not refuse; a backend asked for by name never
falls back.
"""

from posenc.backends import reference, sdpa

BACKENDS = {"sdpa": sdpa, "reference": reference}
