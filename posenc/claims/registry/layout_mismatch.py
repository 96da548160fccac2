from posenc.claims.claim import Cell, Claim, Expectation, Size
from posenc.claims.studies import ON_BYTES, text
from posenc.lab.config import RunConfig


def arms(size: Size) -> dict[str, RunConfig]:
    return {
        "rotary": text("rotary", size),
        "mismatched": text("rotary(layout='interleaved')", size, steps=0, base="rotary"),
    }


CLAIM = Claim(
    name="layout_mismatch",
    says=(
        "Weights that were trained with one layout of pairs are useless with the other, without any error.",
        "按一种配对布局训练的权重，换成另一种布局就不能用，而且不报错。",
    ),
    source="Hugging Face transformers, conversion of LLaMA in 2023 (permuted query and key weights); posenc docs, howto/conversion.md",
    differs=ON_BYTES,
    agreed=True,
    arms=arms,
    expects=(Expectation(Cell("mismatched", "loss", 1), Cell("rotary", "loss", 1), above=0.2),),
)
