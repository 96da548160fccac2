"""The Chinese words of the generated pages, by hand; what has none here is shown in English.

Those of encodings are in posenc.chinese, for the command line says them too.
"""

import re

COLUMNS = {
    "says": "说明的是",
    "unique": "各行互不相同（bfloat16）",
    "growth": "最大值的增长倍数",
    "shift law": "平移律 PE(p + 1) = M PE(p)",
    "relative": "得分只依赖距离",
    "direction": "区分前后",
    "same token": "q = k 时仍区分前后",
    "monotone": "随距离单调不增",
    "new at 4096": "长度 4096 时新出现的",
    "parameters": "可训练的参数",
    "causal only": "只用于因果注意力",
    "extent": "需要知道最远的位置",
    "context": "需要读本层的输入",
    "decodes": "解码用的缓存",
    "linear attention": "可用于线性注意力",
    "SDPA": "SDPA 能算",
    "memory": "内存随长度",
    "compiles": "能编译",
    "exports": "能导出",
}

# Heads of the tables that hold every encoding, which have less room.
HEADS = {
    "encoding": "编码",
    "says": "说明",
    "unique": "唯一",
    "growth": "增长",
    "shift law": "平移律",
    "relative": "相对",
    "direction": "方向",
    "same token": "相同词元",
    "monotone": "单调",
    "parameters": "参数",
    "causal only": "只用于因果",
    "extent": "范围",
    "context": "上下文",
    "decodes": "解码",
    "linear attention": "线性注意力",
    "SDPA": "SDPA",
    "memory": "内存",
    "compiles": "编译",
    "exports": "导出",
    "scaling": "缩放",
    "fastest": "最快的",
    "slowest": "最慢的",
    "slowed by": "放慢到几倍",
    "follows the length": "随长度而变",
    "curve": "曲线",
    "dimensions": "维数",
    "first rise": "首次上升",
    "steps that rise": "上升的步数",
    "first zero": "首次过零",
    "zeros": "过零次数",
    "model": "模型",
    "sentence": "整句",
    "tokens": "词元",
}

VALUES = {
    "yes": "是",
    "no": "否",
    "-": "-",
    "positions": "位置",
    "distances": "距离",
    "content": "由内容决定",
    "nothing": "没有",
    "causal": "靠因果掩码",
    "rotated": "`rotated`",
    "raw": "`raw`",
    "linear": "线性增长",
    "quadratic": "平方增长",
    "none": "无",
    "changes": "变",
    "sum of cosines": "余弦之和",
    "RoFormer's bound": "RoFormer 的上界",
    "GRU, last state": "GRU，最后一个状态",
    "textCNN, maximum over time": "textCNN，对时间取最大值",
    "Transformer encoder, no position": "Transformer 编码器，没有位置",
    "Transformer encoder, sinusoidal": "Transformer 编码器，正弦",
    "Transformer encoder, rotary": "Transformer 编码器，旋转",
    "Transformer encoder, ALiBi": "Transformer 编码器，ALiBi",
    "Transformer decoder, no position": "Transformer 解码器，没有位置",
    "Transformer decoder, sinusoidal": "Transformer 解码器，正弦",
    "Transformer decoder, rotary": "Transformer 解码器，旋转",
    "Transformer decoder, ALiBi": "Transformer 解码器，ALiBi",
}
# Cells and heads with numbers in them.
NUMBERED = {
    r"to (\d+)": r"到 \1 为止",
    r"from (\d+)": r"从 \1 起",
    r"new at (\d+)": r"\1 时新增",
    r"turn once in (\d+)": r"\1 内转满一圈",
    r"new angles at (\d+)": r"\1 时的新角度",
    r"([\d,]+) tokens": r"\1 个词元",
    r"([\d.]+) to ([\d.]+)": r"\1 至 \2",
    r"(\d+) of (\d+)": r"\2 步中的 \1 步",
}

FIGURES = {
    "heatmap": "位置与维度的热图",
    "curves": "各维度的曲线",
    "circle": "圆",
    "helix": "螺旋线",
    "inner_product": "内积与距离",
    "scores": "得分矩阵和其中一行",
    "bias": "偏置",
    "angles": "旋转角",
    "wavelengths": "波长与训练长度",
    "decomposition": "得分的分解",
    "mask": "掩码与感受野",
}


def value(cell: str) -> str:
    """A cell of the property tables in Chinese; numbers stay as they are."""
    for english, words in NUMBERED.items():
        if re.fullmatch(english, cell):
            return re.sub(english, words, cell)
    return VALUES.get(cell, cell)


def head(cell: str) -> str:
    return HEADS.get(cell, value(cell))


