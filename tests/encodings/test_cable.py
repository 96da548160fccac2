"""CABLE: of what it is a case, and which of its cases others are."""

import torch

from posenc import CABLE, ALiBi, Context, ForgetGate, scores
from tests.support.oracles import drawing


def test_it_is_alibi_where_slopes_are_equal_and_a_forget_gate_of_the_other_sign() -> None:
    draw = drawing(1)
    q, k, x = draw(2, 4, 9, 6), draw(2, 4, 9, 6), draw(2, 9, 16)
    cable, gate, alibi = CABLE(16, 4).double(), ForgetGate(16, 4).double(), ALiBi(4)
    with torch.no_grad():
        gate.gate.weight.copy_(-cable.gate.weight)
        gate.gate.bias.copy_(-cable.gate.bias)
    found = [scores(q, k, one, causal=True, context=Context(x)) for one in (cable, gate)]
    torch.testing.assert_close(*found, rtol=0, atol=1e-12)

    slopes = torch.tensor(alibi.slope_values(), dtype=torch.float64)
    with torch.no_grad():
        cable.gate.weight.zero_()
        cable.gate.bias.copy_(slopes.expm1().log())
    even = scores(q, k, cable, causal=True, context=Context(x))
    torch.testing.assert_close(even, scores(q, k, alibi, causal=True), rtol=0, atol=1e-12)
