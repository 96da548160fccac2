from dataclasses import replace

from posenc.claims.claim import Cell, Claim, Expectation, Size
from posenc.claims.studies import made
from posenc.lab.config import RunConfig


def arms(size: Size) -> dict[str, RunConfig]:
    counted = made("sinusoidal", "bucket_sort", size, train=16, times=(1, 2, 4))
    if size == "small":
        counted = replace(counted, dim=32, steps=1200)
    return {"counted": counted, "random": replace(counted, positions="random(longest=128)")}


CLAIM = Claim(
    name="random_positions_sort_farther",
    says=(
        "An encoder whose positions are drawn at random, in order, from a longer range sorts longer inputs than one whose positions are counted.",
        "位置从更长的范围里随机抽取、按序排列的编码器，比位置逐个计数的能给更长的输入排序。",
    ),
    source="Ruoss et al. 2023, arXiv:2305.16843 (bucket sort; 12.0 points more on average of 15 tasks)",
    differs=(
        "Encoders of two layers and 32 dimensions with sinusoids sort up to 16 keys and are tested at 64; positions are drawn below 128. The paper trains up to 40 with five layers. More means 12 points.",
        "两层、32 维的正弦编码器给至多 16 个键排序，测 64 个；位置在 128 以内抽取。论文训练到 40 个，用五层。“更”指多 12 个百分点。",
    ),
    agreed=True,
    arms=arms,
    expects=(
        Expectation(
            Cell("random", "token", times=4), Cell("counted", "token", times=4), above=0.12
        ),
    ),
    learned=0.5,
)
