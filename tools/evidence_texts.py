"""What the page of evidence says, in both languages."""

INTRO = {
    "en": """# Evidence

What was published about position encodings, as objects that anyone can run: each claim names its source, what is run
here and how that differs, and what must come out. `posenc claims run NAME` runs one, `posenc claims run --all` all of
them; what is done is kept, and runs that two claims need are made once.

A claim *holds* where the 95% interval of each expectation lies within its bounds, *fails* where one lies outside, and is
*undecided* otherwise. Intervals are Student's t over seeds, of differences seed by seed. These models are small: a claim
that fails here fails at this size, with this budget, on this text. `posenc claims run --size large` is for a GPU.
""",
    "zh": """# 证据

关于位置编码发表过的说法，做成谁都能运行的对象：每条都写明出处、这里怎样运行、与原文有什么不同，以及必须得到什么结果。`posenc claims run 名称` 运行一条，`posenc claims run --all` 运行全部；已完成的会保留，两条说法共用的运行只做一次。

每项预期的 95% 区间都在界限之内，说法就*成立*；有一项在界限之外，就*不成立*；其余为*未定*。区间是各种子上的 t 区间，差值按种子逐个相减。这里的模型很小：在这里不成立，是指在这个规模、这个预算、这份文本上不成立。`posenc claims run --size large` 供 GPU 使用。
""",
}
HEADS = {"en": ("claim", "agreed", "outcome", "source"), "zh": ("说法", "公认", "结果", "出处")}
YES = {"en": "yes", "zh": "是"}
SECTION = {"en": "Every claim", "zh": "逐条"}
