"""Checks of the numbers: the paper's formula, low precision, far positions, gradients."""

from collections.abc import Iterator
from dataclasses import replace

import torch
from torch import Tensor

from posenc.analysis.probe_context import embeds
from posenc.encoding import Encoding
from posenc.errors import CheckError, PosencError
from posenc.positions import Positions, Tokens
from posenc.testing.fixtures import (
    LENGTH,
    Trial,
    attends,
    causalities,
    require,
    require_close,
    scattered,
    shifted,
    unordered,
    when,
)
from posenc.testing.paper import (
    embedded_by_the_paper,
    output_by_the_paper,
    results_by_the_paper,
    scores_by_the_paper,
)

LOW = (torch.bfloat16, torch.float16)
# The precision of outputs is that of backends, which have checks of their own.
FORMULAS = ("embed", "scores")
# Beyond the tables of small examples, and as long as a slow formula bears.
LONG = 320


@when(embeds)
def check_reference_embed(encoding: Encoding) -> None:
    """`embed` equals the paper's formula in float64."""
    trial, positions = Trial.of(encoding), _told(encoding, unordered())
    expected = embedded_by_the_paper(trial.encoding, trial.x, positions)
    require_close(trial.embed(positions), expected, 1e-9, "embed against reference_embed")


@when(attends)
def check_reference_scores(encoding: Encoding) -> None:
    """Scores equal the paper's formula in float64, at any positions and with fewer queries."""
    for what, positions in _places(encoding):
        trial = Trial.of(encoding, positions.q_len, positions.k_len, batch=max(2, positions.batch))
        _require_scores(trial, positions, what)


def _places(encoding: Encoding) -> Iterator[tuple[str, Positions]]:
    """Where tokens are, in as many ways as `lower` can tell apart but for padding and documents."""
    for causal in causalities(encoding):
        places = [(shifted(5) if causal else unordered()).keys.position]
        if encoding.axes > 1:
            places.append(scattered(encoding.axes))
        for q_len in (LENGTH, 4):
            for ids in places:
                what = f"causal={causal}, {q_len} queries, positions of shape {tuple(ids.shape)}"
                yield what, Positions.build(q_len, ids=ids, causal=causal)
        start = Positions.build(LENGTH, start=2, causal=causal)
        yield f"causal={causal}, positions from a start of 2", start
        rows = torch.arange(LENGTH) + torch.arange(5)[:, None]
        yield f"causal={causal}, 5 rows", Positions.build(4, ids=rows, causal=causal)
        gaps = _told(encoding, Positions.build(ids=torch.arange(LENGTH) * 3, causal=causal))
        yield f"causal={causal}, gaps, and no extent that no tag asks for", gaps
    yield f"the last query of {LONG} tokens", Positions.build(1, LONG, causal=True)
    # What a context tells is of one layer, in which the queries are among the keys.
    if not (encoding.tags.causal_only or encoding.tags.needs_context):
        count = torch.arange(7)
        queries = Tokens(count % 4, order=count)
        for keys in (count[:4], count):
            sides = Positions(queries, Tokens(keys % 4, order=keys), extent=4)
            yield f"7 queries on {len(keys)} keys of others", sides


def _told(encoding: Encoding, positions: Positions) -> Positions:
    """Without an extent, as bare tensors are, where the tags ask for none."""
    return positions if encoding.tags.needs_extent else replace(positions, extent=None)


def _require_scores(trial: Trial, positions: Positions, what: str) -> None:
    where = {"q": trial.q, "k": trial.k, "positions": positions, "context": trial.context}
    actual, expected = (
        trial.scores(positions=positions),
        scores_by_the_paper(trial.encoding, **where),
    )
    try:
        require_close(actual, expected, 1e-9, what)
    except CheckError as error:
        # Only a failure is diagnosed, and the suite is imported with the library.
        from posenc.analysis.diagnose import diagnose

        try:
            cause = diagnose(expected, actual, trial.encoding, **where).cause
        except PosencError:
            cause = "unknown"
        likely = "" if cause in ("none", "unknown") else f"; likely: {cause}"
        raise CheckError(f"{error}{likely}") from None


@when(attends)
def check_reference_output(encoding: Encoding) -> None:
    """The output equals the paper's formula for the values in float64."""
    trial = Trial.of(encoding)
    positions = shifted(0) if encoding.tags.causal_only else unordered()
    s = trial.scores(positions=positions)
    expected = output_by_the_paper(trial.encoding, trial.q, s, trial.v, positions, trial.context)
    require_close(trial.attend(positions=positions), expected, 1e-9, "output")


@when(lambda encoding: not encoding.tags.needs_extent)
def check_far_positions(encoding: Encoding) -> None:
    """A million tokens on, float32 still agrees with the paper's formula in float64."""
    trial = Trial.of(encoding, dtype=torch.float32)
    for offset in (4_096, 1_000_000):
        _require_formulas(trial, offset, dict.fromkeys(FORMULAS, 1e-5))


def check_low_precision(encoding: Encoding) -> None:
    """bfloat16 and float16 round inputs, parameters and outputs, never positions or tables."""
    # Tables of small examples do not reach far.
    offset = 0 if encoding.tags.needs_extent else 4_096
    for dtype in LOW:
        bounds = {"embed": 2.0 * torch.finfo(dtype).eps, "scores": 1e-5}
        _require_formulas(Trial.of(encoding, dtype=dtype), offset, bounds)


