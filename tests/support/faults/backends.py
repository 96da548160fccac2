"""Faults in the normal form and the backends, and how they are chosen."""

import posenc as pe
from tests.support.faults.examples import alibi, forget_gate, rope, shaw, t5
from tests.support.faults.fault import Fault

FAULTS = [
    Fault(
        "mask dropped beside a bias",
        "posenc.backends.sdpa:_mask_tensor",
        "return bias if seen is None else bias.masked_fill(~seen, -torch.inf)",
        "return bias",
        alibi,
        "check_backends",
    ),
    Fault(
        "bias dropped by a backend",
        "posenc.backends.sdpa:_bias",
        "parts.append(_by_distance(call, *form.biases(scale), dtype))",
        "pass",
        alibi,
        "check_backends",
    ),
    Fault(
        "causal mask aligned at the first key",
        "posenc.backends.sdpa:mask_of",
        " and positions.q_len == positions.k_len",
        "",
        rope,
        "check_short_queries",
    ),
    Fault(
        "an input overwritten",
        "posenc.attention:build_call",
        "check_shapes(q, k, v)",
        "check_shapes(q, k, v); v.mul_(2.0)",
        rope,
        "check_inputs_untouched",
    ),
    Fault(
        "a refusing backend replaced in silence",
        "posenc.attention:_named",
        "if reason is not None:",
        "if False:",
        shaw,
        "check_no_fallback",
    ),
    Fault(
        "heads broadcast in place of an error",
        "posenc.normal_form.normalise:check_heads",
        "form.made_for[1] != heads",
        "False",
        t5,
        "check_wrong_heads",
        alone=True,
    ),
    Fault(
        "a context of another batch widens the output",
        "posenc.payload:with_payload",
        "given.shape[0] not in (1, batch)",
        "False",
        forget_gate,
        "check_wrong_context",
        alone=True,
    ),
    Fault(
        "distances of the C kernel one too far",
        "posenc.backends.native:_of_terms",
        "= by_distance.zero",
        "= by_distance.zero + 1",
        t5,
        "check_backends",
    ),
    Fault(
        "the window forgotten by the C kernel",
        "posenc.backends.native:_of_terms",
        '"window": -1 if seen.window is None else seen.window',
        '"window": -1',
        lambda: pe.SlidingWindow(3),
        "check_backends",
    ),
    Fault(
        "distances of a chunk one too far",
        "posenc.backends.blocked.operands:Operands._part",
        "positions.k_len - 1",
        "positions.k_len",
        t5,
        "check_backends",
    ),
    Fault(
        "vectors by distance read along the wrong diagonals",
        "posenc.normal_form.pairs:vectors_along_diagonals",
        "n - 1, 1)",
        "n, 1)",
        lambda: pe.Shaw(8, clip=4),
        "check_backends",
    ),
]
