"""Faults in encodings of the embeddings."""

import posenc as pe
from tests.support.faults.examples import sinusoid
from tests.support.faults.fault import Fault

FAULTS = [
    Fault(
        "positions in the activation dtype, sinusoidal",
        "posenc.encodings.sinusoidal:Sinusoidal.table",
        "positions.double()",
        "positions.bfloat16().double()",
        sinusoid,
        "check_low_precision",
    ),
    Fault(
        "positions normalised by the length",
        "posenc.encodings.sinusoidal:Sinusoidal.table",
        "positions.double()",
        "(positions.double() / (1 + positions.double().max()))",
        sinusoid,
        "check_causal_leak",
    ),
    Fault(
        "rows and columns exchanged in a sinusoid",
        "posenc.encodings.grid_sinusoidal:GridSinusoidal.vectors",
        "tokens[..., axis]",
        "tokens[..., axis - 1]",
        lambda: pe.GridSinusoidal(16, grid=(3, 4)),
        "check_reference_embed",
    ),
    Fault(
        "x * p where x * (1 + p) is meant",
        "posenc.encodings._absolute:merged",
        "x * (1 + p)",
        "x * p",
        lambda: pe.Ordinal("multiply"),
        "check_reference_embed",
    ),
    Fault(
        "tensor2tensor's denominators with one step too many",
        "posenc.encodings.sinusoidal:Sinusoidal.frequencies",
        "self.dim // 2 - 1",
        "self.dim // 2",
        lambda: pe.Sinusoidal(8, layout="half", denominator="tensor2tensor"),
        "check_reference_embed",
    ),
    Fault(
        "binary digits highest first",
        "posenc.encodings.binary:Binary.vectors",
        "// powers %",
        "// powers.flip(0) %",
        lambda: pe.Binary(8),
        "check_reference_embed",
    ),
    Fault(
        "the quarter turn between the two waves of a pair lost",
        "posenc.encodings.waveform:Waveform.vectors",
        "* 0.25",
        "* 0.0",
        lambda: pe.Waveform(8, "triangle"),
        "check_reference_embed",
    ),
    Fault(
        "frequencies of a wave kept in float32",
        "posenc.encodings.waveform:Waveform.vectors",
        "self.turns_per_token(tokens.device)",
        "self.turns_per_token(tokens.device).float()",
        lambda: pe.Waveform(16, "triangle"),
        "check_far_positions",
    ),
    Fault(
        "rows of a recurrence one position late",
        "posenc.encodings.recurrent:Recurrent.rows",
        "rows = [p]",
        "rows = [p, p]",
        lambda: pe.Recurrent(16, max_length=24),
        "check_reference_embed",
        alone=True,
    ),
    Fault(
        "the gradient of a recurrence cut at every step",
        "posenc.encodings.recurrent:Recurrent.rows",
        "rows.append(p)",
        "rows.append(p); p = p.detach()",
        lambda: pe.Recurrent(16, max_length=24),
        "check_gradients",
        alone=True,
    ),
    Fault(
        "a solver that forgets the time",
        "posenc.encodings.floater:rk4",
        "t = i * h",
        "t = 0.0",
        lambda: pe.FLOATER(16, max_length=24),
        "check_reference_embed",
    ),
]
