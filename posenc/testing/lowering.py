"""Checks of the lowering: every backend, cache, mask and graph gives what the equation says."""

from dataclasses import replace

import torch
from jaxtyping import Bool
from torch import Tensor

from posenc.analysis.probe_context import context_for, sizes_for
from posenc.attention import attend
from posenc.encoding import Context, Encoding
from posenc.errors import PosencError, ShapeError
from posenc.lowering import lower
from posenc.positions import Positions
from posenc.testing.backends import OUTPUTS, named
from posenc.testing.fixtures import (
    LENGTH,
    VOCABULARY,
    Trial,
    Whole,
    attends,
    backends_for,
    causalities,
    copy_of,
    model_for,
    require,
    require_close,
    tokens_for,
    when,
)


@when(attends)
def check_inputs_untouched(encoding: Encoding) -> None:
    """attend, scores and lower write into none of their inputs, and repeat themselves."""
    trial = Trial.of(encoding)
    inputs = [*trial.qkv, *trial.encoding.parameters()]
    before = [tensor.clone() for tensor in inputs]
    first, second = trial.attend(causal=True), trial.attend(causal=True)
    require_close(second, first, 0.0, "a second call")
    for now, then in zip(inputs, before, strict=True):
        require_close(now, then, 0.0, "an input after the call")


@when(attends)
def check_lowered_once(encoding: Encoding) -> None:
    """Terms lowered once give what the encoding gives, in any order of the terms."""
    trial = Trial.of(encoding)
    for causal in causalities(encoding):
        positions = Positions.build(LENGTH, causal=causal)
        expected = trial.attend(positions=positions)
        lowered = lower(trial.encoding, positions, dtype=torch.float64, context=trial.context)
        require_close(attend(*trial.qkv, lowered), expected, 1e-12, "lowered terms")
        backwards = attend(*trial.qkv, list(reversed(lowered.terms)), positions=positions)
        require_close(backwards, expected, 1e-12, "terms in reversed order")


def check_packed(encoding: Encoding) -> None:
    """Packed documents get what each gets alone, in rows of their own and beside padding, too."""
    lengths, others = [3, 1, 5], [4, 5]
    rows = torch.tensor([[0, 0, 0, 1, 2, 2, 2, 2, 2], [0, 0, 0, 0, 1, 1, 1, 1, 1]])
    padded = torch.cat((rows, rows[:, -1:].expand(-1, 2)), dim=1)
    for causal in causalities(encoding):
        model, tokens = model_for(encoding, causal=causal), tokens_for(LENGTH)
        alone, other = (
            torch.cat([model(part) for part in tokens.split(sizes, dim=1)], dim=1)
            for sizes in (lengths, others)
        )
        packed = model(tokens, Positions.build(lengths=lengths, causal=causal))
        require_close(packed, alone, 1e-9, f"causal={causal}")
        own = torch.stack((alone[0], other[1]))
        positions = Positions.build(documents=rows, causal=causal)
        require_close(model(tokens, positions), own, 1e-9, f"causal={causal}, a row of its own")
        real = (torch.arange(LENGTH + 2) < LENGTH).expand(2, -1)
        positions = Positions.build(documents=padded, attention_mask=real, causal=causal)
        beside = model(torch.cat((tokens, tokens[:, :2]), dim=1), positions)[:, :LENGTH]
        require_close(beside, own, 1e-9, f"causal={causal}, beside padding")


def check_padding(encoding: Encoding) -> None:
    """Padding on the left or on the right changes nothing for real tokens."""
    for causal in causalities(encoding):
        model, tokens = model_for(encoding, causal=causal), tokens_for(6)
        alone = model(tokens)
        for side, real in (("left", slice(3, 9)), ("right", slice(0, 6))):
            padded, mask = tokens_for(9, seed=23), torch.zeros(2, 9)
            padded[:, real], mask[:, real] = tokens, 1
            positions = Positions.build(attention_mask=mask, causal=causal)
            actual = model(padded, positions)[:, real]
            require_close(actual, alone, 1e-9, f"{side}, causal={causal}")


def check_other_rows(encoding: Encoding) -> None:
    """What is not a number in one row of the batch reaches no other, forward or backward."""
    first = torch.tensor([[True], [False]])
    for causal in causalities(encoding):
        for length in (LENGTH,) if encoding.tags.needs_extent else (LENGTH, 130):
            positions = Positions.build(length, causal=causal)
            _require_unspoilt(encoding, first.expand(-1, length), positions, "qkv")


def check_hidden_tokens(encoding: Encoding) -> None:
    """What is not a number in padding reaches no real token, forward or backward."""
    hidden = torch.tensor([[True] * 3 + [False] * 6, [False] * 6 + [True] * 3])
    for causal in causalities(encoding):
        positions = Positions.build(attention_mask=~hidden, causal=causal)
        # Queries of padding see real tokens, whose gradients know of them.
        _require_unspoilt(encoding, hidden, positions, "kv")


