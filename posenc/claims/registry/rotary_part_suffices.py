from posenc.claims.claim import Cell, Claim, Expectation, Size
from posenc.claims.studies import ON_BYTES, text
from posenc.lab.config import RunConfig


def arms(size: Size) -> dict[str, RunConfig]:
    return {
        "rotary": text("rotary", size),
        "part": text(f"rotary(rotary_dim={6 if size == 'small' else 48})", size),
    }


CLAIM = Claim(
    name="rotary_part_suffices",
    says=(
        "RoPE that turns three quarters of the dimensions is no worse than RoPE that turns them all.",
        "只旋转四分之三维度的 RoPE，不比全部旋转的差。",
    ),
    source="Barbero et al. 2024 (p-RoPE), arXiv:2410.06205 (Gemma 2B: 4.441 against 4.463 in perplexity)",
    differs=(
        ON_BYTES[0] + " Heads of 8 dimensions have four pairs, of which three turn.",
        ON_BYTES[1] + "8 维的头有四对，其中三对旋转。",
    ),
    agreed=False,
    arms=arms,
    expects=(Expectation(Cell("part", "loss", 1), Cell("rotary", "loss", 1), below=0.03),),
)
