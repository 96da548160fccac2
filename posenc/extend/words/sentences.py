"""The verdict in sentences, and what is told while it goes."""

from posenc.words import Texts

SENTENCES: Texts = {
    "nothing": ("Nothing is measured yet", "还什么都没有测量"),
    # Who is best.
    "one_method": (
        "At {longest:,} tokens {best} has a loss of {loss}",
        "读 {longest:,} 个词元时，{best} 的损失是 {loss}",
    ),
    "lowest": (
        "{best} has the lowest loss at {longest:,} tokens, {loss}",
        "读 {longest:,} 个词元时，{best} 的损失最低：{loss}",
    ),
    "all_behind": (
        "{best} has the lowest loss at {longest:,} tokens, {loss}, and every other method is "
        "behind it",
        "读 {longest:,} 个词元时，{best} 的损失最低：{loss}，其余方法都落后",
    ),
    "one_span": (
        "One span of text was read: nothing says how much of this is luck.",
        "只读了一段文本：看不出其中有多少是偶然。",
    ),
    "none_better": (
        "At {longest:,} tokens no method is better than another",
        "读 {longest:,} 个词元时，没有哪种方法更好",
    ),
    "few_spans": (
        "The lowest loss is that of {best}, {loss}, and {spans:# span|# spans} cannot tell it from "
        "others.",
        "损失最低的是 {best}：{loss}；{spans} 段文本分不出它与其余方法的高下。",
    ),
    "ties": (
        "{spans:# span|# spans} cannot tell {ties} from it: a tie.",
        "{spans} 段文本分不出 {ties} 与它的高下：平手。",
    ),
    # Against a sliding window.
    "sliding": (
        "The model as it is, in a sliding window of {trained:,} tokens, has {loss}: what any method "
        "must beat.",
        "模型保持原样，用 {trained:,} 个词元的滑动窗口去读，损失是 {loss}：任何方法都必须胜过它。",
    ),
    "better": ("Better than that: {names}.", "胜过它的：{names}。"),
    "worse": ("Worse: {names}.", "不如它的：{names}。"),
    "alike": ("Not to be told from it: {names}.", "与它分不出高下的：{names}。"),
    "space": (" ", ""),
    # Passkeys, and short texts.
    "found": (
        "Passkeys found at {longest:,} tokens: {shares}.",
        "从 {longest:,} 个词元中找回的数字：{shares}。",
    ),
    "found_by_some": (
        "Passkeys found at {longest:,} tokens: {shares}; not one by {names}.",
        "从 {longest:,} 个词元中找回的数字：{shares}；{names} 一个也没有找回。",
    ),
    "share_found": ("{name} {hits} of {tries}", "{name} {hits}/{tries}"),
    "none_found": ("none", "一个也没有"),
    "guessed": (
        "Where none was hidden, {hits} of {tries} were guessed.",
        "没有藏数字时，{tries} 次中猜中 {hits} 次。",
    ),
    "price": (
        "On texts of {short:,} tokens, which it could read before, they cost: {costs}.",
        "在它本来就能读的 {short:,} 个词元的文本上，代价是：{costs}。",
    ),
    # In the terminal.
    "loss_at": ("loss at", "损失，读"),
    "head_passkeys": ("passkeys", "找回数字"),
    "head_seconds": ("seconds", "秒"),
    "sliding_window": ("sliding window", "滑动窗口"),
    "course": (
        "{name}: training took its loss from {first:.3f} to {last:.3f} in {seconds:.1f} s",
        "{name}：训练用 {seconds:.1f} 秒，损失从 {first:.3f} 到 {last:.3f}",
    ),
    "as_it_is": ("{text}", "{text}"),
    "no_result": ("{name} has no result: {reason}", "{name} 没有结果：{reason}"),
    "report": ("report: {path}", "报告：{path}"),
    "config": ("config.json of {method}: {path}", "{method} 的 config.json：{path}"),
    "cells": (
        "{cells} cells, of which {done} are done already",
        "共 {cells} 格，其中 {done} 格已完成",
    ),
    "cell": (
        "[{number}/{cells}] {cell}: {seconds:.1f} s, {left} left",
        "[{number}/{cells}] {cell}：{seconds:.1f} 秒，还需 {left}",
    ),
    "cell_span": (
        "{row}: {measure} at {length}, span {index}",
        "{row}：{measure}，读 {length} 个，第 {index} 段",
    ),
    "cell_hidden": (
        "{row}: {measure} at {length}, depth {depth:g}, seed {index}",
        "{row}：{measure}，读 {length} 个，深度 {depth:g}，种子 {index}",
    ),
    "cell_control": (
        "{row}: {measure} at {length}, seed {index}",
        "{row}：{measure}，读 {length} 个，种子 {index}",
    ),
    "stopped_early": (
        "stopped early: the report holds what is done, the same command goes on",
        "提前停止：报告里是已完成的部分，再运行同一命令会接着做",
    ),
    "candidate": (
        "candidate {number}: critical pair {critical}, loss of the needles {loss}",
        "候选 {number}：临界对 {critical}，针的损失 {loss}",
    ),
    "generation": (
        "generation {number}: best loss of the needles {loss}, critical pair {critical}",
        "第 {number} 代：针的最低损失 {loss}，临界对 {critical}",
    ),
    "search_stopped": (
        "stopped: candidates that were read are kept, the same command goes on",
        "已停止：读过的候选都已保留，再运行同一命令会接着做",
    ),
    "step": (
        "{method}: step {step} of {steps}, loss {loss:.3f}",
        "{method}：第 {step} 步，共 {steps} 步，损失 {loss:.3f}",
    ),
}
