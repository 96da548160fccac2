"""Checks of the numbers: the paper's formula, low precision, far positions, gradients."""

import copy
from typing import Any

import torch
from torch import Tensor

from posenc.analysis.probe_context import context_for, embeds, sizes_for
from posenc.attention import attend
from posenc.attention_parts import scores
from posenc.encoding import Context, Encoding
from posenc.equation import weights_of
from posenc.errors import CheckError, PosencError
from posenc.positions import Positions
from posenc.testing.fixtures import (
    LENGTH,
    attends,
    causalities,
    copy_of,
    in_float64,
    pairs_for,
    qkv,
    repeated,
    require,
    require_close,
    scattered,
    shifted,
    when,
)
from posenc.testing.masks import visible_by_the_paper

LOW = (torch.bfloat16, torch.float16)


def reference_positions(length: int = LENGTH) -> Positions:
    """Unordered, repeated positions, different in each row."""
    rows = torch.stack([torch.arange(length) * 7 % 11, torch.arange(length).flip(0)])
    return Positions.build(ids=rows)


def embedded(encoding: Encoding, positions: Positions, dtype: torch.dtype) -> Tensor:
    generator = torch.Generator().manual_seed(17)
    shape = (2, positions.q_len, sizes_for(encoding).model_dim)
    x = torch.randn(shape, generator=generator, dtype=torch.float64).to(dtype)
    return encoding.embed(x, positions)


def embedded_by_the_paper(encoding: Encoding, x: Tensor, positions: Positions) -> Tensor:
    """`reference_embed` of the encoding's parameters as they are, in float64."""
    exact = copy.deepcopy(encoding).double()
    return exact.reference_embed(x.double(), positions.queries.position.double().expand(len(x), -1))


def scores_by_the_paper(
    encoding: Encoding,
    q: Tensor,
    k: Tensor,
    positions: Positions,
    context: Context | None = None,
) -> Tensor:
    """`reference_scores` in float64, hidden where `reference_visible` and causality say so."""
    exact, pairs = copy.deepcopy(encoding).double(), pairs_for(q, positions, context)
    s = exact.reference_scores(q.double(), repeated(k, q.shape[1]).double(), pairs)
    return s.masked_fill(~visible_by_the_paper(encoding, positions, pairs), -torch.inf)


@when(embeds)
def check_reference_embed(encoding: Encoding) -> None:
    """`embed` equals the paper's formula in float64."""
    made, positions = copy_of(encoding), reference_positions()
    x = torch.randn(2, LENGTH, sizes_for(made).model_dim, dtype=torch.float64)
    expected = embedded_by_the_paper(made, x, positions)
    require_close(made.embed(x, positions), expected, 1e-9, "embed against reference_embed")


@when(attends)
def check_reference_scores(encoding: Encoding) -> None:
    """Scores equal the paper's formula in float64, at any positions and with fewer queries."""
    made = copy_of(encoding)
    for causal in causalities(encoding):
        for q_len in (LENGTH, 4):
            at = shifted(5) if causal else reference_positions()
            places = [at.keys.position]
            if made.axes > 1:
                places.append(scattered(made.axes))
            for ids in places:
                positions = Positions.build(q_len, ids=ids, causal=causal)
                q, k, _ = qkv(made, q_len, LENGTH)
                context = context_for(made)
                actual = scores(q, k, made, positions=positions, context=context)
                expected = scores_by_the_paper(made, q, k, positions, context)
                what = f"causal={causal}, {q_len} queries, positions of shape {tuple(ids.shape)}"
                try:
                    require_close(actual, expected, 1e-9, what)
                except CheckError as error:
                    where = {"positions": positions, "context": context}
                    cause = _likely_cause(actual, expected, made, q=q, k=k, **where)
                    raise CheckError(f"{error}{cause}") from None


def _likely_cause(actual: Tensor, expected: Tensor, made: Encoding, **inputs: Any) -> str:
    """What `diagnose` makes of a difference, where it finds a cause."""
    # Only a failure is diagnosed, and the suite is imported with the library.
    from posenc.analysis.diagnose import diagnose

    try:
        cause = diagnose(expected, actual, made, **inputs).cause
    except PosencError:
        return ""
    return "" if cause in ("none", "unknown") else f"; likely: {cause}"


