"""What is said of claims, in English and in Chinese."""

from posenc.words import Texts

TEXTS: Texts = {
    "claim": ("claim", "说法"),
    "outcome": ("outcome", "结果"),
    "says": ("what it says", "内容"),
    "source": ("source", "出处"),
    "holds": ("holds", "成立"),
    "fails": ("fails", "不成立"),
    "undecided": ("undecided", "未定"),
    "not_run": ("not run", "未运行"),
    "space": (" ", ""),
    "results": ("results: {path}", "结果：{path}"),
    "heading": ("{name}: {outcome}", "{name}：{outcome}"),
    "source_line": ("Source: {source}", "出处：{source}"),
    "differs_line": ("Here: {differs}", "这里：{differs}"),
    "command_line": ("Run it: {command}", "运行：{command}"),
    "none_yet": ("It has not been run.", "还没有运行过。"),
    "expected": (
        "{outcome}: {what} is {found}, expected {bounds}",
        "{outcome}：{what}为 {found}，预期{bounds}",
    ),
    "expected_unknown": (
        "{outcome}: {what}, expected {bounds}: {reason}",
        "{outcome}：{what}，预期{bounds}：{reason}",
    ),
    "above": ("above {above:g}", "高于 {above:g}"),
    "below": ("below {below:g}", "低于 {below:g}"),
    "between": ("between {above:g} and {below:g}", "在 {above:g} 与 {below:g} 之间"),
    "unlearned": (
        "{arm} has not learned the task: {share:.0%} right, and {needed:.0%} are needed",
        "{arm} 没有学会任务：答对 {share:.0%}，需要 {needed:.0%}",
    ),
    "not_measured": ("not measured", "没有测量"),
    "few_seeds": (
        "{seeds} of the two seeds that it takes",
        "至少要两个种子，只有 {seeds} 个",
    ),
    "not_finite": (
        "a run failed, or a loss is no finite number",
        "有的运行失败了，或者损失不是有限的数",
    ),
    "cell": (
        "{metric} of {arm} at {times} times the train length",
        "{arm} 在训练长度 {times} 倍处的{metric}",
    ),
    "cell_trained": ("{metric} of {arm} at the train length", "{arm} 在训练长度上的{metric}"),
    "minus": ("{of} minus {minus}", "{of} 减去 {minus}"),
    "loss": ("loss", "损失"),
    "windows": ("loss of whole windows", "整窗损失"),
    "exact": ("share of right answers", "答对的比例"),
    "token": ("share of right tokens", "词元对的比例"),
    "interval": ("{mean} ({low} to {high})", "{mean}（{low} 到 {high}）"),
    "seeds": (
        "{done} of {runs:# run|# runs} done, {seconds:.0f} seconds of one core together.",
        "{runs} 次运行完成 {done} 次，合计单核 {seconds:.0f} 秒。",
    ),
    "failed": ("{failed:# run|# runs} failed: {errors}", "{failed} 次运行失败：{errors}"),
    "summary": (
        "{known} of {claims:# claim|# claims} have a result: {holds} hold, {fails} fail, "
        "{undecided} undecided.",
        "{claims} 条说法中 {known} 条有结果：{holds} 条成立，{fails} 条不成立，{undecided} 条未定。",
    ),
    "agreed": (
        "Of {agreed} that the field agrees on, {holds} hold.",
        "公认的 {agreed} 条中，{holds} 条成立。",
    ),
    "multiplicity": (
        "Each verdict stands by itself at {level:.0%}; of {decided} that are decided {stand} stand "
        "when all are looked at together (Holm).",
        "每条结论各自在 {level:.0%} 上成立；已定的 {decided} 条一起看（Holm 校正），有 {stand} 条站得住。",
    ),
    "alone": (
        "By {names:itself|themselves} only {names:stands|stand}: {names}.",
        "只有单独看才站得住的：{names}。",
    ),
    "would_decide": (
        "{seeds} seeds would decide it in four of five cases",
        "若用 {seeds} 个种子，五次里有四次能定下来",
    ),
    "would_not_decide": (
        "not even a thousand seeds would decide it",
        "一千个种子也定不下来",
    ),
    "semicolon": ("; ", "；"),
}
