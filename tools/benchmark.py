"""Keep the results of a benchmark for the docs, and show them there.

    python tools/benchmark.py posenc-bench/bench.json

writes docs/benchmark.json, with times of four digits, which is more than clocks of a shared machine
know. `make generate` shows its figures in the pages of the benchmark.
"""

import json
import sys
from pathlib import Path
from typing import Any

import chinese

ROOT = Path(__file__).parent.parent
DATA = ROOT / "docs" / "benchmark.json"
PAGES = {language: ROOT / "docs" / language / "howto" / "benchmark.md" for language in ("en", "zh")}
BEGIN, END = "<!-- figures: make generate -->", "<!-- end of figures -->"
HEAD = {
    "en": ("what", "case", "found", "at most", "best peer"),
    "zh": ("项目", "用例", "测得", "上限", "最好的其他实现"),
}
WHERE = {
    "en": "`{command}` on {day}: {cpu}, {cores} cores, torch {torch}, {headline}. Times are ratios "
    "to the same work without position or to a floor, with the interval that holds the median 19 "
    "times of 20; memory is what position adds. {noise}",
    "zh": "`{command}`，{day}：{cpu}，{cores} 核，torch {torch}；{total} 项中 {met} 项达到。"
    "时间是与没有位置的同样计算或与下限的比值，附有 20 次里 19 次能包含中位数的区间；"
    "内存是位置增加的量。"
    "“噪声”指作为分母的时间自己相差超过 15 %。",
}
VERDICT = {
    "en": {"met": "", "not met": " **missed**", "noisy": " (noisy)"},
    "zh": {"met": "", "not met": " **未达到**", "noisy": "（噪声）"},
}


def kept(x: Any) -> Any:
    """The same, with numbers of four digits."""
    if isinstance(x, float):
        return float(f"{x:.4g}")
    if isinstance(x, list):
        return [kept(each) for each in x]
    return {key: kept(each) for key, each in x.items()} if isinstance(x, dict) else x


def pages() -> dict[Path, str]:
    """The pages of the benchmark as they should be."""
    report = json.loads(DATA.read_text())
    return {path: page(path.read_text(), report, language) for language, path in PAGES.items()}


def page(text: str, report: dict[str, Any], language: str) -> str:
    """A page's text with the figures between its two marks."""
    before, _, rest = text.partition(BEGIN)
    _, _, after = rest.partition(END)
    return f"{before}{BEGIN}\n{where(report, language)}\n\n{table(report, language)}\n{END}{after}"


def where(report: dict[str, Any], language: str) -> str:
    machine, figures = report["machine"], report["figures"]
    return WHERE[language].format(
        command=report["command"],
        day=report["started"][:10],
        headline=report["headline"],
        noise=report["noise"],
        total=len(figures),
        met=sum(figure["verdict"] == "met" for figure in figures),
        **{name: machine[name] for name in ("cpu", "cores", "torch")},
    )


def table(report: dict[str, Any], language: str) -> str:
    rows = [" | ".join(HEAD[language]), " | ".join(["---"] * len(HEAD[language]))]
    above = None
    for figure in report["figures"]:
        low, median, high = figure["found"]
        if figure["unit"] == "x":
            found, most = f"{median:.2f} ({low:.2f}, {high:.2f})", f"{figure['reach']:g}"
        else:
            found, most = f"{median:.0f} MiB", f"{figure['reach']:g} MiB"
        words, peer = VERDICT[language], figure["best_peer"]
        found += words[figure["verdict"]] + (words["noisy"] if figure["noisy"] else "")
        row, line, name = figure["row"], figure["line"], peer["name"] if peer else ""
        if language == "zh":
            row, line, name = chinese.ROWS[row], chinese.line(line), chinese.PEERS.get(name, name)
        other = f"{peer['median']:.2f} {name}" if peer else ""
        what = "" if row == above else row
        above = row
        rows.append(" | ".join((what, line, found, most, other)))
    return "\n".join(f"| {row} |" for row in rows)


if __name__ == "__main__":
    results = json.loads(Path(sys.argv[1]).read_text())
    DATA.write_text(json.dumps(kept(results), separators=(",", ":")) + "\n")
    print(f"{DATA.relative_to(ROOT)}: {results['headline']}")
