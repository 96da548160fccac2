"""Frequencies that change while a text grows."""

from collections.abc import Iterator

from posenc.models.doctor.finding import Case, Finding, Words

_WORDS = {
    "LongRoPE": Words(
        "Up to {length} tokens the short factors hold, beyond it the long ones: keys that a "
        "cache holds from before the change keep the old angles.",
        "{length} 个词元以内使用短因子，超出后使用长因子：缓存中变化之前的键仍是旧角度。",
    ),
    "DynamicNTK": Words(
        "Beyond {length} tokens every further one changes all frequencies: keys that a cache "
        "holds keep the angles of their time.",
        "超过 {length} 个词元后，每个新词元都会改变所有频率：缓存中的键保持当时的角度。",
    ),
}


def depends_on_length(case: Case) -> Iterator[Finding]:
    """LongRoPE and dynamic NTK, where the target is beyond the change."""
    for layer in case.spec.layers:
        scaling = layer.rotary.settings.get("scaling") if layer and layer.rotary else None
        if scaling is None or scaling.name not in _WORDS:
            continue
        if scaling.name == "LongRoPE" and scaling.settings["short"] == scaling.settings["long"]:
            return
        length = scaling.settings["original_length"]
        if case.target > length:
            yield Finding(
                "depends-on-length",
                "warning",
                _WORDS[scaling.name],
                keys=("rope_type",),
                numbers={"length": length},
                link="https://github.com/huggingface/transformers/issues/33129",
            )
        return
