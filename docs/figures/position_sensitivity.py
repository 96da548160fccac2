from collections.abc import Callable

import torch
from figures._page import Page
from matplotlib.figure import Figure
from torch import Tensor

import posenc as pe
from posenc.analysis import measure
from posenc.analysis.toy_models import CNNReader, GRUReader, TextCNN, TransformerReader

TEXTS = {
    "changes": ("Change of what is said of a sentence", "向量的相对变化"),
    "shuffled": ("shuffled", "随机打乱"),
    "exchanged": ("words\nexchanged", "两词对调"),
    "moved": ("moved", "平移"),
    "rnn": ("RNN", "RNN"),
    "textcnn": ("textCNN", "textCNN"),
    "circular": ("CNN, in a ring", "CNN（成圈）"),
    "zeros": ("CNN, zeros outside", "CNN（边上填 0）"),
    "encoder": ("encoder", "编码器"),
    "placed": ("encoder + sinusoid", "编码器加正弦"),
    "decoder": ("decoder", "解码器"),
    "border": ("Equal tokens, zeros outside", "相同的词元，边上填 0"),
    "place": ("place", "位置"),
    "depth": ("layers", "层数"),
}
READERS: dict[str, Callable[[], torch.nn.Module]] = {
    "rnn": lambda: GRUReader(3, 32),
    "textcnn": lambda: TextCNN(3, 32),
    "circular": lambda: CNNReader(3, 32, padding="circular"),
    "zeros": lambda: CNNReader(3, 32),
    "encoder": lambda: TransformerReader(3, 32),
    "placed": lambda: TransformerReader(3, 32, pe.Sinusoidal(32)),
    "decoder": lambda: TransformerReader(3, 32, causal=True),
}
LENGTH, DEEPEST = 20, 4
LIMITS = (0.0, 1.0)


def draw(theme: str, language: str) -> Figure:
    page = Page(theme, language, TEXTS, height=3.3)
    left, right = page.figure.add_gridspec(1, 2, width_ratios=(1.0, 1.15))
    axes = page.axes(left)
    seen = changes()
    # The root tells small changes from none.
    shown = seen.sqrt().masked_fill(seen == 0, torch.nan)
    page.heat(axes, shown, palette="sequential", limits=LIMITS)
    texts = [[f"{change:.3f}" if change else "0" for change in row] for row in seen.tolist()]
    page.numbers(axes, shown.tolist(), "sequential", LIMITS, texts)
    small = {"fontsize": 8} | page.font()
    kinds = [page.say(kind) for kind in ("shuffled", "exchanged", "moved")]
    axes.set_xticks(range(3), kinds, **small)
    axes.set_yticks(range(len(READERS)), [page.say(name) for name in READERS], **small)
    page.label(axes, title="changes")
    axes = page.axes(right)
    page.heat(axes, border(), palette="sequential", limits=LIMITS)
    axes.set_yticks(range(DEEPEST), range(1, DEEPEST + 1))
    page.label(axes, x="place", y="depth", title="border")
    return page.figure


def changes() -> Tensor:
    """Sensitivity of each reader (row) to each way of changing the order (column)."""
    sentence = torch.tensor([[0, 1, 0, 2, 0]]).repeat_interleave(4, dim=1)
    places = torch.arange(LENGTH)
    orders = (
        measure.permutations(LENGTH),
        places.view(5, 4)[[0, 3, 2, 1, 4]].reshape(1, LENGTH),
        torch.stack([places.roll(step) for step in (1, 2)]),
    )
    rows = []
    for make in READERS.values():
        model = seeded(make)
        measured = [measure.permutation_sensitivity(model, sentence, order) for order in orders]
        rows.append(torch.stack([change.mean() for change in measured]))
    return torch.stack(rows)


def border() -> Tensor:
    """By how much each of equal tokens differs from the middle one, a row for each depth."""
    alike = torch.zeros(1, LENGTH, dtype=torch.long)
    rows = []
    for depth in range(1, DEEPEST + 1):
        model = seeded(lambda depth=depth: CNNReader(3, 32, depth))
        states = model.states(alike)[0].detach()
        middle = states[LENGTH // 2]
        differ = (states - middle).norm(dim=1) / middle.norm()
        rows.append(differ.masked_fill(differ < 1e-9, torch.nan))
    return torch.stack(rows)


def seeded(make: Callable[[], torch.nn.Module]) -> torch.nn.Module:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        return make().double()
