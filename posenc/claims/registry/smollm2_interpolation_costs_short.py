from posenc.claims.claim import Cell, Claim, Expectation, Size
from posenc.claims.studies import TRAINED, smollm2
from posenc.lab.config import RunConfig

# 512 tokens of a trained length of 8,192.
SHORT = 1 / 16


def arms(size: Size) -> dict[str, RunConfig]:
    ways = {"linear": "Linear(4)", "ntk": "NTK(4)", "yarn": f"YaRN(4, {TRAINED})"}
    stretched = {
        name: smollm2(f"rotary(scaling={way})", test_lengths=(512,)) for name, way in ways.items()
    }
    return {"own": smollm2("own"), **stretched}


CLAIM = Claim(
    name="smollm2_interpolation_costs_short",
    says=(
        "Stretched by four without further training, a trained model loses on short inputs: much with linear interpolation, less with NTK and YaRN.",
        "训练好的模型拉长到四倍而不再训练，在短输入上就有损失：线性插值损失大，NTK 与 YaRN 小些。",
    ),
    source="Peng et al. 2024 (YaRN), arXiv:2309.00071; Chen et al. 2023 (position interpolation), arXiv:2306.15595",
    differs=(
        "SmolLM2-135M-Instruct (trained on 8,192 tokens, its 4-bit weights unpacked) reads 512 tokens of Python's standard library; much means 0.1 nats.",
        "SmolLM2-135M-Instruct（训练长度 8,192，4 位权重解开使用）读 Python 标准库的 512 个词元；“大”指 0.1 nat。",
    ),
    agreed=True,
    arms=arms,
    expects=(
        Expectation(Cell("linear", "loss", SHORT), Cell("own", "loss", SHORT), above=0.1),
        Expectation(Cell("linear", "loss", SHORT), Cell("ntk", "loss", SHORT), above=0.0),
        Expectation(Cell("linear", "loss", SHORT), Cell("yarn", "loss", SHORT), above=0.0),
    ),
)
