"""What the pages of the benchmark say around its figures, in both languages."""

from typing import Any

from posenc.bench.verdict import NOISE

WORDS: dict[str, dict[str, Any]] = {
    "en": {
        "where": "`{command}` on {day}: {cpu}, {cores} cores, kernels for {kernels}, torch "
        "{torch}. {headline}. Times are ratios to the same work without position or to a floor, "
        "with the interval that holds the median 19 times of 20; memory is what position adds. "
        "*Missed* is above the figure, *lost* is slower than the best peer, or larger. A line "
        "shows the worst of its cases. {noise}",
        "counts": "{headline}",
        "elsewhere": "### With kernels for {kernels}\n\n`{command}` on {day}: {cpu}, {cores} cores, "
        "torch {torch}. {headline}. {noise}",
        "again": " Measured again on {day}, by `{command}`: {cases} of the cases{machine}.",
        "single": "Memory in this recording is one sample.",
        "lines": ("what", "case", "found", "at most", "beside the best peer"),
        "cases": ("case", "who", "found", "at most", "beside the best peer"),
        "short": "Every case that is missed or lost:",
        "noise": NOISE,
        "noisy": " (noisy)",
        "least": ", {name}: {found}",
        "absent": "not measured",
        "times": "times",
        "above": "{unit} above",
        "of": "{count} of {of}",
        "rows": ("what", "met", "found at worst", "at most", "at worst beside the best peer"),
        "alone": "no peer ran",
        "summary": "In all, {headline} (on {day}, {cpu}, {cores} cores, kernels for {kernels}).",
        "besides": " With kernels for {kernels}, {headline} (on {day}, {cpu}, {cores} cores).",
        "fold": "Every kind of figure, with the one that fares worst",
        "length": "length {length}: {who}",
    },
    "zh": {
        "where": "`{command}`，{day}：{cpu}，{cores} 核，{kernels} 内核，torch {torch}。{headline}。"
        "时间是与没有位置的同样计算或与下限的比值，附有 20 次里 19 次能包含中位数的区间；"
        "内存是位置增加的量。“未达到”指高于上限，“落后”指比最好的其他实现慢，或占用更多。"
        "一行显示其中最差的用例。“噪声”指作为分母的时间自己相差超过 15 %。{noise}",
        "counts": "{total} 项中 {met} 项达到，{missed} 项未达到，{lost} 项落后，"
        "{missed and lost} 项未达到且落后，{not available} 项未测",
        "elsewhere": "### 用 {kernels} 内核\n\n`{command}`，{day}：{cpu}，{cores} 核，"
        "torch {torch}。{headline}。{noise}",
        "again": "{day} 用 `{command}` 重新测过其中 {cases} 个用例{machine}。",
        "single": "这次记录里内存只测了一次。",
        "lines": ("项目", "用例", "测得", "上限", "与最好的其他实现比"),
        "cases": ("用例", "谁", "测得", "上限", "与最好的其他实现比"),
        "short": "所有未达到或落后的用例：",
        "noise": "{timed} 个用例中 {noisy} 个有噪声：作为分母的时间自己相差最多 {most:.0%}（{case}）。"
        "接近上限的数字，在那里可能只是运气。",
        "noisy": "（噪声）",
        "least": "，{name}：{found}",
        "absent": "未测",
        "times": "倍于",
        "above": "{unit}，高于",
        "of": "{of} 项中 {count} 项",
        "rows": ("项目", "达到", "最差", "上限", "与最好的其他实现比，最差"),
        "alone": "没有可比的",
        "summary": "总计 {headline}（{day}，{cpu}，{cores} 核，{kernels} 内核）。",
        "besides": "用 {kernels} 内核，{headline}（{day}，{cpu}，{cores} 核）。",
        "fold": "每一类数字，以及其中最差的一个",
        "length": "长度 {length}：{who}",
    },
}
VERDICTS_SHOWN = {
    "en": {"met": "", "missed": " **missed**", "lost": " **lost**",
           "missed and lost": " **missed and lost**", "not available": ""},
    "zh": {"met": "", "missed": " **未达到**", "lost": " **落后**",
           "missed and lost": " **未达到且落后**", "not available": ""},
}  # fmt: skip
