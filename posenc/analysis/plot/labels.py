"""The words that figures show, in English and in Chinese."""

from typing import Literal

from posenc.errors import SettingError

Language = Literal["en", "zh"]
# What a figure says, by key: in English and in Chinese.
Texts = dict[str, tuple[str, str]]

TEXT: Texts = {
    # Axes.
    "position": ("position", "位置"),
    "back": ("tokens back, n", "键在查询之前的词元数 n"),
    "distance": ("distance, key - query", "距离（键 - 查询）"),
    "dimension": ("dimension", "维度"),
    "column": ("column", "列"),
    "pair": ("pair", "维度对"),
    "query": ("query", "查询"),
    "key": ("key", "键"),
    "value": ("value", "取值"),
    "value_clipped": ("value ({share} % lie beyond the ends)", "取值（截断 {share} %）"),
    "first_rows": ("first {shown} of {count} positions", "{count} 个位置中的前 {shown} 个"),
    "score": ("score", "得分"),
    "inner": ("inner product", "内积"),
    "added": ("added to the score", "加到得分上的值"),
    "radians": ("radians", "弧度"),
    "turns": ("turns", "圈数"),
    "tokens": ("wavelength, tokens", "波长（词元）"),
    "bucket": ("bucket", "桶"),
    "layers": ("layers", "层数"),
    "first": ("first of the pair", "第一个分量"),
    "second": ("second", "第二个分量"),
    "cos": ("cos", "余弦"),
    "sin": ("sin", "正弦"),
    # Titles.
    "heatmap_position": ("What each position is given", "每个位置得到的编码"),
    "heatmap_back": (
        "What attention is told of a key n tokens back",
        "对前面第 n 个键，注意力得到的位置信息",
    ),
    "heatmap_row": ("The table, row by row", "表格的每一行"),
    "curves": ("Single dimensions along the sequence", "单个维度沿序列的变化"),
    "circle": ("Pair {pair}: where each position lies", "第 {pair} 对维度：每个位置的落点"),
    "helix": ("Pair {pair} along the sequence", "第 {pair} 对维度沿序列展开"),
    "inner_product": ("Inner product against distance", "内积随距离的变化"),
    "inner_product_score": ("Score of equal tokens against distance", "相同词元的得分随距离的变化"),
    "scores": ("Scores between equal tokens", "相同词元之间的得分"),
    "scores_row": ("row of query {query}", "查询 {query} 的一行"),
    "bias": ("What position adds to the score", "位置给得分加上的偏置"),
    "buckets": ("Distances that share a value", "共用同一个值的距离（桶）"),
    "angles": ("Angle between a query and a key n tokens back", "查询与前面第 n 个键之间的旋转角"),
    "angles_turns": ("turns in {length} tokens", "{length} 个词元内的圈数"),
    "wavelengths": (
        "Wavelength of each pair, trained on {trained} tokens",
        "每对维度的波长，训练长度 {trained}",
    ),
    "decomposition": (
        "The score, taken apart; % of the variation along rows",
        "得分的分解；百分数是占各行变化的比例",
    ),
    "mask": ("Who sees whom, and after how many layers", "谁能看见谁，经过几层"),
    # Inside figures.
    "mean": ("mean of all pairs of tokens", "所有词元对的均值"),
    "mean_spread": (
        "mean (at one distance it varies by up to {spread})",
        "均值（同一距离上最多相差 {spread}）",
    ),
    "envelope": ("envelope", "包络"),
    "per_pair": ("cosine of each pair", "每对维度的余弦"),
    "head": ("head {head}", "第 {head} 头"),
    "beyond": ("less than one turn in training", "训练中转不满一圈"),
    "still": ("pairs at this edge never turn", "位于此边的维度对从不旋转"),
    "one_layer": ("mask of one layer", "一层的掩码"),
    "field": ("receptive field: layers needed", "感受野：需要的层数"),
    "total": ("score", "得分"),
    "token_token": ("token - token", "词元—词元"),
    "token_position": ("token - position", "词元—位置"),
    "position_token": ("position - token", "位置—词元"),
    "position_position": ("position - position", "位置—位置"),
    "interaction": ("token and position", "词元与位置相乘"),
    "share": ("{part}: {share}%", "{part}：{share}%"),
}


class Words:
    """The words of one language: say("position"), say("head", head=3).

    Raises SettingError for a language that is not there.
    """

    def __init__(self, language: str, texts: Texts = TEXT) -> None:
        if language not in ("en", "zh"):
            raise SettingError(f"language={language!r}: figures speak 'en' and 'zh'")
        self.column = ("en", "zh").index(language)
        self.texts = texts

    def __call__(self, key: str, **values: object) -> str:
        return self.texts[key][self.column].format(**values)
