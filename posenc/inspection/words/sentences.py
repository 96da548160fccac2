"""The summary in sentences, what is told in the terminal, and what inspect.json says of itself."""

from posenc.words import Texts

SENTENCES: Texts = {
    # The learned table.
    "all_trained": (
        "The learned table has {rows:,} rows of {columns:,} numbers, and all look trained.",
        "位置表有 {rows:,} 行，每行 {columns:,} 个数，看上去全都训练过。",
    ),
    "not_all_trained": (
        "The learned table has {rows:,} rows of {columns:,} numbers; {states}.",
        "位置表有 {rows:,} 行，每行 {columns:,} 个数；{states}。",
    ),
    "state_trained": ("{rows} look trained", "{rows}看上去训练过"),
    "state_initial": (
        "{rows} look as they were drawn at initialisation",
        "{rows}看上去还是初始化时的样子",
    ),
    "state_unrelated": (
        "{rows} are like no neighbour, and nothing tells whether they were trained",
        "{rows}与相邻的行都不相似，看不出有没有训练过",
    ),
    "state_zero": ("{rows} are zero", "{rows}全是零"),
    "one_row": ("row {rows}", "第 {rows} 行"),
    "rows": ("rows {rows}", "第 {rows} 行"),
    "rows_in_places": ("{rows:,} rows in {places} places", "{places} 处共 {rows:,} 行"),
    # Scores.
    "stays": (
        "Whatever the text, position explains {share} of how scores vary ({distance} by distance "
        "alone, {place} by place), mean over heads{most}.",
        "无论什么文字，得分的变化都有 {share} 由位置解释（{distance} 只凭距离，{place} 凭所在之处），各头平均{most}。",
    ),
    "split": (
        "With every pair of tokens at every distance, content explains {content}, distance "
        "{distance}, and both together {both}.",
        "把每一对词元放到每一个距离上，内容解释得分变化的 {content}，距离解释 {distance}，两者一起解释 {both}。",
    ),
    # Attention.
    "attends": (
        "Heads attend {distance:.1f} tokens away on average, and 90% of a head's attention lies "
        "within {reach:.0f} tokens (mean over heads).",
        "各个头平均看向 {distance:.1f} 个词元之外，90% 的注意力落在 {reach:.0f} 个词元之内。",
    ),
    "first": (
        "The first 4 tokens get {share} of the attention{most}.",
        "前 4 个词元得到 {share} 的注意力{most}。",
    ),
    "previous": ("The token before gets {share}{most}.", "前一个词元得到 {share}{most}。"),
    "next": ("The token behind gets {share}{most}.", "后一个词元得到 {share}{most}。"),
    "most": (
        "; most in layer {layer}, head {head}: {share}",
        "；最多的是第 {layer} 层的 {head} 号头：{share}",
    ),
    "most_by_distance": (
        "; most by distance in layer {layer}, head {head}: {share}",
        "；距离解释得最多的是第 {layer} 层的 {head} 号头：{share}",
    ),
    # Rotary pairs.
    "slow_pairs": (
        "{slow:# rotary pair|# rotary pairs} of {pairs} turn less than once in the trained length "
        "({trained:,}), and hold {share} of |q| |k|.",
        "{pairs} 个旋转的维度对中，有 {slow} 个在训练长度（{trained:,}）之内转不满一圈，它们占 |q| |k| 的 {share}。",
    ),
    # Shifts, and what is compared.
    "only_rounding": (
        "All positions shifted by up to {shift:,} change the {compared} by rounding only: "
        "{largest:.2g} at most.",
        "所有位置一起平移，直到 {shift:,}，{compared} 的变化都只是舍入误差：最大 {largest:.2g}。",
    ),
    "shift_changes": (
        "All positions shifted by {shift:,} change the {compared} by {share} of their spread, "
        "{largest:.2g} at most.",
        "所有位置一起平移 {shift:,}，{compared} 平均变化其标准差的 {share}，最大变化 {largest:.2g}。",
    ),
    "logits": ("logits", "logit"),
    "hidden states": ("hidden states", "隐藏状态"),
    "output": ("output", "输出"),
    # In the terminal.
    "loading": ("loading", "加载中"),
    "layer_of": ("layer {layer}", "第 {layer} 层"),
    "head_layer": ("layer", "层"),
    "head_stays_distance": ("by distance", "凭距离"),
    "head_stays_place": ("by place", "凭所在之处"),
    "head_attention_first": ("first 4", "前 4 个"),
    "head_attention_itself": ("itself", "自己"),
    "head_attention_previous": ("previous", "前一个"),
    "head_attention_distance_beyond_first": ("away", "多远"),
    "head_attention_entropy": ("entropy", "熵"),
    "page": ("page: {path}", "页面：{path}"),
}

# What inspect.json holds in English; the errors in it stay.
PHRASES = {
    "posenc's own": "posenc 自带的文字",
    "random tokens, for the model has no tokenizer": "随机的词元（模型没有分词器）",
    "Layers were not looked at: ": "没有查看各层：",
    "Shifts were not measured: ": "没有测量平移：",
    " takes no position_ids.": " 不接受 position_ids。",
    "the text is as long as the model takes (": "文字已经达到模型的上限（",
    " tokens): give fewer --tokens.": " 个词元）：请减小 --tokens。",
    "position_ids that count from the first token are not its own.": (
        "它自己的 position_ids 不是从第一个词元数起的。"
    ),
    "its attention is not softmax of these scores alone (capped scores)": (
        "它的注意力不只是这些得分的 softmax（设了上限的得分）"
    ),
    "its scores were not split: ": "它的得分没有拆分：",
}
