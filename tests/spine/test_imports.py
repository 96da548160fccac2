"""What the first call brings in: no compiler, and nothing of the checks."""

import subprocess
import sys

PROGRAM = """
import sys, torch, posenc
q = torch.randn(1, 4, 16, 8)
posenc.attend(q, q, q, posenc.T5Bias(4), causal=True)
posenc.attend(q, q, q, posenc.Rotary(8), causal=True)
posenc.rotate(q, q, posenc.Rotary(8))
print([name for name in ("torch._dynamo", "posenc.testing", "posenc.lab") if name in sys.modules])
"""


def test_the_first_call_imports_no_compiler_and_no_checks() -> None:
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True)
    assert done.stdout.strip() == "[]", done.stderr