# The rows of the benchmark, the words of their cases, and what they are compared with.
ROWS = {
    "rotate q, k (1, 32, 2048, 128) in place": "原地旋转 q、k (1, 32, 2048, 128)",
    "rotate q, k (1, 32, 2048, 128) out of place": "旋转 q、k (1, 32, 2048, 128)，写入新张量",
    "rotate q, k (4, 8, 512, 64), in cache": "旋转 q、k (4, 8, 512, 64)，数据在缓存中",
    "rotate one token (1, 32, 1, 128)": "旋转一个词元 (1, 32, 1, 128)",
    "rotate, forward and backward, per pass": "旋转，前向与反向，每遍",
    "distance tables with gradient, ALiBi: forward and backward": (
        "带梯度的距离表、ALiBi：前向与反向"
    ),
    "T5 in pure PyTorch (blocked), forward and backward": "T5，纯 PyTorch（blocked），前向与反向",
    "Shaw keys and values": "Shaw 的键与值",
    "Transformer-XL": "Transformer-XL",
    "DeBERTa": "DeBERTa",
    "memory added by position, L = 8192": "位置增加的内存，L = 8192",
    "decode step, 4k cache, any bias": "解码一步，缓存 4k，各种偏置",
    "decode step, 32k cache, any bias": "解码一步，缓存 32k，各种偏置",
    "8 decode steps through a growing cache": "用渐增的缓存解码 8 步",
    "positions of 512 rows of 8192 tokens": "生成 512 行、每行 8192 个词元的位置",
    "convert a checkpoint of 1 GiB": "转换 1 GiB 的检查点",
    "memory of converting 1 GiB": "转换 1 GiB 所用的内存",
    "8 decode steps through a static cache": "用静态缓存解码 8 步",
    "rotate in place as the length grows, 8 heads of 128, float32": (
        "原地旋转，长度渐增，8 个头，每头 128 维，float32"
    ),
    "ALiBi and T5, forward": "ALiBi 与 T5，前向",
    "memory added by T5's bias as the length grows": "T5 的偏置增加的内存，长度渐增",
    "training step of a small decoder": "小解码器的一步训练",
    "before anything runs": "运行之前",
    "memory before anything runs": "运行之前的内存",
    "no bias and rotary, causal, forward": "无偏置与旋转，因果，前向",
    "no bias and rotary, causal, forward and backward": "无偏置与旋转，因果，前向与反向",
    "no bias and T5, bidirectional": "无偏置与 T5，双向",
    "a window of 256, and packed documents, beside SDPA with the mask": (
        "宽 256 的窗口与打包的文档，与带掩码的 SDPA 比"
    ),
    "Zones: ReRoPE, Self-Extend, LM-Infinite, re-indexed sinks": (
        "Zones：ReRoPE、Self-Extend、LM-Infinite、重新编号的 sinks"
    ),
    "CoPE, forget gate, FIRE, xPos, causal, forward and backward": (
        "CoPE、遗忘门、FIRE、xPos，因果，前向与反向"
    ),
    "dropout of 0.1, causal, forward and backward, beside SDPA with dropout": (
        "0.1 的 dropout，因果，前向与反向，与带 dropout 的 SDPA 比"
    ),
    "auto beside each backend that it chooses from": "auto 与它所选的每个后端比",
    "memory added by what reads or rescales all pairs, L = 8192": (
        "读取或缩放所有词元对的编码增加的内存，L = 8192"
    ),
    "decode step, 512 keys, any bias": "解码一步，512 个键，各种偏置",
    "attend of lowered terms, tiny tensors, above SDPA's own call": (
        "对已化为的项调用 attend，极小的张量，高于 SDPA 自身的调用"
    ),
    "a cached rotary step: turn, append, attend": "带缓存的旋转一步：旋转、追加、注意",
    "lower for one new token": "为一个新词元化为项",
    "a Llama of 135 M parameters, beside the same in transformers": (
        "1.35 亿参数的 Llama，与 transformers 中的同一模型比"
    ),
}
LINES = {
    "in cache": "数据在缓存中",
    "32 heads on 8": "32 个头共用 8 个",
    "8 heads on 8": "8 个头",
    "bidirectional": "双向",
    "causal": "因果",
    "half": "两半布局",
    "forward": "前向",
    "forward and backward": "前向与反向",
    "packed documents": "打包的文档",
    "window of 256": "宽 256 的窗口",
    "re-indexed sinks": "重新编号的 sinks",
    "forget_gate": "遗忘门",
    "prefill of 2048": "预填 2048 个词元",
    "a step at 512": "第 512 个词元处的一步",
    "a step at 2048": "第 2048 个词元处的一步",
    "1 query": "1 个查询",
    "16 queries": "16 个查询",
    "64 keys": "64 个键",
    "interleaved": "交错布局",
}
PEERS = {
    "SDPA, dense bias": "SDPA 加稠密偏置",
    "SDPA, mask": "SDPA 加掩码",
    "complex multiply": "复数乘法",
    "transformers compiled": "编译后的 transformers",
    "multiply in place, four tensors": "原地相乘，四个张量",
    "no attention": "没有注意力",
    "as many multiplications in square products": "方阵乘积中同样多的乘法",
    "no rotation, and as many multiplications as attention has in square products": (
        "没有旋转，注意力换成方阵乘积中同样多的乘法"
    ),
    "rich alone": "只有 rich",
    "the turning kernel and SDPA": "旋转内核加 SDPA",
    "the kernel, its mask made before": "内核本身，掩码事先做好",
    **{
        f"{name}, bare torch calls": f"{shown}，只有 torch 调用"
        for name, shown in {"xpos, raw keys": "xpos（键未旋转）", "kerple": "kerple"}.items()
    },
}


def line(text: str) -> str:
    return "，".join(LINES.get(word, word) for word in text.split(", "))
