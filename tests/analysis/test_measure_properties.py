"""Encodings have the properties that their tags claim."""

import sys
from pathlib import Path

import posenc as pe

sys.path.append(str(Path(__file__).parents[2] / "tools"))
import properties


def test_properties_of_three_encodings() -> None:
    sinusoid, alibi = (properties.geometry(properties.drawn(k)) for k in (pe.Sinusoidal, pe.ALiBi))
    assert list(sinusoid.values()) == [
        "`sinusoidal`", "positions", "yes", "1", "yes", "no", "yes", "no", "no", "positions"
    ]  # fmt: skip
    assert list(alibi.values()) == [
        "`alibi`", "distances", "to 256", "65", "-", "yes", "no", "no", "yes", "distances"
    ]  # fmt: skip
    measured = properties.use(properties.drawn(pe.LMInfinite))
    assert measured["causal only"] == "yes"
    assert measured["decodes"] == "raw"
    assert measured["linear attention"] == measured["SDPA"] == "no"
    lines = properties.table([sinusoid, alibi]).splitlines()
    assert len(lines) == 4
    assert all(line.count("|") == 11 for line in lines)


def test_properties_name_what_is_not_relative() -> None:
    claims = {pe.SelfExtend: False, pe.FIRE: False, pe.Rotary: True, pe.ForgetGate: True}
    for kind, claim in claims.items():
        assert properties.relative(properties.drawn(kind)) is claim
