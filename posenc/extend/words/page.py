"""What the page says around its tables and in its pictures."""

from posenc.words import Texts

PAGE: Texts = {
    "kicker": (
        "trained at {trained:,} tokens, read to {longest:,}",
        "训练长度 {trained:,} 个词元，读到 {longest:,} 个",
    ),
    "basis": (
        "Decided from the last {scored:,} tokens of {spans:# span|# spans} of text, which every "
        "length and method scores, and of which only the text before them grows. Differences are "
        "taken span by span, and hold together at {level:.0%} (Student's t). That is little, as "
        "much as a few cores can do: what is called a tie may be none where more is read (--spans).",
        "一切判断都出自 {spans} 段文本的最后 {scored:,} 个词元：每个长度、每种方法都对它们计算损失，只有它们前面的文本变长。差值逐段来取，合起来在 {level:.0%} 上成立（t 分布）。这点文本很少，只是几个核心力所能及：称为平手的，多读一些（--spans）也许就分得出来。",
    ),
    "basis_needles": (
        " {needles:# passkey|# passkeys} hidden at each depth and length (--needles).",
        "每个深度和长度藏 {needles} 个数字（--needles）。",
    ),
    "basis_missing": (
        " {done} of {planned} cells are finished: the rest is missing here.",
        "{planned} 格中完成了 {done} 格，其余的这里没有。",
    ),
    # Pictures.
    "loss": ("Loss", "损失"),
    "alt_context": (
        "Loss in nats per token against tokens read.",
        "每词元的损失（nat）随所读词元数的变化。",
    ),
    "axis_context": ("length of the text read, in tokens", "所读文本的长度（词元）"),
    "trained_at": ("trained at {trained}", "训练长度 {trained}"),
    "title_context": ("Fixed targets, nats per token", "固定目标，每词元 nat"),
    "caption_context": (
        "Every length scores the same {scored:,} tokens. A line that falls past the trained length "
        "makes use of the text that it could not read before.",
        "每个长度都对同样的 {scored:,} 个词元计算损失。过了训练长度还在下降的线，用上了以前读不到的文本。",
    ),
    "alt_position": (
        "Loss in nats per token against position in the longest window.",
        "每词元的损失（nat）随最长窗口中位置的变化。",
    ),
    "axis_position": ("position in the window, in tokens", "窗口中的位置（词元）"),
    "trained_to": ("trained to {trained}", "训练到 {trained}"),
    "title_position": ("By position, nats per token", "按位置，每词元 nat"),
    "caption_position": (
        "Every token of windows of {longest:,}, by where it stands. Ups and downs that the lines "
        "share are the text's.",
        "{longest:,} 个词元的窗口中，每个词元的损失，按其所在的位置。各条线共有的起伏来自文本。",
    ),
    "lines": (
        "Lines are means over spans, dots single spans. The shaded part lies past the trained "
        "length. An arrow marks a line that leaves the picture; the tables have its numbers.",
        "线是各段的均值，点是单独一段。阴影部分超出训练长度。箭头表示线超出了画面，数字见表格。",
    ),
    # The table that decides.
    "methods": ("Methods", "方法"),
    "method": ("Method", "方法"),
    "verdict": ("Verdict", "结论"),
    "beats": ("beats sliding", "胜过滑动窗口"),
    "loses": ("worse than sliding", "不如滑动窗口"),
    "ties_sliding": ("tie with sliding", "与滑动窗口平手"),
    "only_span": ("one span", "只有一段"),
    "tuned": ("{method} (tuned {steps:# step|# steps})", "{method}（训练 {steps} 步）"),
    "head_sliding": ("sliding", "滑动窗口"),
    "loss_of": ("Loss at {longest:,}", "读 {longest:,} 时的损失"),
    "behind_best": ("Behind the best", "落后最好者"),
    "behind_sliding": ("Behind sliding", "落后滑动窗口"),
    "passkeys": ("Passkeys", "找回数字"),
    "cost_at": ("Cost at {short:,}", "{short:,} 时的代价"),
    "seconds": ("Seconds", "秒"),
    "memory": ("Memory, MB", "内存（MB）"),
    "methods_note": (
        "Loss: nats per token on fixed targets. Sliding: the model as it is, in windows of "
        "{trained:,} tokens. Passkeys: found at {longest:,} tokens, with Wilson's {level:.0%} "
        "interval. Cost: loss on texts of {short:,} tokens, minus that of the model as it is. "
        "Seconds and memory are of one whole window on this machine; memory is what reading it "
        "added.",
        "损失：固定目标上每词元 nat。滑动窗口：模型保持原样，窗口为 {trained:,} 个词元。找回数字：从 {longest:,} 个词元中找回多少，附 Wilson 的 {level:.0%} 区间。代价：在 {short:,} 个词元的文本上的损失，减去模型原样时的。秒和内存是在这台机器上读一整个窗口所用的；内存是读它增加的。",
    ),
    # Other tables.
    "by_context": ("Loss by how much is read", "读得多少与损失"),
    "all_tokens": ("All tokens of {length:,}", "{length:,} 个的全部词元"),
    "by_context_note": (
        "The last columns are means over every token of whole windows.",
        "最后几列是整个窗口中每个词元的均值。",
    ),
    "training": ("Training", "训练"),
    "all_weights": ("all weights", "全部权重"),
    "lora": ("LoRA of rank {rank}", "秩为 {rank} 的 LoRA"),
    "training_note": (
        "{steps:# step|# steps} of one window of {length:,} tokens, of {windows:# window|# windows} "
        "of text that nothing here is measured on: {trained}, AdamW at {rate:g}. Positions skip "
        "ahead once in a window, up to {longest:,} (PoSE). Losses are means of the first and the "
        "last tenth of the steps, and also tell of the text: compare a tuned row with that of "
        "{own}, tuned as long.",
        "{steps} 步，每步一个 {length:,} 个词元的窗口，出自 {windows} 个窗口的文本，这里的测量都没有用到它们：{trained}，AdamW，学习率 {rate:g}。位置在一个窗口里向前跳一次，最远到 {longest:,}（PoSE）。损失是前十分之一和后十分之一步的均值，也取决于文本：训练过的一行，要与训练了同样久的 {own} 一行相比。",
    ),
    "first_loss": ("First loss", "起初的损失"),
    "last_loss": ("Last loss", "最后的损失"),
    "weights": ("Weights", "权重"),
    "passkeys_by": ("Passkeys by length and depth", "各长度与深度找回的数字"),
    "at_depth": ("{length:,} tokens, depth {depth:g}", "{length:,} 个词元，深度 {depth:g}"),
    "none_hidden": ("{length:,} tokens, none hidden", "{length:,} 个词元，没有藏"),
    "passkeys_note": (
        "Keys that greedy decoding would say in full, of those tried; in brackets the rank of the "
        "key's worst token among all words, averaged: 0 is first. Depth 0 is the beginning of the "
        "text. Where none was hidden, what is found was guessed.",
        "贪心解码会完整说出的数字，占试过的多少；括号里是数字中最差的词元在全部词中的名次，取平均：0 是第一。深度 0 是文本的开头。没有藏的时候，找到的是猜的。",
    ),
    "without_result": ("Without a result", "没有结果"),
    "what": ("What", "什么"),
    "reason": ("Reason", "原因"),
    # What was run.
    "what_was_run": ("What was run", "运行了什么"),
    "repeats": (
        "This command repeats it; cells that are done are not repeated.",
        "这条命令重做一遍，已完成的格不会重做。",
    ),
    "as_set": ("The methods, as they were set", "各方法的参数"),
    "key_model": ("model", "模型"),
    "value_model": (
        "{path}, {parameters:,} parameters, sha256 {sha256}",
        "{path}，{parameters:,} 个参数，sha256 {sha256}",
    ),
    "key_text": ("text", "文本"),
    "value_text": (
        "{source}, {bytes:,} bytes, sha256 {sha256}",
        "{source}，{bytes:,} 字节，sha256 {sha256}",
    ),
    "key_spans": ("spans, passkeys", "段、数字"),
    "value_spans": ("{spans}, {needles} (seed {seed})", "{spans}、{needles}（种子 {seed}）"),
    "key_cells": ("cells", "格"),
    "value_cells": ("{done} of {planned} done", "{planned} 格中完成 {done} 格"),
    "key_machine": ("machine", "机器"),
    "value_machine": (
        "{cpu}, {cores} cores, {threads:# thread|# threads}, {system}",
        "{cpu}，{cores} 核，{threads} 线程，{system}",
    ),
    "key_versions": ("versions", "版本"),
}

# What report.json holds in English.
PHRASES = {
    "text given with --text": "用 --text 给出的文本",
    " standard library": " 标准库",
    "it turns by the length of the input, and windows that skip ahead are short": (
        "它按输入的长度旋转，而位置向前跳的窗口是短的"
    ),
    "it turns long inputs otherwise than short ones, and windows are short": (
        "它对长输入和短输入的旋转不同，而窗口是短的"
    ),
    "it tells tokens apart by their order in the input, which position_ids do not change": (
        "它按词元在输入中的次序区分词元，position_ids 改变不了次序"
    ),
}
