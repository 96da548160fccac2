"""What the pages of evidence say, in both languages."""

from posenc.words import Texts

INDEX = {
    "en": """# Evidence

What was published about position encodings, as objects that anyone can run: each claim names its source, what is run
here and how that differs, and what must come out. `posenc claims run NAME` runs one, `posenc claims run --all` all of
them; what is done is kept, and runs that two claims need are made once.

A claim *holds* where the 95% interval of each expectation lies within its bounds, *fails* where one lies outside, and is
*undecided* otherwise. Intervals are Student's t over seeds, of differences seed by seed. Those of shares count as well
that few examples were tested, by Wilson's interval; the tokens of one example count as one, for they may be right or
wrong together. These models are small: a claim that fails here fails at this size, with this budget, on this text.
`posenc claims run --size large` is for a GPU.

[By encoding and task](overview.md) has the numbers of all claims side by side, and `posenc advise` answers with those
that speak to a length and a task of yours. Each claim has a page with its curves, every number and every seed.
""",
    "zh": """# 证据

关于位置编码发表过的说法，做成谁都能运行的对象：每条都写明出处、这里怎样运行、与原文有什么不同，以及必须得到什么结果。`posenc claims run 名称` 运行一条，`posenc claims run --all` 运行全部；已完成的会保留，两条说法共用的运行只做一次。

每项预期的 95% 区间都在界限之内，说法就*成立*；有一项在界限之外，就*不成立*；其余为*未定*。区间是各种子上的 t 区间，差值按种子逐个相减。比例的区间还按 Wilson 区间计入题数不多带来的误差；同一题的词元可能一同答对或答错，只算一个。这里的模型很小：在这里不成立，是指在这个规模、这个预算、这份文本上不成立。`posenc claims run --size large` 供 GPU 使用。

[按编码和任务](overview.md)把全部说法的数字并排列出，`posenc advise` 从中找出与你的长度和任务有关的来回答。每条说法有一页：曲线、全部数字、每个种子。
""",
}
OVERVIEW = {
    "en": """# By encoding and task

What all runs of the claims came to, at 1, 2, 4 and 8 times the train length: means over seeds with 95% intervals, a
table for each task. An empty cell was not measured. Models are small, as their pages say.

Where less than half of the way from chance to all answers is right at the train length, or less than a claim asks for,
the task has not been learned (†), and nothing is said of longer inputs. *On* names the encoding that the weights were
trained with, where they were given another as they are. `posenc advise` reads the same numbers.
""",
    "zh": """# 按编码和任务

各条说法的全部运行，在训练长度 1、2、4、8 倍处得到的数字：各种子的均值和 95% 区间，每个任务一张表。空格表示没有测量。模型都很小，大小见各页。

在训练长度上，答对的比例若不到从碰运气到全对的一半，或者不到说法的要求，就是没有学会任务（†），更长的输入就不再说什么。*权重来自*指权重用哪种编码训练，之后不再训练就换了编码。`posenc advise` 读的是同样的数字。
""",
}
TEXTS: Texts = {
    "head_claim": ("claim", "说法"),
    "head_agreed": ("agreed", "公认"),
    "head_arm": ("arm", "组"),
    "head_seed": ("seed", "种子"),
    "head_encoding": ("encoding", "编码"),
    "head_task": ("task", "任务"),
    "head_size": ("layers, width, heads", "层数、宽度、头数"),
    "head_steps": ("steps", "步数"),
    "head_rate": ("learning rate", "学习率"),
    "head_runs": ("runs", "运行"),
    "yes": ("yes", "是"),
    "verdict": ("Verdict", "结论"),
    "verdict_is": ("It *{outcome}*.", "*{outcome}*。"),
    "verdict_undecided": ("It is *undecided*.", "*未定*。"),
    "not_agreed": ("The field does not agree on the claim.", "这条说法并非公认。"),
    "agreed_on": ("The field agrees on the claim.", "这条说法是公认的。"),
    "by_length": ("By length", "随长度的变化"),
    "curves": (
        "Means over seeds with {level:.0%} intervals; dotted: the train length.",
        "各种子的均值和 {level:.0%} 区间；点线是训练长度。",
    ),
    "alt": ("{metric} by length: {arms}", "{metric}随长度的变化：{arms}"),
    "alt_arm": (
        "{arm} {first} at {start} and {last} at {end}",
        "{arm} 在 {start} 为 {first}，在 {end} 为 {last}",
    ),
    "unit_loss": (
        "Loss at each length, in nats per byte or scored token; less is better.",
        "各长度上的损失，以每字节或每个计分词元的 nat 计，越小越好。",
    ),
    "unit_windows": (
        "Loss of whole windows at each length, in nats per byte; less is better.",
        "各长度上的整窗损失，以每字节的 nat 计，越小越好。",
    ),
    "unit_exact": ("Share of right answers at each length.", "各长度上答对的比例。"),
    "unit_token": ("Share of right tokens at each length.", "各长度上词元对的比例。"),
    "unit": ("{metric} at each length.", "各长度上的{metric}。"),
    "by_seed": ("By seed", "逐个种子"),
    "runs_of": ("{failed} of {runs} failed", "{runs} 次中 {failed} 次失败"),
    "arms": ("Arms", "各组运行"),
    "on_weights": ("{encoding} on {base}", "{encoding}，权重来自 {base}"),
    "tuned": (
        "{encoding} on {base}, {steps} steps more",
        "{encoding}，权重来自 {base}，再训练 {steps} 步",
    ),
    "on_others": ("{encoding} on other weights", "{encoding}，用别的权重"),
    "rates": (
        "Learning rates are chosen from {rates} for each arm, by its loss at the train length alone.",
        "学习率从 {rates} 中为每组各选一个，只看训练长度上的损失。",
    ),
    "gate": (
        "An arm with less than {needed:.0%} of right answers at the train length has not learned "
        "the task, and nothing is said of it beyond.",
        "在训练长度上答对不到 {needed:.0%} 的一组，就是没有学会任务，更长处不再说它。",
    ),
    "not_learned": (
        "{arm} has not learned the task: {share:.0%} right at the train length.",
        "{arm} 没有学会任务：在训练长度上答对 {share:.0%}。",
    ),
    "made": ("How it was run", "怎样运行的"),
    "machine": (
        "{cpu}, {cores:# core|# cores}; {versions}; begun {date}.",
        "{cpu}，{cores} 核；{versions}；开始于 {date}。",
    ),
    "size_line": ("Size: {size}.", "规模：{size}。"),
    "diverged": ("diverged", "发散"),
    "trained_on": ("Trained on {lengths}.", "训练长度 {lengths}。"),
    "length": ("length", "长度"),
    "kind": (
        "`posenc advise --task {kind}` reads this table.",
        "`posenc advise --task {kind}` 读的是这张表。",
    ),
}
