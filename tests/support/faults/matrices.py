"""Faults in what multiplies queries and keys by matrices."""

import posenc as pe
from tests.support.faults.fault import Fault

FAULTS = [
    Fault(
        "matrices of tokens transposed",
        "posenc.transform:multiplied",
        "bhtnoi,bhtni->bhtno",
        "bhtnio,bhtni->bhtno",
        lambda: pe.LieRE(10, block=4, unit=8.0),
        "check_reference_scores",
    ),
    Fault(
        "keys cached as given and taken for multiplied",
        "posenc.transform:multiplied_keys",
        "return multiplied(k, matrices, arithmetic(k)).to(k.dtype)",
        "return k",
        lambda: pe.LieRE(10, block=4, unit=8.0),
        "check_decoding",
    ),
    Fault(
        "generators of rows and columns exchanged",
        "posenc.encodings.liere:LieRE.matrices",
        "tokens, generators",
        "tokens.flip(-1), generators",
        lambda: pe.LieRE(6, heads=4, axes=2, grid=(3, 4), unit=3.0),
        "check_reference_scores",
    ),
    Fault(
        "an exponential of each axis, multiplied",
        "posenc.encodings.liere:LieRE.matrices",
        "return torch.linalg.matrix_exp(sums.contiguous())",
        """\
of_rows = torch.linalg.matrix_exp(torch.einsum("bt,hnij->bhtnij", tokens[..., 0], generators[0]))
    rest = torch.einsum("bt,hnij->bhtnij", tokens[..., 1], generators[1])
    return of_rows @ torch.linalg.matrix_exp(rest)""",
        lambda: pe.LieRE(6, heads=4, axes=2, grid=(3, 4), unit=3.0),
        "check_reference_scores",
    ),
    Fault(
        "the inverse of Cayley's basis",
        "posenc.encodings.cayley_string:CayleySTRING.basis",
        "one + each, one - each",
        "one - each, one + each",
        lambda: pe.CayleySTRING(8, heads=4),
        "check_reference_scores",
    ),
    Fault(
        "circulants by rows in place of columns",
        "posenc.encodings.circulant_string:CirculantSTRING.angles",
        "self._sines(self.c.device)",
        "-self._sines(self.c.device)",
        lambda: pe.CirculantSTRING(8, heads=4),
        "check_reference_scores",
    ),
    Fault(
        "a plane that turns the other way",
        "posenc.encodings.grape:GRAPE._plane",
        "speed = -self",
        "speed = self",
        lambda: pe.GRAPE(7, heads=4),
        "check_reference_scores",
    ),
]
