"""What the property page measures beyond single encodings: scalings, decay, whole models."""

import math
from collections.abc import Callable, Iterator, Mapping
from typing import NamedTuple

import torch
from torch import Tensor

import posenc as pe
from posenc.analysis import measure
from posenc.analysis.toy_models import GRUReader, TextCNN, TransformerReader
from posenc.encodings.scaling import Scaling
from posenc.testing.fixtures import tokens_for

# Below this a difference of float64 numbers of size 1 is rounding.
ZERO = 1e-9

REACH = 4096
SCALED = {"pairs": 64, "trained": 4096, "factor": 8, "length": 8 * 4096}


class Part(NamedTuple):
    """A table, and the key of what is said before it, with the sizes that it names."""

    text: str
    sizes: Mapping[str, int]
    rows: list[dict[str, str]]


def parts() -> Iterator[Part]:
    yield Part("scaled", SCALED, list(scaled()))
    yield Part("decay", {"reach": REACH}, list(decays()))
    yield Part("order", {}, list(orders()))


def yes(claim: bool) -> str:
    return "yes" if claim else "no"


def scalings(pairs: int, trained: int, factor: int) -> Iterator[Scaling | None]:
    yield None
    yield pe.Linear(factor)
    yield pe.NTK(factor)
    yield pe.DynamicNTK(1.0, trained)
    yield pe.YaRN(factor, trained)
    yield pe.Llama3(factor, 1.0, 4.0, trained)
    long = [factor ** (i / (pairs - 1)) for i in range(pairs)]
    yield pe.LongRoPE([1.0] * pairs, long, trained, factor)
    yield pe.Proportional(0.25)


def scaled() -> Iterator[dict[str, str]]:
    pairs, trained, factor, length = SCALED.values()
    plain = pe.Rotary(2 * pairs)
    before = measure.largest_angles(plain, trained)
    for scaling in scalings(pairs, trained, factor):
        rotary = pe.Rotary(2 * pairs, scaling=scaling)
        speed = measure.frequencies(rotary, length)
        turned = measure.turns(speed, trained)
        angles = measure.largest_angles(rotary, length)
        reach = before * trained / (trained - 1) * (1 + ZERO)
        new = (before < 2 * math.pi) & (angles > reach)
        turning = measure.wavelengths(speed[speed > 0])
        slower = (measure.frequencies(plain) / speed)[speed > 0]
        yield {
            "scaling": "none" if scaling is None else f"`{type(scaling).__name__}`",
            "fastest": f"{turning.min():.1f}",
            "slowest": f"{turning.max():,.0f} tokens",
            "slowed by": f"{slower.min():.2f} to {slower.max():.2f}",
            f"turn once in {trained}": f"{int((turned >= 1).sum())}",
            f"new angles at {length}": f"{int(new.sum())}",
            "follows the length": yes(rotary.tags.length_dependent),
        }


def decays() -> Iterator[dict[str, str]]:
    distance = torch.arange(REACH)
    for dim in (16, 32, 64, 128):
        speed = measure.frequencies(pe.Sinusoidal(dim))[0]
        kinds: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
            "sum of cosines": measure.cosine_sum,
            "RoFormer's bound": measure.abel_bound,
        }
        for name, of in kinds.items():
            fall = measure.decay(of(speed, distance))
            crossed = fall.crossings[:1].tolist()
            yield {
                "curve": name,
                "dimensions": str(dim),
                "first rise": f"from {int(fall.rises[0])}",
                "steps that rise": f"{len(fall.rises)} of {REACH - 1}",
                "first zero": f"{crossed[0]:.1f}" if crossed else "none",
                "zeros": str(len(fall.crossings)),
            }


def orders() -> Iterator[dict[str, str]]:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        vocab, dim = 19, 32
        tokens = tokens_for(12, batch=8)
        shuffled = measure.permutations(12)
        models: dict[str, torch.nn.Module] = {
            "GRU, last state": GRUReader(vocab, dim),
            "textCNN, maximum over time": TextCNN(vocab, dim),
        }
        for causal in (False, True):
            for name, encoding in (
                ("no position", pe.NoPE()),
                ("sinusoidal", pe.Sinusoidal(dim)),
                ("rotary", pe.Rotary(dim // 4)),
                ("ALiBi", pe.ALiBi(4)),
            ):
                kind = "decoder" if causal else "encoder"
                models[f"Transformer {kind}, {name}"] = TransformerReader(
                    vocab, dim, encoding, causal=causal
                )
        for name, model in models.items():
            model = model.double().eval()
            pooled = measure.permutation_sensitivity(model, tokens, shuffled)
            each = "-"
            if isinstance(model, TransformerReader):
                moved = measure.equivariance_error(model.model, tokens, shuffled)
                each = changes(moved)
            yield {"model": name, "sentence": changes(pooled), "tokens": each}


def changes(change: Tensor) -> str:
    return "changes" if change.max() > 0 else "0"
