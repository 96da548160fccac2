"""Checks of the backends: each takes what it must, and gives what the equation gives."""

import sys
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any

import torch
from jaxtyping import Bool
from torch import Tensor

from posenc.analysis.probe_context import context_for
from posenc.attention import attend
from posenc.backends import BACKENDS
from posenc.encoding import Encoding
from posenc.encodings.sinks import Sinks
from posenc.encodings.sliding_window import SlidingWindow
from posenc.errors import UnsupportedError
from posenc.lowering import Part
from posenc.native.library import LIBRARY
from posenc.positions import Positions, Tokens
from posenc.terms import (
    CountTable,
    DenseBias,
    DistanceTable,
    GatherTable,
    Rotate,
    Slope,
    Term,
    ValueTable,
    Zones,
)
from posenc.testing.arrangements import arrangements
from posenc.testing.fixtures import (
    LENGTH,
    VOCABULARY,
    attends,
    backends_for,
    causalities,
    copy_of,
    hides,
    model_for,
    qkv,
    repeated,
    require,
    require_close,
    terms_of,
    tokens_for,
    when,
)

# Terms that a backend may leave to others, on the CPU; whoever is not named here must take all.
LEAVES: dict[str, tuple[type[Term], ...]] = {
    "native": (CountTable, DenseBias, Zones),
    "sdpa": (CountTable, ValueTable, Zones),
    "flex": (CountTable, DenseBias, GatherTable, ValueTable, Zones),
}
# Backends without factors that grow with position.
UNSCALED = ("native", "sdpa", "flex")
READ_DISTANCES = (DistanceTable, Slope, GatherTable, ValueTable)


def must_take(name: str, terms: tuple[Term, ...], aligned: bool = True) -> bool:
    """Whether a backend has to compute these terms on this machine.

    aligned  positions are as far apart as orders; else distances do not run along diagonals, which
             native may leave to others
    """
    if name == "triton" or (name == "native" and isinstance(LIBRARY, str)):
        return False
    if any(isinstance(term, LEAVES.get(name, ())) for term in terms):
        return False
    scaled = any(isinstance(t, Rotate) and t.q_log_scale is not None for t in terms)
    if scaled and name in UNSCALED:
        return False
    return aligned or name != "native" or not any(isinstance(t, READ_DISTANCES) for t in terms)


def require_same(
    made: Encoding,
    drawn: tuple[Tensor, ...],
    what: str,
    parts: Sequence[Part] = (),
    *,
    aligned: bool = True,
    tolerance: float = 1e-9,
    expected: list[Tensor] | None = None,
    **where: Any,
) -> None:
    """Every backend gives what the reference gives, forward and backward, or refuses where it may.

    parts     what stands beside the encoding
    expected  in place of what the reference gives
    """
    call = [made, *parts]
    wanted = computed(call, drawn, "reference", **where) if expected is None else expected
    leaves = ("q", "k", "v", *(name for name, _ in made.named_parameters()))
    names = ["output", *(f"gradient of {name}" for name in leaves)]
    for backend in BACKENDS:
        if must_take(backend, terms_of(made), aligned):
            results = computed(call, drawn, backend, **where)
        else:
            # What it may refuse, it may not compute wrongly.
            results = []
            with suppress(UnsupportedError):
                results = computed(call, drawn, backend, **where)
        for name, result, value in zip(names, results, wanted, strict=False):
            require_close(result, value, tolerance, f"{backend}, {what}, {name}")


def computed(
    parts: Sequence[Part], drawn: tuple[Tensor, ...], backend: str, **where: Any
) -> list[Tensor]:
    """The output, and the gradients of a fixed sum of it by the inputs and all parameters.

    FlexAttention has no backward pass on CPUs: of it, the output alone.
    """
    if backend == "flex":
        with torch.no_grad():
            q, k, v = drawn
            return [attend(q, k, v, parts, backend=backend, **where)]
    leaves = [tensor.detach().requires_grad_() for tensor in drawn]
    q, k, v = leaves
    out = attend(q, k, v, parts, backend=backend, **where)
    encodings = (part for part in parts if isinstance(part, Encoding))
    leaves += [parameter for encoding in encodings for parameter in encoding.parameters()]
    generator = torch.Generator().manual_seed(19)
    weights = torch.randn(out.shape, generator=generator, dtype=torch.float64).to(out.dtype)
    grads = torch.autograd.grad(out, leaves, weights, allow_unused=True)
    pairs = zip(leaves, grads, strict=True)
    return [out, *(torch.zeros_like(leaf) if grad is None else grad for leaf, grad in pairs)]