@when(attends)
def check_reference_output(encoding: Encoding) -> None:
    """The output equals the paper's formula for the values in float64."""
    made, positions = copy_of(encoding), reference_positions()
    if made.tags.causal_only:
        positions = shifted(0)
    q, k, v = qkv(made)
    context = context_for(made)
    p = weights_of(scores(q, k, made, positions=positions, context=context))
    pairs = pairs_for(q, positions, context)
    expected = made.reference_output(p, repeated(v, q.shape[1]), pairs)
    actual = attend(q, k, v, made, positions=positions, context=context)
    require_close(actual, expected, 1e-9, "output")


@when(lambda encoding: not encoding.tags.needs_extent)
def check_far_positions(encoding: Encoding) -> None:
    """A million tokens on, float32 still agrees with the paper's formula in float64."""
    made = copy_of(encoding, torch.float32)
    for offset in (4_096, 1_000_000):
        positions = shifted(offset)
        if embeds(made):
            x = torch.randn(2, LENGTH, sizes_for(made).model_dim)
            expected = embedded_by_the_paper(made, x, positions)
            require_close(made.embed(x, positions), expected, 1e-5, f"embed at {offset}")
        if attends(made):
            q, k, _ = qkv(made, dtype=torch.float32)
            context = context_for(made, dtype=torch.float32)
            actual = scores(q, k, made, positions=positions, context=context)
            exact = in_float64(context)
            expected = scores_by_the_paper(made, q, k, positions, exact)
            require_close(actual, expected, 1e-5, f"scores at {offset}")


@when(lambda encoding: attends(encoding) and not encoding.tags.needs_extent)
def check_long_inputs(encoding: Encoding) -> None:
    """Among 32 thousand keys float32 still agrees with float64: no sum of many tokens is lost."""
    made, length = copy_of(encoding, torch.float32), 1 << 15
    q, k, _ = qkv(made, 1, length, torch.float32)
    context = context_for(made, length, torch.float32)
    actual = scores(q, k, made, causal=True, context=context)
    exact = copy.deepcopy(made).double()
    expected = scores(q.double(), k.double(), exact, causal=True, context=in_float64(context))
    require_close(actual, expected, 1e-5, f"the last query of {length} tokens")


@when(lambda encoding: not encoding.tags.needs_extent)
def check_low_precision(encoding: Encoding) -> None:
    """bfloat16 and float16 round inputs, parameters and outputs, never positions or tables."""
    positions = shifted(4_096)
    for dtype in LOW:
        low = copy_of(encoding).to(dtype)
        if embeds(low):
            x = torch.randn(2, LENGTH, sizes_for(low).model_dim).to(dtype)
            expected = embedded_by_the_paper(low, x, positions)
            bound = 2.0 * torch.finfo(dtype).eps
            require_close(low.embed(x, positions), expected, bound, f"embed in {dtype}")
        if attends(low):
            q, k, _ = qkv(low, dtype=dtype)
            context = context_for(low, dtype=dtype)
            actual = scores(q, k, low, positions=positions, context=context)
            exact = in_float64(context)
            expected = scores_by_the_paper(low, q, k, positions, exact)
            require_close(actual, expected, 1e-5, f"scores of {dtype} inputs")


@when(attends)
def check_autocast(encoding: Encoding) -> None:
    """Autocast does not reach the scores: they are the same under it."""
    made = copy_of(encoding, torch.float32)
    q, k, v = qkv(made, dtype=torch.float32)
    context = context_for(made, dtype=torch.float32)

    def both() -> tuple[Tensor, Tensor]:
        s = scores(q, k, made, causal=True, context=context)
        return s, attend(q, k, v, made, causal=True, context=context)

    plain = both()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        under = both()
    require_close(under[0], plain[0], 1e-6, "scores under autocast")
    require_close(under[1], plain[1], 1e-6, "output under autocast")


