"""Ways to compute attention, each an optimisation of `posenc.equation`.

A backend is one module with a `BACKEND`: a declaration of what it can do, and its `attend`; see
`posenc.backends.backend`. It imports nothing from another, and reads the normal form of a call,
but for the reference, which reads the terms.

`auto` takes the first, in the order of `ORDER` or else of the list below, that neither lacks
anything nor declines, and else the first that lacks nothing:

    native     C, CPU: all but few queries, and small or exported attention that needs no mask
               (under 32 queries or 2**13 pairs of all heads, 2**15 with gradients in more than
               16 bits; in float16 under 8 queries or 2**11 pairs; with dropout under 16
               queries), which is SDPA's. Few are 2 to 7, and 2 to 11 where heads share keys in
               more than 16 bits; without gradients and with more keys, but of vectors by distance
               and counts, 2 to 16 in float32 and bfloat16 with less than AVX-512. Of them it
               takes those with zones, a table of values or a window that hides 3 of 4 keys, and in
               16 bits, in bfloat16 with AVX-512 alone: those that meet 256 keys or more for each
               head that shares them (in bfloat16 one head, in float16 up to 4), and causal ones of
               more keys than queries (in bfloat16 if there is a query or more for each head that
               shares keys, without AVX-512 BF16, or with a matrix unit, 2). In a matrix unit (AMX),
               in bfloat16, few are 2 to 23 where heads share keys and nothing is added, and with
               kernels that know none SDPA has all that needs no mask. Of windows with a table of
               rows and columns, in more than 16 bits, those of 196 tokens or more, with gradients
               49. With `return_lse=True` all: SDPA gives no log of the sum of exp(score)
    sdpa       where no term adds to the scores and causality is the only mask, for up to 16
               queries, in traced graphs, and for masks of up to 2**20 numbers, on GPUs 2**27
    triton     NVIDIA GPUs, before all others, in graphs too: functions of the distance, vectors by
               it but for one query, sinks, the log of the sum, and whatever SDPA needs a mask for:
               windows, packing, padding, fewer queries than keys as in decoding
    blocked    everything else of more than 2**20 scores, on GPUs 2**24, in memory that grows with
               the length
    flex       never by itself where `blocked` is there
    reference  the equation: the rest

Numbers of CPUs were measured; those of GPUs are estimates: 2**27 numbers are half a gigabyte.

`posenc.explain_backend` says which it is for a call and why. A backend asked for by name never
falls back.
"""

from posenc.backends import blocked, flex, native, reference, sdpa, triton

BACKENDS = {
    "native": native.BACKEND,
    "sdpa": sdpa.BACKEND,
    "triton": triton.BACKEND,
    "blocked": blocked.BACKEND,
    "flex": flex.BACKEND,
    "reference": reference.BACKEND,
}

# In which order `auto` asks them, by the type of q's device; elsewhere as they stand above.
ORDER: dict[str, tuple[str, ...]] = {"cuda": ("triton", "sdpa", "blocked", "flex", "reference")}
