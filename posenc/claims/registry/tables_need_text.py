from posenc.claims.claim import Cell, Claim, Expectation, Size
from posenc.claims.studies import ON_BYTES, text
from posenc.lab.config import RunConfig


def arms(size: Size) -> dict[str, RunConfig]:
    return {
        "learned": text("learned", size),
        "sinusoidal": text("sinusoidal", size),
        "learned_few": text("learned", size, task="text(train_bytes=32768)"),
        "sinusoidal_few": text("sinusoidal", size, task="text(train_bytes=32768)"),
    }


CLAIM = Claim(
    name="tables_need_text",
    says=(
        "With little text a learned table does worse than sinusoids, with much it does not.",
        "文本少时，可学习的表不如正弦；文本多时并不。",
    ),
    source="surveys of position encodings, told in posenc docs, notes/outline.md, claim 13; posenc/lab/LOG.md, 2026-11-23",
    differs=ON_BYTES,
    agreed=False,
    arms=arms,
    expects=(
        Expectation(Cell("learned", "loss", 1), Cell("sinusoidal", "loss", 1), below=0.0),
        Expectation(Cell("learned_few", "loss", 1), Cell("sinusoidal_few", "loss", 1), above=0.0),
    ),
)