def _require_unspoilt(
    encoding: Encoding, spoilt: Bool[Tensor, "2 t"], positions: Positions, sides: str
) -> None:
    """Models and backends say of the other tokens what they say where no `spoilt` one is NaN.

    sides  which of q, k and v a backend is given with NaN
    """
    what, length = f"beside NaN, causal={positions.causal}", positions.k_len
    model = model_for(encoding, causal=positions.causal)
    # The last word of the vocabulary is the one that is spoilt, and what is said of it.
    tokens = (tokens_for(length) % (VOCABULARY - 1)).masked_fill(spoilt, VOCABULARY - 1)
    with torch.no_grad():
        expected = model(tokens, positions)[~spoilt][:, :-1]
        model.embedding.token.weight[-1] = torch.nan
        require_close(model(tokens, positions)[~spoilt][:, :-1], expected, 1e-9, f"a model {what}")
    if not attends(encoding):
        return
    trial, rows = Trial.of(encoding, length), spoilt[:, None, :, None]
    nan = {side: getattr(trial, side).masked_fill(rows, torch.nan) for side in sides}
    for backend in backends_for(encoding):
        both = [
            named(each, backend, positions=positions) for each in (trial, replace(trial, **nan))
        ]
        for name in both[0]:
            expected, actual = (results[name] for results in both)
            if name in OUTPUTS:
                expected, actual = (x.masked_fill(rows, 0.0) for x in (expected, actual))
            elif "q" in sides:
                # Parameters learn of every query.
                continue
            require_close(actual, expected, 1e-9, f"{backend}, {name} {what}")


@when(lambda e: e.heads not in (None, 1) and attends(e))
def check_wrong_heads(encoding: Encoding) -> None:
    """A tensor with another number of heads is refused, not broadcast."""
    trial, heads = Trial.of(encoding), sizes_for(encoding).heads
    try:
        replace(trial, q=trial.q.repeat(1, 2, 1, 1)).scores(causal=True)
    except ShapeError as error:
        require(str(heads) in str(error), f"the error does not name its heads: {error}")
    else:
        require(False, f"{2 * heads} heads were accepted by {encoding!r}")


@when(lambda e: e.tags.needs_context and attends(e))
def check_wrong_context(encoding: Encoding) -> None:
    """Without the layer's input, or with that of other tokens, it raises and guesses nothing."""
    trial = Trial.of(encoding)
    wrong = {"no context": None, "an empty context": Context()}
    longer = context_for(encoding, LENGTH + 1)
    if longer is not None and longer.x is not None and trial.encoding.payload(longer.x) is not None:
        wrong["x of one more token"] = longer
        wrong["x of another batch"] = replace(longer, x=longer.x[:1, :LENGTH].expand(3, -1, -1))
        wrong["x of another width"] = replace(longer, x=longer.x[:, :LENGTH, 1:])
    for what, context in wrong.items():
        try:
            replace(trial, context=context).scores(causal=True)
        except PosencError:
            continue
        require(False, f"{what} was accepted")


@when(lambda e: e.tags.compiles is True)
def check_compiles(encoding: Encoding) -> None:
    """torch.compile(fullgraph=True) gives the same output and gradients, at any length."""
    torch._dynamo.reset()
    whole = Whole(copy_of(encoding))
    compiled = torch.compile(whole, fullgraph=True, backend="aot_eager")
    for length in (LENGTH, 2 * LENGTH):
        x = whole.input(length).requires_grad_()
        # Raises where the graph holds for one length only; other sizes may be numbers in it.
        torch._dynamo.mark_dynamic(x, 1)
        actual, expected = (
            _with_gradients(run(x), [x, *whole.parameters()]) for run in (compiled, whole)
        )
        for result, wanted in zip(actual, expected, strict=True):
            require_close(result, wanted, 1e-9, f"length {length}")


@when(lambda e: e.tags.exports is True)
def check_exports(encoding: Encoding) -> None:
    """torch.export with a dynamic length gives the same output at other lengths."""
    whole = Whole(copy_of(encoding))
    shapes = {"x": {1: torch.export.Dim("length", min=2, max=2 * LENGTH)}}
    exported = torch.export.export(whole, (whole.input(LENGTH),), dynamic_shapes=shapes).module()
    for length in (2, LENGTH, 2 * LENGTH):
        x = whole.input(length)
        require_close(exported(x), whole(x), 1e-12, f"length {length}")


def _with_gradients(out: Tensor, leaves: list[Tensor]) -> list[Tensor]:
    """An output and the gradients of a fixed function of it."""
    grads = torch.autograd.grad(out.sin().sum(), leaves, allow_unused=True)
    return [out, *(grad for grad in grads if grad is not None)]
