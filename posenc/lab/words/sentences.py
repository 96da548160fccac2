"""The verdict in sentences, and why there is none."""

from posenc.words import Texts

SENTENCES: Texts = {
    # What an encoding does past the train length: the words of its mark.
    "holds": ("holds", "保持"),
    "degrades": ("degrades", "变差"),
    "breaks": ("breaks", "崩溃"),
    "undecided": ("undecided", "未定"),
    "not judged": ("not judged", "不作判断"),
    # The headline.
    "none_finished": ("No run has finished yet", "还没有一次训练完成"),
    "only_numbers": (
        "One seed each: numbers, but no ranking",
        "每种编码只有一个种子：有数字，没有排名",
    ),
    "nothing_judged": ("Nothing can be judged from these runs yet", "凭这些训练还判断不出什么"),
    "many": ("{count} encodings", "{count} 种编码"),
    "all_hold": (
        "{who} {names:holds|hold} to {times:g} times the train length",
        "{who} 到训练长度的 {times:g} 倍仍保持",
    ),
    "all_degrade": ("{who} {names:degrades|degrade}", "{who} 变差"),
    "all_break": ("{who} {names:breaks|break}", "{who} 崩溃"),
    "all_diverged": ("{names} diverged", "{names} 发散"),
    "all_undecided": ("{names} {names:is|are} undecided", "{names} 未定"),
    # Who is best.
    "alone": (
        "Only one encoding has finished, so there is nothing to compare it with.",
        "只有一种编码训练完成，没有可比的。",
    ),
    "one_seed": (
        "With one seed nobody can tell a better encoding from a luckier run, so nothing is ranked "
        "and no encoding is called good or bad. Repeat with at least two seeds.",
        "只有一个种子，谁也分不清是编码更好还是那次训练更走运，所以不排名，也不说哪种编码好坏。请用至少两个种子重做。",
    ),
    "no_pair": (
        "No two encodings have two finished seeds in common, so nothing is ranked. Repeat the "
        "command: it goes on from what is done.",
        "没有两种编码共有两个完成的种子，所以不排名。再运行同一命令，它会接着做下去。",
    ),
    "at": ("At {length}", "在长度 {length}"),
    "at_train": ("At {length}, the train length,", "在训练长度 {length}"),
    "tied": (
        "{where} {names} cannot be told apart; {best} has the lowest mean.",
        "{where}，{names} 分不出高下；{best} 的均值最低。",
    ),
    "is_best": ("{where} {best} is best: {rest}.", "{where}，{best} 最好：{rest}。"),
    "is_lowest": (
        "{where} {best} has the lowest mean, but {ties} cannot be told apart from it; {rest}.",
        "{where}，{best} 的均值最低，但 {ties} 与它分不出高下；{rest}。",
    ),
    "space": (" ", ""),
    "power": (
        "So many seeds show a difference of {gap} or more in four of five cases.",
        "这么多种子，五次里有四次能测出 {gap} 或更大的差别。",
    ),
    "behind": ("{name} is behind by {gap} ({ends})", "{name} 落后 {gap}（{ends}）"),
    "behind_and_more": (
        "{name} is behind by {gap} ({ends}), the other{others:|s} by more",
        "{name} 落后 {gap}（{ends}），其余落后更多",
    ),
    # Against no position encoding.
    "idle": (
        "At {length}, the train length, {names} {names:is|are} not measurably better than no "
        "position encoding: within this budget {names:it|they} hardly learned to use position, so "
        "{names:its verdict says|their verdicts say} little.",
        "在训练长度 {length}，测不出 {names} 比没有位置编码更好：在这样的预算内，{names:它|它们}几乎没有学会使用位置，所以对{names:它|它们}的结论说明不了什么。",
    ),
    "worse_than_none": (
        "At {length} {names} {names:is|are} worse than no position encoding at all.",
        "在长度 {length}，{names} 还不如没有位置编码。",
    ),
    # One encoding.
    "gains": (
        "{name} gains from longer text: {change} ({ends}) nats per byte.",
        "{name} 从更长的文本中获益：每字节 {change}（{ends}）nat。",
    ),
    "is_undecided": (
        "{name} is undecided: {reason}; more seeds would tell.",
        "{name} 未定：{reason}；多几个种子就能分晓。",
    ),
    "is_not_judged": ("{name} is not judged: {reason}.", "对 {name} 不作判断：{reason}。"),
    "survivors": (
        "{failed} of {total} runs of {name} failed; its numbers are those of the others, and may "
        "flatter it.",
        "{name} 的 {total} 次训练中有 {failed} 次失败；它的数字只出自其余各次，可能显得过好。",
    ),
    # The other protocol.
    "windows_same": (
        "Judged on whole windows instead of fixed targets, every encoding fares the same.",
        "若按整段窗口而不是固定目标来判断，每种编码的结论都一样。",
    ),
    "windows_differ": (
        "Judged on whole windows instead of fixed targets, {differences}: a longer window still "
        "begins with bytes at trained positions, and has relatively fewer bytes with little before "
        "them.",
        "若按整段窗口而不是固定目标来判断，{differences}：更长的窗口开头仍是训练过的位置，而且前文很少的字节所占的比例更小。",
    ),
    "would holds": ("{names} would hold", "{names} 会保持"),
    "would degrades": ("{names} would degrade", "{names} 会变差"),
    "would breaks": ("{names} would break", "{names} 会崩溃"),
    "would undecided": ("{names} would be undecided", "{names} 会未定"),
    # Reasons.
    "holds or degrades": ("it holds or degrades", "可能保持，也可能变差"),
    "holds or breaks": ("it holds or breaks", "可能保持，也可能崩溃"),
    "degrades or breaks": ("it degrades or breaks", "可能变差，也可能崩溃"),
    "holds or degrades or breaks": (
        "it holds or degrades or breaks",
        "可能保持，可能变差，也可能崩溃",
    ),
    "none_longer": (
        "no test length is longer than the train length of {length}",
        "没有比训练长度 {length} 更长的测试长度",
    ),
    "not_finite": (
        "its loss is not a finite number in {runs} of {total} runs",
        "{total} 次训练中有 {runs} 次的损失不是有限的数",
    ),
    "no_loss": ("no loss at {length}: {why}", "在长度 {length} 没有损失：{why}"),
    "one_finished": ("it has only one finished seed", "只完成了一个种子"),
    "loss_missing": ("a loss is missing", "缺一个损失"),
    # In the terminal.
    "loss_at": ("loss at", "损失，长度"),
    "report": ("report: {path}", "报告：{path}"),
    "runs": ("{runs} runs", "{runs} 次训练"),
    "runs_done": (
        "{runs} runs, of which {done} are done already",
        "{runs} 次训练，其中 {done} 次已完成",
    ),
    "begins": ("{name}: begins", "{name}：开始"),
    "starting": ("starting", "启动中"),
    "testing": ("testing", "测试中"),
    "training": (
        "loss {loss:.3f}, {thousands:.1f}k tokens/s",
        "损失 {loss:.3f}，每秒 {thousands:.1f} 千个词元",
    ),
    "goes": ("{name}: {figures}", "{name}：{figures}"),
    "goes_left": ("{name}: {figures}, {left} left", "{name}：{figures}，还需 {left}"),
    "lost": (
        "{name}: its worker is lost ({message}), and another goes on from the last checkpoint",
        "{name}：所在的工作进程丢失（{message}），另一个从最近的检查点接着做",
    ),
    "ends": ("{name}: {state}", "{name}：{state}"),
    "ends_because": ("{name}: {state}: {message}", "{name}：{state}：{message}"),
    "all_runs": ("all runs", "全部训练"),
    "of_all": ("{ended} of {whole}", "{ended}/{whole}"),
    "stopped_early": (
        "stopped early: the report holds what is done, the same command goes on",
        "提前停止：报告里是已完成的部分，再运行同一命令会接着做",
    ),
}
