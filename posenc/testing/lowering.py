"""Checks of the lowering: every backend, cache, mask and graph gives what the equation says."""

from dataclasses import replace

import torch
from torch import Tensor

from posenc.analysis.probe_context import context_for, sizes_for
from posenc.attention import attend
from posenc.attention_parts import scores
from posenc.encoding import Context, Encoding
from posenc.errors import PosencError, ShapeError
from posenc.lowering import lower
from posenc.positions import Positions
from posenc.testing.fixtures import (
    LENGTH,
    Whole,
    attends,
    causalities,
    copy_of,
    model_for,
    qkv,
    require,
    require_close,
    tokens_for,
    when,
)


def with_gradients(out: Tensor, leaves: list[Tensor]) -> list[Tensor]:
    """An output and the gradients of a fixed function of it."""
    grads = torch.autograd.grad(out.sin().sum(), leaves, allow_unused=True)
    return [out, *(grad for grad in grads if grad is not None)]


@when(attends)
def check_inputs_untouched(encoding: Encoding) -> None:
    """attend, scores and lower write into none of their inputs, and repeat themselves."""
    made = copy_of(encoding)
    tensors = qkv(made)
    before = [t.clone() for t in (*tensors, *made.parameters())]
    context = context_for(made)
    first = attend(*tensors, made, causal=True, context=context)
    second = attend(*tensors, made, causal=True, context=context)
    require_close(second, first, 0.0, "a second call")
    for now, then in zip((*tensors, *made.parameters()), before, strict=True):
        require_close(now, then, 0.0, "an input after the call")


@when(attends)
def check_lowered_once(encoding: Encoding) -> None:
    """Terms lowered once give what the encoding gives, in any order of the terms."""
    made = copy_of(encoding)
    q, k, v = qkv(made)
    for causal in causalities(made):
        positions = Positions.build(LENGTH, causal=causal)
        context = context_for(made)
        expected = attend(q, k, v, made, positions=positions, context=context)
        lowered = lower(made, positions, dtype=torch.float64, context=context)
        require_close(attend(q, k, v, lowered), expected, 1e-12, "lowered terms")
        backwards = list(reversed(lowered.terms))
        actual = attend(q, k, v, backwards, positions=positions)
        require_close(actual, expected, 1e-12, "terms in reversed order")


def check_packed(encoding: Encoding) -> None:
    """Packed documents get what each gets alone."""
    for causal in causalities(encoding):
        model = model_for(encoding, causal=causal)
        lengths = [3, 1, 5]
        tokens = tokens_for(sum(lengths))
        packed = model(tokens, Positions.build(lengths=lengths, causal=causal))
        separate = torch.cat([model(part) for part in tokens.split(lengths, dim=1)], dim=1)
        require_close(packed, separate, 1e-9, f"causal={causal}")


def check_padding(encoding: Encoding) -> None:
    """Padding on the left or on the right changes nothing for real tokens."""
    for causal in causalities(encoding):
        model, tokens = model_for(encoding, causal=causal), tokens_for(6)
        alone = model(tokens)
        for side in ("left", "right"):
            at = slice(3, LENGTH) if side == "left" else slice(0, 6)
            padded = tokens_for(LENGTH, seed=23)
            padded[:, at] = tokens
            mask = torch.zeros(2, LENGTH)
            mask[:, at] = 1
            positions = Positions.build(attention_mask=mask, causal=causal)
            require_close(model(padded, positions)[:, at], alone, 1e-9, f"{side}, causal={causal}")


@when(lambda e: e.heads not in (None, 1) and attends(e))
def check_wrong_heads(encoding: Encoding) -> None:
    """A tensor with another number of heads is refused, not broadcast."""
    sizes = sizes_for(encoding)
    q = torch.zeros(1, 2 * sizes.heads, 3, sizes.head_dim)
    try:
        context = context_for(encoding, 3, q.dtype, batch=1)
        scores(q, q, encoding, causal=True, context=context)
    except ShapeError as error:
        require(str(sizes.heads) in str(error), f"the error does not name its heads: {error}")
    else:
        require(False, f"{2 * sizes.heads} heads were accepted by {encoding!r}")


@when(lambda e: e.tags.needs_context and attends(e))
def check_wrong_context(encoding: Encoding) -> None:
    """Without the layer's input, or with that of other tokens, it raises and guesses nothing."""
    made = copy_of(encoding)
    q, k, _ = qkv(made)
    longer = context_for(made, LENGTH + 1)
    wrong = {"no context": None, "an empty context": Context()}
    if longer is not None and longer.x is not None and made.payload(longer.x) is not None:
        wrong["x of one more token"] = longer
        wrong["x of another batch"] = replace(longer, x=longer.x[:1, :LENGTH].expand(3, -1, -1))
        wrong["x of another width"] = replace(longer, x=longer.x[:, :LENGTH, 1:])
    for what, context in wrong.items():
        try:
            scores(q, k, made, causal=True, context=context)
        except PosencError:
            continue
        require(False, f"{what} was accepted")


@when(lambda e: e.tags.compiles is True)
def check_compiles(encoding: Encoding) -> None:
    """torch.compile(fullgraph=True) gives the same output and gradients, at any length."""
    torch._dynamo.reset()
    whole, sizes = Whole(copy_of(encoding)), sizes_for(encoding)
    compiled = torch.compile(whole, fullgraph=True, backend="aot_eager")
    for length in (LENGTH, 2 * LENGTH):
        x = torch.randn(2, length, sizes.heads * sizes.head_dim, dtype=torch.float64)
        x.requires_grad_()
        # Raises where the graph holds for one length only; other sizes may be numbers in it.
        torch._dynamo.mark_dynamic(x, 1)
        leaves = [x, *whole.parameters()]
        results = [with_gradients(run(x), leaves) for run in (compiled, whole)]
        for got, wanted in zip(*results, strict=True):
            require_close(got, wanted, 1e-9, f"length {length}")


@when(lambda e: e.tags.exports is True)
def check_exports(encoding: Encoding) -> None:
    """torch.export with a dynamic length gives the same output at other lengths."""
    whole, sizes = Whole(copy_of(encoding)), sizes_for(encoding)
    x = torch.randn(2, LENGTH, sizes.heads * sizes.head_dim, dtype=torch.float64)
    length = torch.export.Dim("length", min=2, max=2 * LENGTH)
    exported = torch.export.export(whole, (x,), dynamic_shapes={"x": {1: length}}).module()
    for at in (2, LENGTH, 2 * LENGTH):
        x = torch.randn(2, at, sizes.heads * sizes.head_dim, dtype=torch.float64)
        require_close(exported(x), whole(x), 1e-12, f"length {at}")
