"""Source-level mutants: a wrong line in a copy of posenc, and what must go red for it."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Mutant:
    """One replacement in one file.

    file      below posenc/
    old, new  text that is there once, and what stands in its place
    seen_by   Python for an encoding, as `pe.ALiBi(4)`, which the public suite must then refuse; or
              a test file
    needs     the instruction set whose kernels alone have this line; "": any has it
    """

    file: str
    old: str
    new: str
    seen_by: str
    needs: str = ""


ROPE = "pe.Rotary(16)"
YARN = "pe.Rotary(16, scaling=pe.YaRN(4.0, 64))"
T5 = "pe.T5Bias(4, buckets=8, max_distance=20)"
SINUSOIDAL = "pe.Sinusoidal(16)"
BACKENDS, WORDS, MATRIX = "tests/backends/test_native", "avx512bf16", "amx"

MUTANTS = [
    # Settings and initial weights.
    Mutant(
        "encodings/scaling/base.py",
        "return 1.0\n\n    @property\n    def frozen",
        "return 1.11\n\n    @property\n    def frozen",
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
        "positions/visible.py",
        "past = self.order_distance() <= 0",
        "past = self.order_distance() < 0",
        ROPE,
    ),
    Mutant(
        "positions/visible.py",
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
    # The C kernels, which are built anew for each.
    Mutant(
        "native/attention_tile.h",
        "most(band.first, 1 - p->window - step)",
        "most(band.first, 2 - p->window - step)",
        f"{BACKENDS}_attention.py",
    ),
    Mutant(
        "native/attention_tile.h",
        "shift = of_keys ? 0 : p->keys - p->queries",
        "shift = 0",
        f"{BACKENDS}_attention.py",
    ),
    Mutant(
        "native/attention_tile.h",
        "k_first - q_last + x->zero < 0",
        "k_last - q_first + x->zero < 0",
        f"{BACKENDS}_attention.py",
    ),
    Mutant(
        "native/attention_rows.h",
        "(to + WIDE - 1) / WIDE",
        "to / WIDE",
        f"{BACKENDS}_attention.py",
    ),
    Mutant(
        "native/attention_diagonals.h",
        "least(m->rows, m->columns - shift)",
        "least(m->rows, m->columns - shift - 1)",
        f"{BACKENDS}_attention.py",
    ),
    Mutant(
        "native/attention_far.h",
        "int64_t row = side * (table->rows - 1) * width;",
        "int64_t row = (1 - side) * (table->rows - 1) * width;",
        f"{BACKENDS}_attention.py",
    ),
    Mutant(
        "native/attention_skew.h",
        "to[t] = table[rows - 1];",
        "to[t] = table[rows - 2];",
        f"{BACKENDS}_attention.py",
    ),
    Mutant(
        "native/attention_zones.h",
        "least(band.last, -p->zone - step)",
        "least(band.last, 1 - p->zone - step)",
        f"{BACKENDS}_zones.py",
    ),
    Mutant(
        "native/attention_grid.h",
        "least(most(g->index[r] - own, -WIDE), rows)",
        "least(most(g->index[r] - own, 0), rows)",
        f"{BACKENDS}_grid.py",
    ),
    Mutant(
        "native/attention_network.h",
        "if (starts ? (double)x <= kink : (double)x < kink)",
        "if (starts ? (double)x < kink : (double)x <= kink)",
        f"{BACKENDS}_network.py",
    ),
    Mutant(
        "native/attention_counts.h",
        "count += (double)sums[0];",
        "count += (double)sums[WIDTH - 1];",
        f"{BACKENDS}_counts.py",
    ),
    Mutant(
        "native/attention_query_forward.h",
        "(down ? --left : met++)",
        "(down ? met++ : met++)",
        f"{BACKENDS}_attention.py",
    ),
    Mutant(
        "native/attention_query_forward.h",
        "w->far[(side > 0) * BLOCK_ROWS + row] * scale",
        "w->far[(side > 0) * BLOCK_ROWS] * scale",
        f"{BACKENDS}_attention.py",
    ),
    Mutant(
        "native/attention_masked_query.h",
        "if (!unequal) blend(",
        "if (1) blend(",
        "tests/backends/test_one_query.py",
    ),
    Mutant(
        "native/attention_dropout.h",
        "if (key % TILE) draw_words(",
        "if (0) draw_words(",
        f"{BACKENDS}_dropout.py",
    ),
    Mutant(
        "native/rotate_rows.h",
        "last = pairs - WIDTH;",
        "last = pairs - WIDTH - 1;",
        f"{BACKENDS}_rotary.py",
    ),
    Mutant(
        "native/attention_meeting.h",
        "add_half(a + to / 2 * a_column, 0, columns",
        "add_half(a + to / 2 * a_column, 1, columns",
        f"{BACKENDS}_hidden.py",
        WORDS,
    ),
    Mutant(
        "native/attention_pairs.h",
        "r % 2 ? 0xffffu : 0xffff0000u",
        "r % 2 ? 0xffff0000u : 0xffffu",
        f"{BACKENDS}_hidden.py",
        WORDS,
    ),
    Mutant(
        "native/attention_product.h",
        "from = from / 2, to = (to + 1) / 2;",
        "from = from / 2, to = to / 2;",
        f"{BACKENDS}_precision.py",
        WORDS,
    ),
    Mutant(
        "native/attention_matrix.h",
        "SQUARE_MULTIPLY(3, 5, 7)",
        "SQUARE_MULTIPLY(3, 4, 7)",
        f"{BACKENDS}_precision.py",
        MATRIX,
    ),
    Mutant(
        "native/attention_matrix.h",
        "put(c, add ? get(c) + x : x);",
        "put(c, x);",
        f"{BACKENDS}_precision.py",
        MATRIX,
    ),
    Mutant(
        "native/attention_product.h",
        "b += squares * b_row, depth -= squares, add = 1;",
        "b += squares * b_row, depth -= squares;",
        f"{BACKENDS}_hidden.py",
        MATRIX,
    ),
]
