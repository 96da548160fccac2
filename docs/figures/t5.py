import torch
from figures._page import Page
from matplotlib.figure import Figure

import posenc as pe

TEXTS = {
    "stairs": ("Bucket of a key n tokens back", "往回第 n 个键的桶"),
    "map": ("Buckets in an encoder", "编码器中的桶"),
    "encoder": ("encoder", "编码器"),
    "decoder": ("decoder", "解码器"),
    "back": ("tokens back, n", "往回的词元数 n"),
    "bucket": ("bucket", "桶"),
    "query": ("query", "查询"),
    "key": ("key", "键"),
    "side": ("past (-), future (+)", "过去（-），将来（+）"),
}
LENGTH = 48


def draw(theme: str, language: str) -> Figure:
    page = Page(theme, language, TEXTS, height=3.1)
    encoder, decoder = pe.T5Bias(heads=1, bidirectional=True), pe.T5Bias(heads=1)
    left, right = page.figure.add_gridspec(1, 2, width_ratios=(1.25, 1.0))
    axes = page.axes(left, grid="y")
    back = torch.arange(161)
    for style, (name, encoding) in enumerate({"encoder": encoder, "decoder": decoder}.items()):
        bucket = encoding.bucket(-back)
        page.line(axes, back, bucket, style, drawstyle="steps-mid", label=page.say(name))
    page.label(axes, x="back", y="bucket", title="stairs")
    page.legend(axes, loc="lower right", bbox_to_anchor=(1.0, 0.05))
    at = torch.arange(LENGTH)
    distance = at[None, :] - at[:, None]
    # Both directions count alike: the future's buckets come after the past's.
    bucket = encoder.bucket(distance) % (encoder.buckets // 2)
    axes = page.axes(right)
    page.heat(axes, bucket * distance.sign(), bar="side")
    axes.set_aspect("equal")
    page.label(axes, x="key", y="query", title="map")
    return page.figure
