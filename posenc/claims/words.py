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
    "position": ("loss by position", "按位置算的损失"),
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
    # Advice.
    "asked": (
        "{task}, trained on {train}, read at {target}: {times} times as long.",
        "{task}：训练长度 {train}，读到 {target}，是它的 {times} 倍。",
    ),
    "small_models": (
        "Measured on small models, of width {dims} and {depths} layers, trained on {trains}: "
        "large ones may do otherwise.",
        "测的是小模型：宽 {dims}，{depths} 层，训练长度 {trains}；大模型可能不同。",
    ),
    "no_row": ("Nothing was measured for {task}.", "{task}：什么也没有测量过。"),
    "speaks_for": (
        "For, as it keeps what it has at the train length",
        "支持：保住了训练长度上的水平",
    ),
    "speaks_against": ("Against, as it loses beyond the train length", "反对：超出训练长度就变差"),
    "speaks_undecided": ("Undecided", "未定"),
    "speaks_measured": ("Measured, and neither for nor against", "测过，既不支持也不反对"),
    "speaks_unlearned": (
        "Not learned at the train length, so that nothing is known beyond",
        "在训练长度上就没有学会，更长处无从知道",
    ),
    "speaks_failed": ("Runs failed, so that nothing is known", "有运行失败，无从知道"),
    "row": (
        "{encoding}, {task}, {where}: {metric} {found}",
        "{encoding}，{task}，{where}：{metric} {found}",
    ),
    "row_changed": ("{row}, changed by {change}", "{row}，变化 {change}"),
    "row_claims": ("{row}; {names}", "{row}；{names}"),
    "row_more_claims": ("{row}; {names} and {more} more", "{row}；{names} 等，另有 {more} 条"),
    "row_tuned": (
        "{encoding} on weights of {base}, {steps} steps more",
        "{encoding}（权重来自 {base}，再训练 {steps} 步）",
    ),
    "row_on": ("{encoding} on weights of {base}", "{encoding}（权重来自 {base}）"),
    "measured_there": (
        "at {length}, {times} times the train length",
        "长度 {length}，训练长度的 {times} 倍",
    ),
    "measured_trained": ("at {length}, the train length", "长度 {length}，即训练长度"),
    "nearest": (
        "at {length}, {times} times the train length (the nearest to {asked} that was measured)",
        "长度 {length}，训练长度的 {times} 倍（测过的之中最接近 {asked} 倍的）",
    ),
    "untold": ("unknown", "不知道"),
    "fact_refuses": (
        "made for {train}, it refuses {target}: {error}",
        "按 {train} 建立的，读 {target} 就报错：{error}",
    ),
    "fact_cache_rotated": ("decodes with a cache of rotated keys", "可用缓存解码，缓存转过的键"),
    "fact_cache_raw": ("decodes with a cache of raw keys", "可用缓存解码，缓存没有转过的键"),
    "fact_cache_length": (
        "decodes with a cache that is told the final length",
        "缓存事先知道最终长度，就能解码",
    ),
    "fact_no_cache": ("no cache decodes what it says", "没有缓存能照它解码"),
    "fact_causal": ("for causal attention only", "只用于因果注意力"),
    "not_known": ("Not known, as no row speaks of it: {names}.", "不知道，没有数据说到：{names}。"),
    "of_these_refuse": (
        "Of these, made for {train}, {names} {names:refuses|refuse} {target}.",
        "其中 {names} 按 {train} 建立时，读 {target} 就报错。",
    ),
    "of_these_no_cache": ("No cache decodes {names}.", "没有缓存能照 {names} 解码。"),
    "bounds_of_advice": (
        "Kept: a loss that rises by less than {holds:g} nats, or a share of right answers that "
        "falls by less than {loses:g}, by the whole {level:.0%} interval. `posenc claims show "
        "NAME` tells where a row is from.",
        "保住：整个 {level:.0%} 区间内，损失上升不到 {holds:g} nat，或答对的比例下降不到 {loses:g}。"
        "`posenc claims show 名称` 说明一行数据的来历。",
    ),
    "kind_language": ("language modelling", "语言建模"),
    "kind_copy": ("copying", "复制"),
    "kind_recall": ("recall", "回忆"),
    "kind_order": ("order", "顺序"),
    "kind_sort": ("sorting", "排序"),
    "kind_arithmetic": ("arithmetic", "算术"),
    "kind_state": ("state tracking", "状态跟踪"),
}
