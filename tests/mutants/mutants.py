"""Source-level mutants: a wrong line in a copy of posenc, and what must go red for it."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Mutant:
    """One replacement in one file.

    file      below posenc/
    old, new  text that is there once, and what stands in its place
    seen_by   Python for an encoding, as `pe.ALiBi(4)`, which the public suite must then refuse; or
              a test file
    """

    file: str
    old: str
    new: str
    seen_by: str


ROPE = "pe.Rotary(16)"
YARN = "pe.Rotary(16, scaling=pe.YaRN(4.0, 64))"
T5 = "pe.T5Bias(4, buckets=8, max_distance=20)"
SINUSOIDAL = "pe.Sinusoidal(16)"

MUTANTS = [
    # Settings and initial weights.
    Mutant(
        "encodings/scaling/base.py",
        "return 1.0\n\n    def check",
        "return 1.11\n\n    def check",
        ROPE,
    ),
    Mutant("encodings/scaling/yarn.py", "return log + 1.0", "return log + 1.1", YARN),
    Mutant(
        "encodings/kerple.py",
        "self.log_r1 = nn.Parameter(r1.log())",
        "self.log_r1 = nn.Parameter(r1.log1p())",
        "tests/encodings/test_biases.py",
    ),
    Mutant(
        "encodings/learned.py",
        "torch.randn(max_length, dim) * 0.02",
        "torch.randn(max_length, dim) * 0.2",
        "tests/encodings/test_learned.py",
    ),
    Mutant(
        "encodings/learned.py",
        "(m + offset) / n for m",
        "(m - offset) / n for m",
        "tests/encodings/test_resized.py",
    ),
    Mutant("encodings/t5.py", "max(buckets, min(128, train_length))", "max(128, train_length)", T5),
    # The spine, a mutant for each file.
    Mutant(
        "lowering.py",
        "and kind.lower is Encoding.lower",
        "and kind.lower is not Encoding.lower",
        SINUSOIDAL,
    ),
    Mutant(
        "lowering.py",
        "return kind.embed is not Encoding.embed and",
        "return kind.embed is Encoding.embed or",
        ROPE,
    ),
    Mutant(
        "rotation.py",
        "if max(own, default=1) > k.shape[1] else 1",
        "if max(own, default=1) > heads else 1",
        "pe.LearnedRotary(16, heads=4)",
    ),
    Mutant(
        "equation.py",
        "torch.where(distance <= 0, slopes[0]",
        "torch.where(distance < -1, slopes[0]",
        "pe.ALiBi(4, future=2.0, learned=True)",
    ),
    Mutant(
        "positions/positions.py",
        "past = self.order_distance() <= 0",
        "past = self.order_distance() < 0",
        ROPE,
    ),
    Mutant(
        "positions/positions.py",
        "near = step.abs() < min(windows)",
        "near = step.abs() <= min(windows)",
        "pe.SlidingWindow(3)",
    ),
    Mutant("torch_modes.py", "enabled=False", "enabled=True", ROPE),
    Mutant(
        "caches/cache.py",
        "(side.rows(rows) for side in (self.placed.queries, self.placed.keys))",
        "(self.placed.queries.rows(rows), self.placed.keys)",
        ROPE,
    ),
    Mutant(
        "encoding.py", "parameter.data = before", "parameter.data = parameter.data", "pe.KERPLE(4)"
    ),
    Mutant("model.py", "std=dim**-0.5", "std=0.0", SINUSOIDAL),
]
