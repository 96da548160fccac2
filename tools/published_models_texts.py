"""What the page of published models says around its tables, in both languages."""

from posenc.words import Texts

TEXTS: Texts = {
    "page": (
        """# Which model uses what

What `pe.read` makes of {files} published configurations: a line for each kind of layer with attention that a model has.
Each model's link leads to the file that was read; its copy, and where that was found, is the file of `tests/models/facts`
named in the last column, with what paper, card and code say that it means, which tests compare. This page is generated
(`make generate`). How to read a file of your own is said in [checkpoints](../howto/checkpoints.md).

Of 36 layers, "27 of 36" are of this kind; the rest are on the next lines, or hold a state and no attention. "64 of 128
turn" counts dimensions of a head; `half` and `interleaved` are the [layouts](../howto/layout.md). Heads are counted on
heads of keys, with the dimensions of each. Tokens are the length that the file states.
""",
        """# 哪个模型用什么

这是 `pe.read` 从 {files} 个公开配置读出的内容：模型有几种带注意力的层，就有几行。模型的链接指向所读的文件；它的副本和来源在
`tests/models/facts` 里，文件名见最后一列，那里还写有论文、模型卡和代码的说法，由测试对照。本页由 `make generate` 生成。
怎样读你自己的文件，见[检查点](../howto/checkpoints.md)。

“27 / 36”指 36 层中有 27 层属于这一种；其余的层在下面几行，或者保存状态而没有注意力。“128 维转 64 维”数的是一个头的维数；
`half` 与 `interleaved` 是[布局](../howto/layout.md)。头数写作“头 / 键头，维数”。词元数是文件声明的长度。
""",
    ),
    "differ": ("Layers that turn differently, or not at all", "各层旋转不同，或有的层不旋转"),
    "latent": ("Latent vectors, of which a part turns (MLA)", "潜在向量，只有一部分旋转（MLA）"),
    "stretched": ("Rotary, stretched", "旋转，经过拉伸"),
    "rotary": ("Rotary", "旋转"),
    "images": ("Rotary by time, height and width", "按时间、高、宽旋转"),
    "bias": ("Biases and relative vectors", "偏置与相对向量"),
    "vectors": ("Vectors added to embeddings", "加到嵌入上的向量"),
    "patches": ("Patches alone", "只有图块"),
    "towers": (
        "Towers of images and sound, decoders of encoders",
        "图像与声音的塔，编码器的解码器",
    ),
    "head_model": ("model", "模型"),
    "head_type": ("type", "类型"),
    "head_layers": ("layers", "层"),
    "head_positions": ("positions", "位置"),
    "head_sees": ("sees", "看见"),
    "head_heads": ("heads", "头"),
    "head_tokens": ("tokens", "词元"),
    "head_besides": ("besides", "此外"),
    "head_file": ("file", "文件"),
    "all_layers": ("all {count}", "全部 {count} 层"),
    "some_layers": ("{some} of {count}", "{some} / {count}"),
    "comma": (", ", "，"),
    "next": ("; ", "；"),
    "none": ("none", "没有"),
    "base": ("base {base}", "基数 {base}"),
    "turn": ("{turned} of {dim} turn", "{dim} 维转 {turned} 维"),
    "last": ("{turned} of {dim} turn, from {start} on", "{dim} 维从第 {start} 维起转 {turned} 维"),
    "sections": ("sections {sections}", "分段 {sections}"),
    "interleaved": ("taking turns", "轮流"),
    "chunks_of": ("chunks of {chunk}, {local} tokens near", "每块 {chunk}，近处 {local} 个词元"),
    "times": ("{name} {factor} times", "{name} {factor} 倍"),
    "since": ("{scaling}, from {length}", "{scaling}，原长 {length}"),
    "rows": ("{rows} rows", "{rows} 行"),
    "buckets": ("{buckets} buckets up to {distance}", "{buckets} 个桶，直到 {distance}"),
    "temperature": ("growing scores ({kind}), from {length}", "分数增长（{kind}），从 {length} 起"),
    "all": ("all before", "之前全部"),
    "both": ("all", "全部"),
    "window": ("window {width}", "窗口 {width}"),
    "chunk": ("chunks of {width}", "每块 {width}"),
    "heads": ("{heads} on {key_heads} of {dim}", "{heads} / {key_heads}，{dim} 维"),
    "sinks": ("a learned sink per head", "每个头有一个训练出来的汇点"),
    "scale": ("products times {scale}", "内积乘以 {scale}"),
    "used": (
        """
## Used by

Published models whose configuration says so, as [the table of models](../models.md) has it: {names}.
""",
        """
## 谁在用

配置如此的公开模型，见[模型表](../models.md)：{names}。
""",
    ),
    "more": ("{names} and {count} more", "{names} 等，另有 {count} 个"),
}