def _require_formulas(trial: Trial, offset: int, bounds: dict[str, float]) -> None:
    positions = shifted(offset)
    actual, expected = trial.results(positions), results_by_the_paper(trial, positions)
    for name in bounds.keys() & actual.keys():
        what = f"{name} at {offset} in {trial.q.dtype}"
        require_close(actual[name], expected[name], bounds[name], what)


@when(lambda encoding: attends(encoding) and not encoding.tags.needs_extent)
def check_long_inputs(encoding: Encoding) -> None:
    """Among 32 thousand keys float32 still agrees with float64: no sum of many tokens is lost."""
    trial = Trial.of(encoding, 1, 1 << 15, torch.float32)
    expected = trial.to(torch.float64).scores(causal=True)
    require_close(trial.scores(causal=True), expected, 1e-5, "the last query of 32,768 tokens")


@when(attends)
def check_autocast(encoding: Encoding) -> None:
    """Autocast does not reach the scores: they are the same under it."""
    trial, positions = Trial.of(encoding, dtype=torch.float32), Positions.build(LENGTH, causal=True)
    plain = trial.results(positions)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        under = trial.results(positions)
    for name in ("scores", "output"):
        require_close(under[name], plain[name], 1e-6, f"{name} under autocast")


def check_dtypes(encoding: Encoding) -> None:
    """Results have the dtype of the input, scores at least float32."""
    for dtype in (torch.float64, torch.float32, *LOW):
        results = Trial.of(encoding, dtype=dtype).results(Positions.build(LENGTH, causal=True))
        for name, result in results.items():
            wanted = torch.float32 if name == "scores" and dtype in LOW else dtype
            require(result.dtype == wanted, f"{name} of {dtype} is {result.dtype}, not {wanted}")


def check_training(encoding: Encoding) -> None:
    """In training it computes what it computes in evaluation."""
    trial, positions = Trial.of(encoding), Positions.build(LENGTH, causal=True)
    expected = trial.results(positions)
    trial.encoding.train()
    for name, result in trial.results(positions).items():
        require_close(result, expected[name], 1e-12, f"{name} in training")


def check_kept_in_float32(encoding: Encoding) -> None:
    """Casting the module down and up again loses nothing but the precision of its parameters."""
    trial = Trial.of(encoding, dtype=torch.float32)
    kept = {n: p.detach().clone() for n, p in trial.encoding.named_parameters()}
    cast = trial.to(torch.bfloat16).encoding
    for name in trial.encoding.keep_float32:
        require_close(cast.get_parameter(name), kept[name], 0.0, f"{name} after .bfloat16()")
    rounded = {
        name: value if name in trial.encoding.keep_float32 else value.bfloat16().float()
        for name, value in trial.encoding.state_dict().items()
    }
    trial.encoding.load_state_dict(rounded)
    positions = Positions.build(LENGTH, causal=True)
    expected, actual = (
        replace(trial, encoding=each).results(positions) for each in (trial.encoding, cast.float())
    )
    for name, result in actual.items():
        require_close(result, expected[name], 0.0, f"{name} after .bfloat16().float()")


def check_gradients(encoding: Encoding) -> None:
    """Gradients of inputs and parameters are those of finite differences."""
    trial, positions = Trial.of(encoding, 4, batch=1), Positions.build(4, causal=True)
    inputs = trial.qkv if attends(encoding) else (trial.x,)

    def run(*tensors: Tensor) -> Tensor:
        if not attends(encoding):
            return trial.encoding.embed(tensors[0], positions)
        q, k, v = tensors[:3]
        return replace(trial, q=q, k=k, v=v).attend(positions=positions, backend="reference")

    passed = torch.autograd.gradcheck(
        run,
        (*(x.requires_grad_() for x in inputs), *trial.encoding.parameters()),
        raise_exception=False,
        fast_mode=True,
        check_undefined_grad=False,
    )
    require(passed, "gradients differ from finite differences in float64")


def check_finite(encoding: Encoding) -> None:
    """No NaN appears, in the output or a gradient, also where a row sees nothing."""
    trial = Trial.of(encoding)
    if not attends(encoding):
        embedded = trial.embed(Positions.build(LENGTH))
        require(bool(embedded.isfinite().all()), "embed gives values that are not finite")
        return
    mask = torch.ones(2, LENGTH, dtype=torch.bool)
    mask[0] = False
    mask[1, :3] = False
    leaves = [*(x.requires_grad_() for x in trial.qkv), *trial.encoding.parameters()]
    positions = Positions.build(attention_mask=mask, causal=True)
    # The equation, too: it is what all backends are compared with.
    for backend in ("auto", "reference"):
        out = trial.attend(positions=positions, backend=backend)
        require(not out[0].abs().max() > 0, "a row that sees nothing is not zero")
        grads = torch.autograd.grad(out.sum(), leaves, allow_unused=True)
        for value in (out, *(grad for grad in grads if grad is not None)):
            require(bool(value.isfinite().all()), "values or gradients that are not finite")
