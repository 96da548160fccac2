"""What the page says around its tables and in its pictures."""

from posenc.words import Texts

PAGE: Texts = {
    "kicker_encodings": (
        "{encodings:# encoding|# encodings}, {seeds} each",
        "{encodings} 种编码，各 {seeds}",
    ),
    "seeds": ("{count:# seed|# seeds}", "{count} 个种子"),
    "seeds_between": ("{fewest} to {most} seeds", "{fewest} 至 {most} 个种子"),
    "kicker_lengths": (
        "trained at {train} bytes, tested to {longest}",
        "训练长度 {train} 字节，测试到 {longest}",
    ),
    "command": ("The command", "命令"),
    "basis": (
        "Everything is decided from fixed targets: every length scores {same}, only the text "
        "before them grows. Differences are taken seed by seed. Ranges are {level:.0%} intervals "
        "(Student's t) for the luck of {chance}. Two seeds that happen to agree do not pass for "
        "certainty: an encoding's own spread is averaged with the spread of all, which is "
        "{floor:.3f} nats at the train length and {share:.0%} of the rise past it, and never "
        "counts as less than its own. An encoding that none beats in truth is told worse than the "
        "lowest one in at most 5% of studies.",
        "一切判断都出自固定目标：每个长度都对{same}计算损失，只有它们前面的文本变长。差值逐个种子来取。范围是 {level:.0%} 区间（t 分布），计入{chance}带来的偶然。两个种子碰巧一致，不算确定：一种编码自己的离散程度，要与全体的离散程度平均，后者在训练长度上是 {floor:.3f} nat，在其后是上升幅度的 {share:.0%}，而且从不低于它自己的。真正最好的编码被判为不如损失最低者的研究，至多占 5%。",
    ),
    "same_bytes": ("the same {count:,} bytes of test text", "同样的 {count:,} 字节测试文本"),
    "same_text": ("the same bytes of test text", "同样的测试文本"),
    "by_seed": ("the seed", "种子"),
    "by_seed_and_text": (
        "the seed and, in changes and differences, of the test text",
        "种子（在变化和差值中还有测试文本）",
    ),
    # The verdict's table.
    "verdict": ("Verdict", "结论"),
    "verdicts": ("Verdict by encoding", "各编码的结论"),
    "change_to": ("Change to {length}", "到 {length} 的变化"),
    "behind_at": ("Behind the best at {length}", "在 {length} 落后最好者"),
    "verdict_note": (
        "Change: loss at that length minus loss at {train}, of the same model. Behind: loss minus "
        "the best encoding's loss. Nats per byte; less is better.",
        "变化：同一个模型在该长度的损失，减去在 {train} 的损失。落后：损失减去最好的编码的损失。单位是每字节 nat，越小越好。",
    ),
    "rule_breaks": (
        "the loss at {near} is above the loss at {train} by more than {breaks:g} nat",
        "在 {near} 的损失比在 {train} 的高出 {breaks:g} nat 以上",
    ),
    "rule_holds": (
        "not so, and at {longest} it is above by less than {holds:g} nats",
        "不算崩溃，而且在 {longest} 高出不到 {holds:g} nat",
    ),
    "rule_degrades": (
        "not so, and at {longest} it is above by more than {holds:g} nats",
        "不算崩溃，而且在 {longest} 高出 {holds:g} nat 以上",
    ),
    "rule_undecided": (
        "the 95% intervals allow more than one of these",
        "95% 区间容许以上不止一种",
    ),
    # Pictures.
    "targets": ("Fixed targets", "固定目标"),
    "windows": ("Whole windows", "整段窗口"),
    "per_byte": ("{title}, nats per byte", "{title}，每字节 nat"),
    "against_length": ("Loss against length", "损失随长度的变化"),
    "caption_targets": (
        "Every length scores the same bytes; only the text before them grows. The verdict rests on "
        "this picture.",
        "每个长度都对同样的字节计算损失，只有它们前面的文本变长。结论就出自这张图。",
    ),
    "caption_windows": (
        "Every byte of non-overlapping windows is scored. A longer window has relatively fewer "
        "bytes with little before them, so its loss falls a little by itself.",
        "对互不重叠的窗口中的每个字节计算损失。窗口越长，前文很少的字节所占的比例越小，所以损失自己就会降一点。",
    ),
    "alt_targets": (
        "Loss in nats per byte against length, fixed targets.",
        "每字节的损失（nat）随长度的变化，固定目标。",
    ),
    "alt_windows": (
        "Loss in nats per byte against length, whole windows.",
        "每字节的损失（nat）随长度的变化，整段窗口。",
    ),
    "axis_length": ("length of the text read, in bytes", "所读文本的长度（字节）"),
    "trained_at": ("trained at {train}", "训练长度 {train}"),
    "by_position": (
        "By position at length {longest}, nats per byte",
        "长度 {longest} 时按位置的损失，每字节 nat",
    ),
    "caption_position": (
        "Where in a window of {longest} bytes the loss arises. Training never showed positions in "
        "the shaded part. Ups and downs that the lines share are the text's.",
        "在 {longest} 字节的窗口里，损失出在哪里。阴影部分的位置在训练中从未出现过。各条线共有的起伏来自文本。",
    ),
    "alt_position": (
        "Loss in nats per byte against position in the longest window.",
        "每字节的损失（nat）随最长窗口中位置的变化。",
    ),
    "axis_position": ("position in the window, in bytes", "窗口中的位置（字节）"),
    "trained_to": ("trained to {train}", "训练到 {train}"),
    "by_step": ("Training, nats per byte", "训练过程，每字节 nat"),
    "caption_step": (
        "Mean over seeds. A line that still falls at the right end was stopped before it was done: "
        "with more steps its encoding would come out better.",
        "各种子的均值。到右端还在下降的线，没有训练完就停了：步数再多些，这种编码会更好。",
    ),
    "alt_step": (
        "Loss in nats per byte against training step.",
        "每字节的损失（nat）随训练步数的变化。",
    ),
    "axis_step": ("training step", "训练步数"),
    "lines_decided": (
        "Lines are means over seeds, dots are single seeds, bands are 95% intervals for the luck of "
        "the seed.",
        "线是各种子的均值，点是单个种子，色带是计入种子偶然的 95% 区间。",
    ),
    "lines_undecided": ("Lines are means over the seeds that there are.", "线是现有种子的均值。"),
    "lines_shaded": (
        " The shaded part lies past the train length.",
        "阴影部分超出训练长度。",
    ),
    "lines_gone": (" Where {names} diverged, nothing is drawn.", "{names} 发散之处没有画。"),
    "lines_arrow": (
        " An arrow marks a line that leaves the picture; the tables have its numbers.",
        "箭头表示线超出了画面，数字见表格。",
    ),
    # Tables.
    "at_each_length": ("Loss at each length", "各长度的损失"),
    "name_at": ("{name} at {length}", "{name} 在 {length}"),
    "missing": ("{dash} {where}: {why}", "{dash} {where}：{why}"),
    "some_seeds": (" ({found} of {all} seeds)", "（{all} 个种子中的 {found} 个）"),
    "costs": ("What each encoding costs", "各编码的代价"),
    "costs_label": ("Costs", "代价"),
    "parameters": ("Parameters", "参数"),
    "encoding_parameters": ("Its encoding's own", "其中属于编码"),
    "steps": ("Steps", "步数"),
    "ms_per_step": ("ms per step", "每步毫秒"),
    "peak_memory_mb": ("Memory, MB", "内存（MB）"),
    "trained_position": ("Largest trained position", "训练过的最大位置"),
    "trained_distance": ("Largest trained distance", "训练过的最大距离"),
    "seconds": ("Seconds per run", "每次训练的秒数"),
    "costs_note": (
        "Means over seeds. Time and memory are of this machine, with as many runs at once as it was "
        "given; they compare encodings within this report only. Memory is what training added to "
        "the process. The largest trained position and distance are the last that the trained "
        "encoding tells from the one before, among tokens that see each other; a dash where it has "
        "none.",
        "各种子的均值。时间和内存是在这台机器上、同时进行给定次数的训练时测得的，只能用来比较本报告里的编码。内存是训练给进程增加的。训练过的最大位置和距离，是在互相看得见的词元之间，训练之后的编码还能与前一个区分开的最后一个；没有则为短横。",
    ),
    # Claims that speak of its encodings.
    "published": ("What was published of these", "关于它们发表过的说法"),
    "claim_says": ("Claim", "说法"),
    "claim_outcome": ("Outcome", "结果"),
    "claim_more": ("More", "详情"),
    "claim_holds": ("holds", "成立"),
    "claim_fails": ("fails", "不成立"),
    "claim_undecided": ("undecided", "未定"),
    "claims_note": (
        "Outcomes are those of posenc's own runs, at their own size and on Python's standard library: "
        "what stands above may come out otherwise.",
        "结果出自 posenc 自己的运行，用它们自己的规模，读 Python 标准库；上面的结论可能不同。",
    ),
}