@when(attends)
def check_backends(encoding: Encoding) -> None:
    """Every backend takes what it must and equals the reference, forward and backward."""
    made = copy_of(encoding)
    for causal in causalities(made):
        for arrangement in arrangements(causal):
            positions = arrangement.positions
            require_same(
                made,
                qkv(made, positions.q_len, LENGTH),
                f"{arrangement.name}, causal={causal}",
                aligned=arrangement.aligned,
                positions=positions,
                context=context_for(made),
            )


@when(lambda e: attends(e) and not hides(e))
def check_masks_in_backends(encoding: Encoding) -> None:
    """Beside windows and sinks every backend gives what the reference gives."""
    made = copy_of(encoding)
    masks = [SlidingWindow(5), SlidingWindow(3), Sinks(1)]
    for causal in causalities(made):
        for arrangement in arrangements(causal):
            if arrangement.name in ("far orders", "packed and padded"):
                where = {"positions": arrangement.positions, "context": context_for(made)}
                what = f"{arrangement.name}, causal={causal}"
                require_same(made, qkv(made), what, masks, **where)


@when(attends)
def check_negative_orders(encoding: Encoding) -> None:
    """Orders below zero are orders like others: causality and windows read differences alone."""
    made, order = copy_of(encoding), torch.arange(LENGTH) - 100
    tokens = Tokens(torch.arange(LENGTH), order=order)
    for causal in causalities(made):
        plain = Positions.build(LENGTH, causal=causal)
        where = {"positions": replace(plain, queries=tokens, keys=tokens)}
        require_same(made, qkv(made), f"causal={causal}", context=context_for(made), **where)


@when(lambda e: attends(e) and not hides(e))
def check_wide_windows(encoding: Encoding) -> None:
    """A window wider than the input hides nothing, however wide it is."""
    made = copy_of(encoding)
    where = {"causal": True, "context": context_for(made)}
    expected = computed([made], qkv(made), "reference", **where)
    for width in (LENGTH, 2**31, 2**62, sys.maxsize):
        window = SlidingWindow(width)
        require_same(made, qkv(made), f"{window!r}", [window], expected=expected, **where)


@when(attends)
def check_scales(encoding: Encoding) -> None:
    """A scale of zero or below is a scale like others, in every backend."""
    made = copy_of(encoding)
    for scale in (0.0, -0.5):
        where = {"causal": True, "scale": scale, "context": context_for(made)}
        require_same(made, qkv(made), f"scale={scale}", **where)


@when(attends)
def check_grouped_heads(encoding: Encoding) -> None:
    """Query heads get what they would get from keys of their own, however many share a key head."""
    made = copy_of(encoding)
    q, k, _ = qkv(made)
    heads, context = q.shape[1], context_for(made)
    for count in sorted({1, k.shape[1], heads}):
        k, v = q.flip(2)[:, :count], q.cos()[:, :count]
        all_k, all_v = repeated(k, heads), repeated(v, heads)
        expected = attend(q, all_k, all_v, made, causal=True, backend="reference", context=context)
        for name in backends_for(made):
            actual = attend(q, k, v, made, causal=True, backend=name, context=context)
            require_close(actual, expected, 1e-9, f"{name} with {count} of {heads} heads")


@when(attends)
def check_short_queries(encoding: Encoding) -> None:
    """Fewer queries than keys are the last ones: their rows equal those of the full square."""
    made = copy_of(encoding)
    q, k, v = qkv(made)
    for causal in causalities(made):
        context = context_for(made)
        full = attend(q, k, v, made, causal=causal, backend="reference", context=context)
        for count in (1, 4):
            last = q[:, :, -count:]
            for name in backends_for(made):
                actual = attend(last, k, v, made, causal=causal, backend=name, context=context)
                require_close(actual, full[:, :, -count:], 1e-9, f"{name}, last {count}")


