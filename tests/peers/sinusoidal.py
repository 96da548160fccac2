import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import torch
from torch import Tensor

from posenc.encodings import Sinusoidal, Waveform
from posenc.encodings._absolute import Absolute
from posenc.encodings.waveform import Wave
from posenc.positions import Positions
from posenc.testing.agreement import Case, peer

LENGTHS = (1, 7, 150)


@peer("sinusoidal", "transformers")
def tables_in_float64() -> Iterator[Case]:
    """tables of CTRL, DETR and Whisper, made in float64"""
    from transformers.models.ctrl.modeling_ctrl import positional_encoding
    from transformers.models.detr.modeling_detr import DetrSinePositionEmbedding
    from transformers.models.whisper.modeling_whisper import sinusoids

    for length in LENGTHS:
        for dim in (80, 9, 1):
            half = Sinusoidal(dim, layout="half")
            yield _added(half, length, positional_encoding(length, dim, torch.float64))
        for dim, base in ((80, 10_000), (2, 10_000), (12, 20)):
            # DETR counts rows and columns of an image from 1; its first half are rows.
            peer = DetrSinePositionEmbedding(dim, temperature=base)
            shape = torch.Size((1, 3, length, 2))
            table = peer(shape, torch.device("cpu"), torch.float64)[0, :dim, :, 0].T
            yield _added(Sinusoidal(dim, base=base), length, table, first=1)
        for dim, base in ((80, 10_000.0), (4, 500.0)):
            ours = Sinusoidal(dim, base=base, layout="half", denominator="tensor2tensor")
            with _float64_by_default():
                yield _added(ours, length, sinusoids(length, dim, base))


@peer(
    "sinusoidal",
    "transformers",
    forward=6e-8,
    cap="their tables are rounded to float32",
)
def tables_kept_in_float32() -> Iterator[Case]:
    """tables of XLM, RoFormer and Marian"""
    from transformers.models.marian.modeling_marian import MarianSinusoidalPositionalEmbedding
    from transformers.models.roformer.modeling_roformer import RoFormerSinusoidalPositionalEmbedding
    from transformers.models.xlm.modeling_xlm import create_sinusoidal_embeddings

    for length in LENGTHS:
        for dim in (80, 9):
            empty = torch.empty(length, dim, dtype=torch.float64)
            table = create_sinusoidal_embeddings(length, dim, empty)
            yield _added(Sinusoidal(dim), length, table)
            for kind in (
                RoFormerSinusoidalPositionalEmbedding,
                MarianSinusoidalPositionalEmbedding,
            ):
                table = kind(length, dim).double().create_weight()
                yield _added(Sinusoidal(dim, layout="half"), length, table)


@peer(
    "sinusoidal",
    "transformers",
    forward=1e-5,
    cap="their angles are float32, at positions up to 151",
)
def modules_with_float32_angles() -> Iterator[Case]:
    """M2M100SinusoidalPositionalEmbedding and SpeechT5ScaledPositionalEncoding, the modules"""
    from transformers.models.m2m_100.modeling_m2m_100 import M2M100SinusoidalPositionalEmbedding
    from transformers.models.speecht5.modeling_speecht5 import SpeechT5ScaledPositionalEncoding

    for length in LENGTHS:
        for dim in (80, 9, 5):
            ours = Sinusoidal(dim, layout="half", denominator="tensor2tensor")
            # Tokens count from padding_idx + 1, as in fairseq.
            peer = M2M100SinusoidalPositionalEmbedding(4, dim, padding_idx=1)
            table = peer(torch.full((1, length), 5))[0]
            yield _added(ours, length, table, first=2)
        speech = SpeechT5ScaledPositionalEncoding(0.0, 80, max_len=length).double()
        yield _case(Sinusoidal(80), length, speech, [_values(length, 80)])


@peer(
    "sinusoidal",
    "x-transformers",
    forward=1e-5,
    cap="its frequencies are float32, at positions up to 149",
)
def module_of_x_transformers() -> Iterator[Case]:
    """ScaledSinusoidalEmbedding, its scale set to 1"""
    from x_transformers.x_transformers import ScaledSinusoidalEmbedding

    for length in LENGTHS:
        for theta in (10_000, 50):
            peer = ScaledSinusoidalEmbedding(80, theta).double()
            torch.nn.init.ones_(peer.scale)
            x = _values(length, 80)
            ours = Sinusoidal(80, base=theta, layout="half")
            yield _case(ours, length, lambda x, peer=peer: x + peer(x), [x])


@peer(
    "waveform",
    "transformers",
    forward=6e-8,
    cap="their table is rounded to float32",
)
def sine_in_quadrature() -> Iterator[Case]:
    """table of XLM: Waveform's default is the sinusoid"""
    from transformers.models.xlm.modeling_xlm import create_sinusoidal_embeddings

    for length in LENGTHS:
        for dim in (80, 9):
            empty = torch.empty(length, dim, dtype=torch.float64)
            table = create_sinusoidal_embeddings(length, dim, empty)
            yield _added(Waveform(dim), length, table)


@peer("waveform", "scipy")
def waves_of_scipy() -> Iterator[Case]:
    """signal.square and signal.sawtooth, whose width 1/2 makes triangles"""
    from scipy import signal

    # Each in phase with the sine.
    waves: dict[Wave, Callable] = {
        "square": signal.square,
        "sawtooth": lambda angle: signal.sawtooth(angle + math.pi),
        "triangle": lambda angle: signal.sawtooth(angle + math.pi / 2, width=0.5),
    }
    frequencies = [1.0, 0.31, 0.043, 0.007]
    for length in LENGTHS:
        at = torch.arange(length, dtype=torch.float64)
        angle = at[:, None] * torch.tensor(frequencies, dtype=torch.float64)
        for name, wave in waves.items():
            pair = [torch.as_tensor(wave(angle + shift)) for shift in (0.0, math.pi / 2)]
            ours = Waveform(8, wave=name, frequencies=frequencies)
            yield _added(ours, length, torch.stack(pair, dim=-1).flatten(-2))
            single = Waveform(4, wave=name, pairing="single", frequencies=frequencies)
            yield _added(single, length, pair[0])


def _values(length: int, dim: int) -> Tensor:
    return torch.randn(2, length, dim, dtype=torch.float64)


def _added(ours: Absolute, length: int, table: Tensor, first: int = 0) -> Case:
    """ours.embed against x + table, at positions first, first + 1, ..."""
    table = table.double()
    return _case(ours, length, lambda x: x + table, [_values(length, ours.columns)], first)


def _case(
    ours: Absolute,
    length: int,
    theirs: Callable[[Tensor], Tensor],
    inputs: list[Tensor],
    first: int = 0,
) -> Case:
    at = Positions.build(ids=torch.arange(first, first + length))
    return Case(f"{ours!r}, length {length}", lambda x: ours.embed(x, at), theirs, inputs)


@contextmanager
def _float64_by_default() -> Iterator[None]:
    before = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)
    try:
        yield
    finally:
        torch.set_default_dtype(before)
