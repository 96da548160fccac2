import torch
from figures._page import Page
from matplotlib.figure import Figure

TEXTS = {
    "loss": ("nats per byte", "每字节的损失（nat）"),
    "length": ("bytes read", "读入的字节数"),
    "trained": ("trained on 64", "训练长度 64"),
    "none": ("none", "无位置编码"),
    "learned": ("learned table", "可学习的表"),
    "sinusoidal": ("sinusoid", "正弦"),
    "rotary": ("RoPE", "RoPE"),
    "t5": ("T5", "T5"),
    "alibi": ("ALiBi", "ALiBi"),
}
LENGTHS = (64, 128, 256, 512)
# Of posenc/lab/LOG.md: the default comparison, two seeds.
LOSSES = {
    "learned": (1.718, 3.477, 3.546, 3.508),
    "sinusoidal": (1.787, 3.392, 3.523, 3.616),
    "rotary": (1.560, 1.567, 2.281, 3.563),
    "none": (2.159, 2.316, 2.381, 2.444),
    "t5": (1.537, 1.557, 1.648, 1.895),
    "alibi": (1.754, 1.762, 1.766, 1.768),
}


def draw(theme: str, language: str) -> Figure:
    page = Page(theme, language, TEXTS, height=3.2)
    axes = page.axes(grid="y")
    at = torch.tensor(LENGTHS)
    for style, (name, losses) in enumerate(LOSSES.items()):
        look = {"marker": page.marker(style), "markersize": 5, "label": page.say(name)}
        page.line(axes, at, torch.tensor(losses), style, **look)
    axes.set_xscale("log", base=2)
    axes.set_xticks(LENGTHS, [str(length) for length in LENGTHS])
    axes.minorticks_off()
    axes.axvline(64, color=page.theme.muted, linestyle="dotted", linewidth=1.0)
    page.write(axes, page.say("trained"), (65.5, 3.75), va="top")
    axes.set_ylim(1.4, 3.8)
    page.label(axes, x="length", y="loss")
    page.legend(axes)
    return page.figure
