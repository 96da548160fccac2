"""How far back the heads of the lab's models look.

posenc compare --seeds 5 --encodings "sinusoidal,sinusoidal(base=10),sinusoidal(base=100)"
python -m tools.experiments.reach posenc-compare
"""

import sys
from collections.abc import Sequence
from pathlib import Path

import torch
from torch import Tensor

from posenc.lab.evaluate import spans
from posenc.lab.text import standard_library
from tools.experiments.intervals import mean_of, shown
from tools.experiments.shift import lab_reader
from tools.experiments.trained import runs_of, trained

TOKENS, TEXTS = 64, 256


def reach(attention: Sequence[Tensor]) -> float:
    """The distance from query to key, averaged by the weights (b, h, t, t) of each layer.

    Of the latter half of the queries alone, for the first have no distance to choose.
    """
    length = attention[0].shape[-1]
    at = torch.arange(length, dtype=torch.float64)
    back = (at[:, None] - at)[length // 2 :]
    means = [(weights[:, :, length // 2 :] * back).sum(dim=-1).mean() for weights in attention]
    return float(torch.stack(means).mean())


@torch.inference_mode()
def main() -> None:
    test = torch.frombuffer(bytearray(standard_library().test), dtype=torch.uint8)
    ids, at = spans(test, TOKENS, TEXTS)[:, :TOKENS], torch.arange(TOKENS)
    print("| | mean distance in tokens |")
    print("|---|---|")
    for name, runs in runs_of(Path(sys.argv[1])).items():
        read = [lab_reader(trained(run).double())(ids, at) for run in runs]
        print(f"| {name} | {shown(mean_of([reach(one.attention) for one in read]))} |")


if __name__ == "__main__":
    main()
