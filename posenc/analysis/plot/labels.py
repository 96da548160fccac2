"""Every word that figures show, in English and in Chinese."""

from typing import Literal

from posenc.errors import SettingError

Language = Literal["en", "zh"]

TEXT: dict[str, dict[Language, str]] = {
    # Axes.
    "position": {"en": "position", "zh": "位置"},
    "back": {"en": "tokens back, n", "zh": "键在查询之前的词元数 n"},
    "distance": {"en": "distance, key - query", "zh": "距离（键 - 查询）"},
    "dimension": {"en": "dimension", "zh": "维度"},
    "column": {"en": "column", "zh": "列"},
    "pair": {"en": "pair", "zh": "维度对"},
    "query": {"en": "query", "zh": "查询"},
    "key": {"en": "key", "zh": "键"},
    "value": {"en": "value", "zh": "取值"},
    "value_clipped": {
        "en": "value ({share} % lie beyond the ends)",
        "zh": "取值（截断 {share} %）",
    },
    "first_rows": {
        "en": "first {shown} of {count} positions",
        "zh": "{count} 个位置中的前 {shown} 个",
    },
    "score": {"en": "score", "zh": "得分"},
    "inner": {"en": "inner product", "zh": "内积"},
    "added": {"en": "added to the score", "zh": "加到得分上的值"},
    "radians": {"en": "radians", "zh": "弧度"},
    "turns": {"en": "turns", "zh": "圈数"},
    "tokens": {"en": "wavelength, tokens", "zh": "波长（词元）"},
    "bucket": {"en": "bucket", "zh": "桶"},
    "layers": {"en": "layers", "zh": "层数"},
    "first": {"en": "first of the pair", "zh": "第一个分量"},
    "second": {"en": "second", "zh": "第二个分量"},
    "cos": {"en": "cos", "zh": "余弦"},
    "sin": {"en": "sin", "zh": "正弦"},
    # Titles.
    "heatmap_position": {"en": "What each position is given", "zh": "每个位置得到的编码"},
    "heatmap_back": {
        "en": "What attention is told of a key n tokens back",
        "zh": "对前面第 n 个键，注意力得到的位置信息",
    },
    "heatmap_row": {"en": "The table, row by row", "zh": "表格的每一行"},
    "curves": {"en": "Single dimensions along the sequence", "zh": "单个维度沿序列的变化"},
    "circle": {
        "en": "Pair {pair}: where each position lies",
        "zh": "第 {pair} 对维度：每个位置的落点",
    },
    "helix": {"en": "Pair {pair} along the sequence", "zh": "第 {pair} 对维度沿序列展开"},
    "inner_product": {"en": "Inner product against distance", "zh": "内积随距离的变化"},
    "inner_product_score": {
        "en": "Score of equal tokens against distance",
        "zh": "相同词元的得分随距离的变化",
    },
    "scores": {"en": "Scores between equal tokens", "zh": "相同词元之间的得分"},
    "scores_row": {"en": "row of query {query}", "zh": "查询 {query} 的一行"},
    "bias": {"en": "What position adds to the score", "zh": "位置给得分加上的偏置"},
    "buckets": {"en": "Distances that share a value", "zh": "共用同一个值的距离（桶）"},
    "angles": {
        "en": "Angle between a query and a key n tokens back",
        "zh": "查询与前面第 n 个键之间的旋转角",
    },
    "angles_turns": {"en": "turns in {length} tokens", "zh": "{length} 个词元内的圈数"},
    "wavelengths": {
        "en": "Wavelength of each pair, trained on {trained} tokens",
        "zh": "每对维度的波长，训练长度 {trained}",
    },
    "decomposition": {
        "en": "The score, taken apart; % of the variation along rows",
        "zh": "得分的分解；百分数是占各行变化的比例",
    },
    "mask": {"en": "Who sees whom, and after how many layers", "zh": "谁能看见谁，经过几层"},
    # Inside figures.
    "mean": {"en": "mean of all pairs of tokens", "zh": "所有词元对的均值"},
    "mean_spread": {
        "en": "mean (at one distance it varies by up to {spread})",
        "zh": "均值（同一距离上最多相差 {spread}）",
    },
    "envelope": {"en": "envelope", "zh": "包络"},
    "per_pair": {"en": "cosine of each pair", "zh": "每对维度的余弦"},
    "head": {"en": "head {head}", "zh": "第 {head} 头"},
    "beyond": {
        "en": "less than one turn in training",
        "zh": "训练中转不满一圈",
    },
    "still": {"en": "pairs at this edge never turn", "zh": "位于此边的维度对从不旋转"},
    "one_layer": {"en": "mask of one layer", "zh": "一层的掩码"},
    "field": {"en": "receptive field: layers needed", "zh": "感受野：需要的层数"},
    "total": {"en": "score", "zh": "得分"},
    "token_token": {"en": "token - token", "zh": "词元—词元"},
    "token_position": {"en": "token - position", "zh": "词元—位置"},
    "position_token": {"en": "position - token", "zh": "位置—词元"},
    "position_position": {"en": "position - position", "zh": "位置—位置"},
    "interaction": {"en": "token and position", "zh": "词元与位置相乘"},
    "share": {"en": "{part}: {share}%", "zh": "{part}：{share}%"},
}


class Words:
    """The words of one language: say("position"), say("head", head=3).

    Raises SettingError for a language that is not there.
    """

    def __init__(self, language: str) -> None:
        if language not in ("en", "zh"):
            raise SettingError(f"language={language!r}: figures speak 'en' and 'zh'")
        self.language: Language = "zh" if language == "zh" else "en"

    def __call__(self, key: str, **values: object) -> str:
        return TEXT[key][self.language].format(**values)
