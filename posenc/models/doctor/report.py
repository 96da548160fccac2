"""An examination in words, and as what JSON can hold."""

import json
from collections.abc import Iterator
from dataclasses import asdict
from typing import Any, Literal

from posenc.models.angles import LARGE, Effect
from posenc.models.doctor import Examination
from posenc.models.doctor.described import described
from posenc.models.doctor.finding import Finding, Words
from posenc.words import counted

Language = Literal["en", "zh"]
_ANGLE = Words(
    "{distance} tokens apart, angles are off by up to {angle:.3g} rad, and {pairs} of {of} pairs "
    "by more than {large} rad, in {layers:# layer|# layers}.",
    "相距 {distance} 个词元时，角度误差最大 {angle:.3g} 弧度，{of} 对中有 {pairs} 对超过 {large} 弧度，涉及 {layers} 层。",
)
_GAIN = Words(
    "cos and sin are {gain:.4g} times what is meant, scores its square.",
    "cos 与 sin 是应有值的 {gain:.4g} 倍，得分是其平方倍。",
)
_OTHERS = Words("Windows, chunks or temperatures differ.", "窗口、分块或温度不同。")
_MEND = Words("Mend, into {file}:", "修补，合并到 {file}：")
_NOTHING = Words("Nothing was found.", "没有发现问题。")
_WEIGHTS = {
    "error": Words("error", "错误"),
    "warning": Words("warning", "警告"),
    "note": Words("note", "说明"),
}


def lines(examination: Examination, language: Language = "en") -> Iterator[str]:
    """What was read, and each finding with its number, its mend and its link."""
    chosen = 0 if language == "en" else 1
    yield from described(examination.spec, chosen)
    if not examination.findings:
        yield _NOTHING[chosen]
    for finding in examination.findings:
        yield ""
        head = [_WEIGHTS[finding.weight][chosen], finding.rule, finding.engine or ""]
        # A file may call its keys as it likes, and what a terminal obeys is shown, not done.
        keys = ", ".join(x if x.isprintable() else repr(x) for x in finding.keys)
        yield " ".join(x for x in (*head, keys) if x)
        yield "  " + finding.words[chosen].format(**finding.numbers)
        for sentence in _costs(finding.effect):
            yield "  " + sentence[chosen]
        if finding.patch:
            mend = _MEND[chosen].format(file="config.json")
            yield f"  {mend} {json.dumps(finding.patch, ensure_ascii=False)}"
        if finding.link:
            yield f"  {finding.link}"


def _costs(effect: Effect | None) -> Iterator[Words]:
    if effect is None:
        return
    numbers = {**asdict(effect), "layers": counted(effect.layers), "large": LARGE}
    for words, holds in (
        (_ANGLE, effect.angle > 0),
        (_GAIN, abs(effect.gain - 1) > 1e-9),
        (_OTHERS, effect.others),
    ):
        if holds:
            yield Words(*(sentence.format(**numbers) for sentence in words))


def as_json(examination: Examination) -> dict[str, Any]:
    """All of it, for other programs; sentences are in English."""
    return {
        "model_type": examination.spec.model_type,
        "target_length": examination.target,
        "engines": list(examination.engines),
        "sound": examination.sound,
        "findings": [_plain(finding) for finding in examination.findings],
    }


def _plain(finding: Finding) -> dict[str, Any]:
    values: dict[str, Any] = asdict(finding)
    values["words"] = finding.words.en.format(**finding.numbers)
    return values
