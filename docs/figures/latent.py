import torch
from figures._page import Page
from matplotlib.figure import Figure

import posenc as pe

TEXTS = {
    "memory": ("Numbers per token and layer", "每层每个词元保留的数"),
    "MHA": ("MHA, 128 heads", "MHA，128 个头"),
    "GQA": ("GQA, 8 key heads", "GQA，8 个键头"),
    "MQA": ("MQA, 1 key head", "MQA，1 个键头"),
    "MLA": ("MLA, 512 + 64", "MLA，512 + 64"),
    "V4": ("one vector of 512", "一个 512 维向量"),
    "moved": ("Change of the output", "加权和的变化"),
    "by": ("all positions moved by", "所有位置的平移"),
    "values": ("values turned", "只旋转值"),
    "back": ("and turned back", "和转回来"),
}
# Key heads times the widths of a key and of a value, all heads of 128.
KEPT = {"MHA": 128 * 256, "GQA": 8 * 256, "MQA": 256, "MLA": 512 + 64, "V4": 512}


def draw(theme: str, language: str) -> Figure:
    page = Page(theme, language, TEXTS, height=2.8)
    axes = page.axes(1, 2, 1)
    axes.barh(range(len(KEPT)), list(KEPT.values()), color=page.theme.lines[0], height=0.6)
    axes.set_yticks(range(len(KEPT)), [page.say(name) for name in KEPT], **page.font())
    axes.set_xscale("log")
    axes.set_xlim(100, 4e5)
    axes.invert_yaxis()
    for row, count in enumerate(KEPT.values()):
        page.write(axes, f"{count:,}", (count * 1.15, row), va="center")
    page.label(axes, title="memory")
    axes = page.axes(1, 2, 2, grid="y")
    steps = torch.arange(65)
    for style, back in enumerate((False, True)):
        first = attended(0, back)
        change = torch.stack([(attended(int(by), back) - first).norm() for by in steps])
        name = "back" if back else "values"
        page.line(axes, steps, change / first.norm(), style, label=page.say(name))
    page.label(axes, x="by", title="moved")
    page.legend(axes)
    return page.figure


def attended(by: int, back: bool) -> torch.Tensor:
    """Keys and values are one tensor, turned; the last query's sum, turned back or not."""
    draw = torch.Generator().manual_seed(0)
    q, kv = torch.randn(2, 1, 1, 32, 64, generator=draw, dtype=torch.float64).unbind()
    at = pe.Positions.build(ids=torch.arange(32) + by, causal=True)
    rope = pe.Rotary(64)
    if back:
        out = pe.attend(q, kv, kv, [rope, pe.RotaryValues(64)], positions=at)
    else:
        turned, _ = pe.rotate(kv, kv, rope, positions=at)
        out = pe.attend(q, kv, turned, rope, positions=at)
    return out[0, 0, -1]