def check_dtypes(encoding: Encoding) -> None:
    """Results have the dtype of the input, scores at least float32."""
    for dtype in (torch.float64, torch.float32, *LOW):
        made = copy_of(encoding).to(dtype)
        if embeds(made):
            got = embedded(made, Positions.build(LENGTH), dtype).dtype
            require(got == dtype, f"embed of {dtype} gives {got}")
        if attends(made):
            q, k, v = qkv(made, dtype=dtype)
            context = context_for(made, LENGTH, dtype)
            got = attend(q, k, v, made, causal=True, context=context).dtype
            require(got == dtype, f"attend of {dtype} gives {got}")
            got = scores(q, k, made, causal=True, context=context).dtype
            wanted = torch.float64 if dtype == torch.float64 else torch.float32
            require(got == wanted, f"scores of {dtype} are {got}, not {wanted}")


def check_kept_in_float32(encoding: Encoding) -> None:
    """Casting the module down and up again loses nothing but the precision of its parameters."""
    made = copy_of(encoding, torch.float32)
    kept = {name: made.get_parameter(name).detach().clone() for name in made.keep_float32}
    cast = copy.deepcopy(made).bfloat16()
    for name, before in kept.items():
        require_close(cast.get_parameter(name), before, 0.0, f"{name} after .bfloat16()")
    rounded = {
        name: value if name in kept else value.bfloat16().float()
        for name, value in made.state_dict().items()
    }
    back = cast.float()
    made.load_state_dict(rounded)
    if attends(made):
        q, k, _ = qkv(made, dtype=torch.float32)
        expected, actual = (
            scores(q, k, each, causal=True, context=context_for(each, dtype=torch.float32))
            for each in (made, back)
        )
        require_close(actual, expected, 0.0, "scores after .bfloat16().float()")
    if embeds(made):
        at = Positions.build(LENGTH)
        expected, actual = (embedded(each, at, torch.float32) for each in (made, back))
        require_close(actual, expected, 0.0, "embed after .bfloat16().float()")


def check_gradients(encoding: Encoding) -> None:
    """Gradients of inputs and parameters are those of finite differences."""
    made, length = copy_of(encoding), 4
    parameters = [p for p in made.parameters() if p.requires_grad]
    inputs: tuple[Tensor, ...] = ()
    if attends(made):
        inputs = tuple(t.requires_grad_() for t in qkv(made, length, batch=1))
        context = context_for(made, length, batch=1)

        def run(*tensors: Tensor) -> Tensor:
            q, k, v = tensors[:3]
            return attend(q, k, v, made, causal=True, context=context, backend="reference")
    else:
        x = torch.randn(1, length, sizes_for(made).model_dim, dtype=torch.float64)
        inputs = (x.requires_grad_(),)

        def run(*tensors: Tensor) -> Tensor:
            return made.embed(tensors[0], Positions.build(length))

    passed = torch.autograd.gradcheck(
        run,
        (*inputs, *parameters),
        raise_exception=False,
        fast_mode=True,
        check_undefined_grad=False,
    )
    require(passed, "gradients differ from finite differences in float64")


def check_finite(encoding: Encoding) -> None:
    """No NaN appears, in the output or a gradient, also where a row sees nothing."""
    if not attends(encoding):
        out = embedded(copy_of(encoding), Positions.build(LENGTH), torch.float64)
        require(bool(torch.isfinite(out).all()), "embed gives values that are not finite")
        return
    mask = torch.ones(2, LENGTH, dtype=torch.bool)
    mask[0] = False
    mask[1, :3] = False
    positions = Positions.build(attention_mask=mask, causal=True)
    made = copy_of(encoding)
    q, k, v = (t.requires_grad_() for t in qkv(made))
    context = context_for(made)
    out = attend(q, k, v, made, positions=positions, context=context)
    require(not out[0].abs().max() > 0, "a row that sees nothing is not zero")
    grads = torch.autograd.grad(out.sum(), [q, k, v, *made.parameters()], allow_unused=True)
    for value in (out, *(grad for grad in grads if grad is not None)):
        require(bool(torch.isfinite(value).all()), "values or gradients that are not finite")