@when(attends)
def check_strides(encoding: Encoding) -> None:
    """Tensors that are not contiguous give what their contiguous copies give."""
    made = copy_of(encoding)
    q, k, v = qkv(made)
    far_q, far_k, far_v = (t.transpose(1, 2).contiguous().transpose(1, 2) for t in (q, k, v))
    for name in backends_for(made):
        context = context_for(made)
        expected = attend(q, k, v, made, causal=True, backend=name, context=context)
        actual = attend(far_q, far_k, far_v, made, causal=True, backend=name, context=context)
        require_close(actual, expected, 1e-12, name)


def check_other_rows(encoding: Encoding) -> None:
    """What is not a number in one row of the batch reaches no other, forward or backward."""
    spoilt = torch.tensor([[True], [False]]).expand(-1, LENGTH)
    for causal in causalities(encoding):
        _require_unspoilt(encoding, spoilt, Positions.build(LENGTH, causal=causal))
    if not attends(encoding):
        return
    made = copy_of(encoding)
    for length in (LENGTH,) if made.tags.needs_extent else (LENGTH, 130):
        drawn, where = qkv(made, length), {"causal": True, "context": context_for(made, length)}
        hurt = tuple(x.masked_fill(torch.arange(2).view(2, 1, 1, 1) == 0, torch.nan) for x in drawn)
        for name in backends_for(made):
            clean, other = (computed([made], each, name, **where) for each in (drawn, hurt))
            for part, expected, actual in zip(("output", *"qkv"), clean, other, strict=False):
                what = f"{name}, {part} of {length} tokens beside a row of NaN"
                require_close(actual[1], expected[1], 1e-9, what)


def check_hidden_tokens(encoding: Encoding) -> None:
    """What is not a number in padding reaches no real token, forward or backward."""
    for causal in causalities(encoding):
        hidden = torch.tensor([[True] * 3 + [False] * 6, [False] * 6 + [True] * 3])
        positions = Positions.build(attention_mask=~hidden, causal=causal)
        _require_unspoilt(encoding, hidden, positions)
        if not attends(encoding):
            continue
        made = copy_of(encoding)
        q, k, v = qkv(made)
        hurt = (q, *(x.masked_fill(hidden[:, None, :, None], torch.nan) for x in (k, v)))
        where = {"positions": positions, "context": context_for(made)}
        for name in backends_for(made):
            clean, other = (computed([made], each, name, **where) for each in ((q, k, v), hurt))
            for expected, actual in zip(clean, other, strict=True):
                require_close(actual, expected, 1e-9, f"{name}, causal={causal}")


def _require_unspoilt(
    encoding: Encoding, spoilt: Bool[Tensor, "2 t"], positions: Positions
) -> None:
    """What a model says of the other tokens is the same where `spoilt` ones are not numbers."""
    model = model_for(encoding, causal=positions.causal)
    # The last word of the vocabulary is the one that is spoilt, and what is said of it.
    tokens = (tokens_for() % (VOCABULARY - 1)).masked_fill(spoilt, VOCABULARY - 1)
    with torch.no_grad():
        expected = model(tokens, positions)[~spoilt][:, :-1]
        model.embedding.token.weight[-1] = torch.nan
        actual = model(tokens, positions)[~spoilt][:, :-1]
    require_close(actual, expected, 1e-9, f"a model beside NaN, causal={positions.causal}")


@when(attends)
def check_no_fallback(encoding: Encoding) -> None:
    """The reference computes it, and a backend asked for by name raises rather than be replaced."""
    made, able = copy_of(encoding), backends_for(encoding)
    require("reference" in able, f"the reference refuses; able are {able}")
    q, k, v = qkv(made)
    context = context_for(made)
    for name in sorted(set(BACKENDS) - set(able)):
        try:
            attend(q, k, v, made, causal=True, context=context, backend=name)
        except UnsupportedError:
            continue
        require(False, f"backend {name!r} refuses this encoding, but answered")
