"""What is timed on a GPU: kernels against the figures that they are to reach, and against peers.

A figure is a share in words, as 0.9 of a copy, and its inverse here: at most so many times as long.
"""

from collections.abc import Iterator, Mapping
from dataclasses import replace

from posenc.bench import attention_peers, overhead, rotary
from posenc.bench.attention_inputs import AttentionSetting, no_position, ours
from posenc.bench.case import Case, Goal
from posenc.bench.gpu import peers
from posenc.bench.rotary import RotationSetting

ROTARY_ROW = "rotary, 0.90 of a copy"
BIAS_ROW = "forward with ALiBi or T5, 0.95 of the same kernel without, 0.9 of the best SDPA"
TRAINED_ROW = "forward and backward with a table's gradient, 0.85 of the same kernel without"
DECODE_ROW = "one query with any bias, 0.80 of the bandwidth"
VECTORS_ROW = "Shaw and DeBERTa, forward and backward, twice as fast as the best peer"
LAUNCH_ROW = "launch, 20 µs on the host"
BARE, COPY, READ = "posenc without a bias", "clone", "read keys and values"
WITHOUT = "SDPA without position"
SDPA = {
    "SDPA flash": peers.sdpa("FLASH_ATTENTION"),
    "SDPA cuDNN": peers.sdpa("CUDNN_ATTENTION"),
    "SDPA efficient": peers.sdpa("EFFICIENT_ATTENTION"),
}
LENGTHS = (2048, 8192, 16_384)
TABLES = ("alibi", "t5", "learned table")
Others = Mapping[str, peers.Maker]
MASKED: Others = {"SDPA, mask": attention_peers.masked}
FLEX: Others = {
    "FlexAttention": attention_peers.flex,
    "x-transformers": attention_peers.x_transformers,
}
OTHERS: dict[str, Others] = {
    "window of 256": MASKED,
    "packed documents": MASKED,
    "alibi": FLEX,
    "t5": FLEX,
    "forget_gate": {},
    "fire": {},
}


def kernels() -> Iterator[Case]:
    """Each kernel against what it is to reach."""
    for layout in rotary.LAYOUTS:
        for dtype in ("bfloat16", "float32"):
            for dim in (128, 80):
                yield from _rotary(RotationSetting(1, 32, 16_384, dim, dtype, layout))
    for length in LENGTHS:
        for encoding in TABLES:
            for training in (False, True):
                yield _biased(AttentionSetting(encoding, length, "bfloat16", training=training,
                                               heads=16, kv_heads=16, dim=128))  # fmt: skip
    for keys in (4096, 32_768):
        for encoding in ("alibi", "t5", "learned table", "forget_gate"):
            setting = AttentionSetting(encoding, keys, "bfloat16", training=False, heads=32,
                                       kv_heads=8, dim=128, queries=1, batch=16)  # fmt: skip
            runs = {READ: peers.read_keys_and_values, "posenc": ours(), WITHOUT: no_position}
            goal = Goal(DECODE_ROW, f"{encoding}, {keys} keys", "posenc", READ, 1 / 0.8, ())
            yield Case(f"decode, {setting}", "kernels", setting, runs, READ, goals=(goal,))
    for case in overhead.cases():
        if case.name.startswith("overhead of attend"):
            line = case.name.removeprefix("overhead of attend, ")
            goals = tuple(
                replace(goal, row=LAUNCH_ROW, line=f"{goal.who.removeprefix('posenc ')}, {line}")
                for goal in case.goals
            )
            yield replace(case, group="kernels", goals=goals)


def beside_peers() -> Iterator[Case]:
    """What reads vectors by distance, windows and documents, beside whoever does the same."""
    for length in (2048, 8192):
        shaw = AttentionSetting("shaw", length, "bfloat16", heads=12, kv_heads=12)
        yield _against(shaw, {"plain torch": peers.shaw_in_torch})
        deberta = AttentionSetting(
            "deberta", length, "bfloat16", causal=False, heads=12, kv_heads=12
        )
        theirs = {
            "transformers": attention_peers.transformers_deberta,
            "FlashDeBERTa": peers.flash_deberta,
            "DisentangledFlash": peers.disentangled_flash,
        }
        yield _against(deberta, theirs)
    for encoding, theirs in OTHERS.items():
        for training in (False, True):
            setting = AttentionSetting(encoding, 8192, "bfloat16", training=training,
                                       heads=16, kv_heads=16)  # fmt: skip
            yield _against(setting, theirs)


def cases() -> list[Case]:
    return [*kernels(), *beside_peers()]


def _rotary(setting: RotationSetting) -> Iterator[Case]:
    line = f"{setting.layout}, heads of {setting.dim}, {setting.dtype}"
    theirs = rotary.peers(setting.layout, compiled=True)
    if setting.layout == "half":
        theirs["Liger"] = peers.liger
    runs = {COPY: rotary.clone, "posenc": rotary.ours, **theirs}
    goal = Goal(ROTARY_ROW, line, "posenc", COPY, 1 / 0.9, tuple(theirs))
    yield Case(f"rotate, {setting}", "kernels", setting, runs, COPY, goals=(goal,))
    runs = {COPY: rotary.multiply, "posenc": rotary.ours_in_place}
    goal = Goal(ROTARY_ROW, f"{line}, in place", "posenc", COPY, 1 / 0.9, ())
    yield Case(f"rotate in place, {setting}", "kernels", setting, runs, COPY, goals=(goal,))


def _biased(setting: AttentionSetting) -> Case:
    passes = "forward and backward" if setting.training else "forward"
    row = TRAINED_ROW if setting.training else BIAS_ROW
    line = f"{setting.encoding}, {setting.length} tokens"
    runs = {BARE: peers.bare("triton"), "posenc": ours("triton"), **SDPA}
    goals = [Goal(row, line, "posenc", BARE, 1 / (0.85 if setting.training else 0.95), ())]
    if not setting.training:
        goals += [Goal(row, f"{line}, of {name}", "posenc", name, 1 / 0.9, ()) for name in SDPA]
    return Case(
        f"attention {passes}, {setting}", "kernels", setting, runs, BARE, goals=tuple(goals)
    )


def _against(setting: AttentionSetting, others: Others) -> Case:
    passes = "forward and backward" if setting.training else "forward"
    runs = {WITHOUT: no_position, "posenc": ours(), **others}
    goals = ()
    if setting.encoding in ("shaw", "deberta"):
        goals = tuple(
            Goal(VECTORS_ROW, f"{setting.encoding}, {setting.length} tokens, of {name}",
                 "posenc", name, 0.5, (name,))
            for name in others
        )  # fmt: skip
    name = f"beside peers: attention {passes}, {setting}"
    return Case(name, "peers", setting, runs, WITHOUT, goals=goals)
