"""Faults in what reads content: gates, and steps that tokens tell."""

import posenc as pe
from tests.support.faults.examples import forget_gate
from tests.support.faults.fault import Fault

FAULTS = [
    Fault(
        "a convolution across documents",
        "posenc.encodings.path:_earlier",
        "found = found & (own.gather(-1, at) == own)",
        "pass",
        lambda: pe.PaTH(16, heads=4),
        "check_packed",
    ),
    Fault(
        "the gate of the key is summed too",
        "posenc.encodings.forget_gate:ForgetGate.lower",
        "own), -total)",
        "own), log_f - total)",
        forget_gate,
        "check_reference_scores",
    ),
    Fault(
        "the gate of the query is left out",
        "posenc.encodings.forget_gate:ForgetGate.lower",
        "last = total[...",
        "last = (total - log_f)[...",
        forget_gate,
        "check_reference_scores",
    ),
    Fault(
        "slopes of CABLE of the other sign",
        "posenc.encodings.cable:CABLE._log_gate",
        "F.logsigmoid(-logit)",
        "F.logsigmoid(logit)",
        lambda: pe.CABLE(16, 4),
        "check_reference_scores",
    ),
    Fault(
        "selective RoPE's convolution reads across documents",
        "posenc.encodings.selective_rotary:SelectiveRotary.steps",
        "if document is not None and back:",
        "if False:",
        lambda: pe.SelectiveRotary(18, 3, 6, rank=4, conv=3),
        "check_packed",
    ),
    Fault(
        "steps of selective RoPE in float32",
        "posenc.encodings._cumulated:CumulatedRotary.read",
        "x.double()",
        "x.float()",
        lambda: pe.SelectiveRotary(16, 4, 4, conv=1),
        "check_reference_scores",
    ),
    Fault(
        "Mamba-3's angles without the time that a token takes",
        "posenc.encodings.mamba3_rotary:Mamba3Rotary.payload",
        "time[:, :, None]",
        "time[:, :, None] ** 0",
        lambda: pe.Mamba3Rotary(16, 2, 8),
        "check_reference_scores",
    ),
    Fault(
        "a curve of distances that does not end",
        "posenc.encodings.relative_projection:RelativeProjection.lower",
        "torch.cat((end, self.curves.mT.flip(0), end))",
        "torch.cat((self.curves.mT.flip(0)[:1], self.curves.mT.flip(0), end))",
        lambda: pe.RelativeProjection(16, 4, extent=4, rank=3),
        "check_reference_scores",
    ),
    Fault(
        "gates summed in float32",
        "posenc.encodings.forget_gate:ForgetGate.lower",
        "log_f.double().cumsum",
        "log_f.cumsum",
        forget_gate,
        "check_long_inputs",
        alone=True,
    ),
    Fault(
        "gates in the activation dtype",
        "posenc.encodings.forget_gate:ForgetGate.payload",
        "self._log_gate(logit)",
        "self._log_gate(logit.to(x.dtype))",
        forget_gate,
        "check_low_precision",
        alone=True,
    ),
    Fault(
        "gates under autocast",
        "posenc.encodings.forget_gate:ForgetGate.payload",
        "with autocast_off(x.device):",
        "if True:",
        forget_gate,
        "check_autocast",
    ),
]
