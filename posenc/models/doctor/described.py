"""What was read of a model, in a line for each part and each kind of layer."""

import re
from collections.abc import Iterator

from posenc.models.doctor.finding import Words
from posenc.models.spec import EncodingSpec, LayerSpec, ModelSpec, PartSpec
from posenc.words import counted

_PART = Words("{name}: {layers:# layer|# layers}", "{name}：{layers} 层")
_REACH = Words("{tokens:,} tokens", "{tokens:,} 个词元")
_ALL = Words("all", "全部")
_NONE = Words("no attention", "没有注意力")
_NO_POSITION = Words("no position", "没有位置")
_HEADS = Words(
    "{heads:# head|# heads} on {key_heads} of {head_dim}",
    "{heads} 个头，{key_heads} 个键头，每个 {head_dim} 维",
)
_WINDOW = Words("window {window}", "窗口 {window}")
_CHUNK = Words("chunks of {chunk}", "每 {chunk} 个词元一块")
_SINK = Words("a learned sink per head", "每个头有一个训练出来的 sink")
_NUMBERS = Words("({count} numbers)", "({count} 个数)")
# Longer ones would fill the line.
_MOST_NUMBERS = 4
_COMMA = Words(", ", "，")
_COLON = Words(": ", "：")

# What layers do besides, as `LayerSpec.beyond` says it, its whole numbers left out.
BESIDES = {
    "a state-space mixer stands beside the attention": "注意力旁边还有一个状态空间混合器",
    "behind the window, each key stands for several tokens": "窗口之外，每个键代表若干个词元",
    "beside attention, every layer holds a state": "除注意力外，每层还保存一个状态",
    "beyond {} tokens scores grow with the length of the input": (
        "超过 {} 个词元后，分数随输入长度增长"
    ),
    "prompts beyond {} tokens see a sparse pattern of keys": (
        "超过 {} 个词元的提示只看稀疏选取的键"
    ),
    "each dimension of a query is scaled after it has turned": "查询旋转之后，各维再乘上缩放",
    "it runs {} times over": "反复运行 {} 遍",
    "each query attends only the keys that an indexer picks": "每个查询只看索引器选出的键",
    "positions are (column, row), counted from {}": "位置是（列，行），从 {} 数起",
    "positions are the centres of patches, from -{} to {}": "位置是图块的中心，从 -{} 到 {}",
    "all layers share one table": "各层共用一张表",
    "products are of unit vectors, and each head has a trained scale": (
        "内积取自单位向量，每个头有一个训练出来的缩放"
    ),
    "the token of the class is the last and does not turn": "类别词元排在最后，不旋转",
    "tokens of the class and registers do not turn": "类别词元和寄存器词元不旋转",
    "trained rows are interpolated to the grid of the image": "训练出来的行按图像的网格插值",
    "values turn with the keys, and outputs are turned back": "值随键一起旋转，输出再转回来",
    "windows are shifted by {} patches": "窗口错开 {} 个图块",
    "windows of {} x {} patches": "{} x {} 个图块的窗口",
    "windows of {} x {} pixels": "{} x {} 个像素的窗口",
}


def described(spec: ModelSpec, chosen: int = 0) -> Iterator[str]:
    """A line for the model, and one for each kind of layer of each part.

    chosen is the language's place in `Words`.
    """
    yield f"{spec.origin}: {spec.model_type}"
    for name, part in spec.parts.items():
        yield "  " + _part(name, part, chosen)
        kinds: dict[str, list[int]] = {}
        for number, layer in enumerate(part.layers):
            kinds.setdefault(_layer(layer, chosen), []).append(number)
        for words, numbers in kinds.items():
            where = _ALL[chosen] if len(kinds) == 1 else _ranges(numbers)
            yield f"    {where}{_COLON[chosen]}{words}"


def _part(name: str, part: PartSpec, chosen: int) -> str:
    words = [_PART[chosen].format(name=name, layers=counted(len(part.layers)))]
    if part.trained_length is not None:
        words.append(_REACH[chosen].format(tokens=part.trained_length))
    return _COMMA[chosen].join([*words, *(_named(x, chosen) for x in part.embeddings)])


def _layer(layer: LayerSpec | None, chosen: int) -> str:
    if layer is None:
        return _NONE[chosen]
    words = [_named(spec, chosen) for spec in layer.encodings] or [_NO_POSITION[chosen]]
    heads, per_head = counted(layer.heads), layer.head_dim
    words.append(_HEADS[chosen].format(heads=heads, key_heads=layer.key_heads, head_dim=per_head))
    words += [_WINDOW[chosen].format(window=layer.window)] if layer.window else []
    words += [_CHUNK[chosen].format(chunk=layer.chunk)] if layer.chunk else []
    words += [_SINK[chosen]] if layer.sink_logits else []
    return _COMMA[chosen].join([*words, *(beside(x, chosen) for x in layer.beyond)])


def beside(sentence: str, chosen: int) -> str:
    """What a layer does besides, a sentence of `LayerSpec.beyond`, in the language chosen."""
    numbers = re.findall(r"\d+", sentence)
    template = re.sub(r"\d+", "{}", sentence)
    return Words(template, BESIDES[template])[chosen].format(*numbers)


def _named(spec: EncodingSpec, chosen: int) -> str:
    settings = dict(spec.settings)
    scaling = settings.pop("scaling", None)
    parts = [f"{key}={_short(x, chosen)}" for key, x in settings.items() if x is not None]
    if scaling is not None:
        inner = ", ".join(f"{k}={_short(v, chosen)}" for k, v in scaling.settings.items())
        parts.append(f"scaling={scaling.name}({inner})")
    return f"{spec.name}({', '.join(parts)})"


def _short(value: object, chosen: int) -> str:
    if isinstance(value, tuple) and len(value) > _MOST_NUMBERS:
        return _NUMBERS[chosen].format(count=len(value))
    return repr(value)


def _ranges(numbers: list[int]) -> str:
    """0-3, 5, 7: whole numbers in a row joined, and long lists cut."""
    groups: list[list[int]] = []
    for number in numbers:
        if groups and groups[-1][-1] == number - 1:
            groups[-1][1:] = [number]
        else:
            groups.append([number])
    words = ["-".join(map(str, group)) for group in groups]
    return ", ".join(words if len(words) <= 6 else [*words[:4], "...", words[-1]])
