"""What the page says around its tables and in its pictures."""

from posenc.words import Texts

PAGE: Texts = {
    "headline": ("What positions do in {name}", "位置在 {name} 里做了什么"),
    "layers": ("{layers:# layer|# layers}", "{layers} 层"),
    "tokens": ("{tokens:,} tokens", "{tokens:,} 个词元"),
    # What stands beside pictures.
    "layer": ("layer", "层"),
    "head": ("head", "头"),
    "row": ("row", "行"),
    "column": ("column", "列"),
    "pair": ("pair", "维度对"),
    # The learned table.
    "table": ("The table of positions", "位置表"),
    "title_values": ("The table", "整张表"),
    "alt_values": ("The numbers of the table.", "表中的数。"),
    "caption_values": (
        "Colours are made for 98% of the numbers; larger ones have the last colour.",
        "颜色按其中 98% 的数来定，更大的数取最深的颜色。",
    ),
    "thinned": (" Some rows and columns of all.", "只画了其中一些行和列。"),
    "title_cosines": ("Cosine of each row with each", "各行两两之间的余弦"),
    "alt_cosines": ("Cosines of pairs of rows.", "各行两两之间的余弦。"),
    "caption_cosines": (
        "A band along the diagonal: neighbours are alike. A block: rows that were trained together. "
        "Noise all over: rows that nothing put in order.",
        "沿对角线有一条带：相邻的行相似。成块：这些行是一起训练的。到处是噪声：没有什么让这些行有次序。",
    ),
    "title_norms": ("Length of each row", "各行的长度"),
    "alt_norms": ("Norms of rows.", "各行的范数。"),
    "caption_norms": (
        "Rows that are much longer than all others leave the picture. A step is where training "
        "stopped, or went on, at another length.",
        "比其余各行长得多的，超出了画面。有台阶的地方，训练曾在那个长度停下，或换成别的长度继续。",
    ),
    "title_components": ("Principal components", "主成分"),
    "alt_components": ("Rows by two components.", "各行的前两个主成分。"),
    "caption_components": (
        "Each row along the two directions in which rows differ most, which explain {shares} of "
        "their variance. Near rows near each other: an order was learned; a ring: rows repeat with "
        "a wavelength.",
        "各行在差别最大的两个方向上的位置，这两个方向解释方差的 {shares}。邻近的行挨在一起：学到了次序；成环：各行以某个波长重复。",
    ),
    "component": ("component {number}", "成分 {number}"),
    "first_row": ("first row", "第一行"),
    "last_row": ("last row", "最后一行"),
    "drawn": (
        "A row counts as drawn where it is as long as rows were at initialisation (standard "
        "deviation {deviation:g}, by config.json) and like neither neighbour.",
        "一行若与初始化时一样长（config.json 给出的标准差是 {deviation:g}），又与前后两行都不相似，就算是初始化时的样子。",
    ),
    "not_drawn": (
        "config.json does not say how rows were drawn, so that their length tells nothing.",
        "config.json 没有写各行是怎样初始化的，所以它们的长度说明不了什么。",
    ),
    # Scores.
    "scores": ("Scores: content and position", "得分：内容与位置"),
    "caption_stays": (
        "Share of the scores' variance that stays whatever the text.",
        "得分的方差中，无论什么文字都不变的份额。",
    ),
    "caption_split": (
        "Share, with every pair of tokens at every distance.",
        "把每一对词元放到每一个距离上时的份额。",
    ),
    "scores_note": (
        "Whatever the text: the text is turned round, so that other tokens come to every place, and "
        "what stays of the scores is position's. Content and distance: every pair of tokens is put "
        "at every distance, which only encodings that act in attention allow.",
        "无论什么文字：同一段文字从不同的地方开始、首尾相接地读，每个位置都换了词元，得分中不变的部分属于位置。内容与距离：把每一对词元放到每一个距离上，只有在注意力里起作用的编码才能这样做。",
    ),
    "scores_by_layer": ("Scores by layer", "各层的得分"),
    "stays_distance": ("Position, told by distance", "位置（凭距离）"),
    "stays_place": ("Position, by place alone", "位置（凭所在之处）"),
    "stays_content": ("The text", "文字"),
    "split_content": ("Content", "内容"),
    "split_distance": ("Distance", "距离"),
    "split_interaction": ("Both together", "两者一起"),
    # Attention.
    "attention": ("Attention: where heads look", "注意力：各个头看向哪里"),
    "attention_note": (
        "Means over the queries behind the first token. The reach is the distance within which 90% "
        "of a head's attention lies; on the first 4 tokens: over the queries behind these.",
        "对第一个词元之后的查询取平均。“触及”是容纳一个头 90% 注意力的距离；看前 4 个词元的份额，只对它们之后的查询取平均。",
    ),
    "attention_by_layer": ("Attention by layer", "各层的注意力"),
    "attention_first": ("On the first 4 tokens", "看前 4 个词元"),
    "attention_itself": ("On the token itself", "看自己"),
    "attention_previous": ("On the token before", "看前一个词元"),
    "attention_next": ("On the token behind", "看后一个词元"),
    "attention_distance": ("Mean distance, tokens", "平均距离（词元）"),
    "attention_distance_beyond_first": (
        "Mean distance without the first 4",
        "不计前 4 个的平均距离",
    ),
    "attention_reach": ("Reach of 90%, tokens", "触及（90%，词元）"),
    "attention_entropy": ("Entropy, nats", "熵（nat）"),
    "by_layer_and_head": ("{title}, by layer and head.", "{title}，按层和头。"),
    "title_mass": ("Share of attention by distance", "各距离上注意力的份额"),
    "axis_mass": ("distance, tokens", "距离（词元）"),
    "alt_mass": ("Attention by distance.", "注意力随距离的变化。"),
    "caption_mass": (
        "Mean over heads; the token itself is left out. Sinks make a flat tail: every query is at "
        "another distance from the first tokens.",
        "各头平均，不含词元自己。汇点使尾部变平：每个查询与开头几个词元的距离各不相同。",
    ),
    # Rotary pairs.
    "pairs": ("Rotary pairs", "旋转的维度对"),
    "title_product": ("Share of |q| |k| by layer and pair", "各层各对的 |q| |k| 所占的份额"),
    "alt_product": ("Products of norms by pair.", "各维度对的范数之积。"),
    "caption_product": (
        "How much each pair can add to a score. Pair 0 turns fastest.",
        "每一对能给得分加上多少。第 0 对转得最快。",
    ),
    "title_wavelength": ("Norms by wavelength", "范数随波长的变化"),
    "axis_wavelength": ("wavelength, tokens", "波长（词元）"),
    "alt_wavelength": ("Norms by pair.", "各维度对的范数。"),
    "caption_wavelength": (
        "Means over layers. A pair right of the trained length never turned once in training.",
        "各层平均。训练长度右边的维度对，在训练中一圈也没有转完。",
    ),
    "mark_text": ("text", "文字"),
    "mark_trained": ("trained length", "训练长度"),
    "pairs_note": (
        "2-norms of queries and keys in each pair before rotation, means over tokens.",
        "旋转之前，查询和键在每一对上的二范数，对词元取平均。",
    ),
    "pairs_of_some": (
        " Layers turn at different speeds: curves and table are means over the {same} of {layers} that "
        "turn as layer {first} does.",
        "各层转的快慢不同：曲线和表格只对与第 {first} 层转得一样的 {same} 层取平均，共 {layers} 层。",
    ),
    "head_pair": ("Pair", "维度对"),
    "head_wavelength": ("Wavelength, tokens", "波长（词元）"),
    # Shifts.
    "shifts": ("Shifts of all positions", "所有位置一起平移"),
    "shifts_label": ("Shifts", "平移"),
    "shifts_note": (
        "The same text at positions that are larger by so much; what changes in the {compared}. A "
        "model that reads distances alone gives the same again.",
        "同一段文字，所有位置都加上这么多，{compared} 变化多少。只看距离的模型，结果不变。",
    ),
    "head_shift": ("All positions", "所有位置"),
    "head_largest": ("Largest change", "最大变化"),
    "head_mean": ("Mean change", "平均变化"),
    "head_relative": ("Mean, of the spread", "平均变化占标准差"),
    "rounding": ("rounding", "舍入误差"),
    "changes": ("changes", "有变化"),
    # Tables by layer.
    "mean_over_heads": ("Mean over heads", "各头平均"),
    "row_layer": ("Layer {layer}", "第 {layer} 层"),
    # What was looked at.
    "what": ("What was looked at", "查看了什么"),
    "key_model": ("Model", "模型"),
    "key_layers": ("Layers looked at", "查看的层"),
    "key_embeddings": ("Added to embeddings", "加在嵌入上"),
    "key_attention": ("In attention", "注意力里"),
    "key_trained": ("Trained length", "训练长度"),
    "key_text": ("Text", "文字"),
    "no_layers": ("none", "没有"),
    "nothing_added": ("nothing", "什么也没有"),
    "no_rotation": ("no rotation", "没有旋转"),
    "not_seen": ("not looked at", "没有查看"),
    "not_told": ("not told", "没有写明"),
    "read": (
        "{source}: {tokens:,} tokens, turned round {texts} times",
        "{source}：{tokens:,} 个词元，从不同的地方开始，读 {texts} 遍",
    ),
    "layer_note": ("Layer {layer}: {note}.", "第 {layer} 层：{note}。"),
    "sentence": ("{text}.", "{text}。"),
    "series": (", ", "、"),
}
