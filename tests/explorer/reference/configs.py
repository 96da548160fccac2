"""config.json files, and the rotary encodings that posenc has for them."""

import json
from typing import Any

import posenc as pe
from posenc.analysis import measure
from posenc.errors import UnsupportedError
from posenc.models.spec import EncodingSpec
from tests.explorer.reference.numbers import numbers
from tests.models.test_read_facts import FACTS, facts

Rope = tuple[str, pe.Rotary, int, int]


def configs() -> list[tuple[str, dict[str, Any], list[Rope]]]:
    """What config.json files say, and the rotary encodings that posenc has for them."""
    llama = {"hidden_size": 4096, "num_attention_heads": 32}
    long = [1.0 + i / 4 for i in range(48)]
    short = [1.0 + i / 100 for i in range(48)]
    phi = {"hidden_size": 3072, "num_attention_heads": 32, "rope_theta": 10_000.0}
    phi |= {"max_position_embeddings": 131_072, "original_max_position_embeddings": 4096}
    longrope = pe.LongRoPE(short, long, 4096, 32.0)
    yarn = {"factor": 4.0, "original_max_position_embeddings": 32_768}
    llama3 = {"factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0}
    deepseek = {"type": "yarn", "factor": 40, "mscale": 0.707, "mscale_all_dim": 0.707}
    deepseek |= {"beta_fast": 32, "beta_slow": 1, "original_max_position_embeddings": 4096}
    gemma = {"head_dim": 256, "max_position_embeddings": 131_072}
    rope = pe.Rotary
    return [
        (
            "plain",
            llama | {"max_position_embeddings": 4096, "rope_theta": 10_000.0, "rope_scaling": None},
            [("", rope(128), 4096, 16_384)],
        ),
        (
            "linear, transformers 4",
            llama
            | {"max_position_embeddings": 4096, "rope_scaling": {"type": "linear", "factor": 8.0}},
            [("", rope(128, scaling=pe.Linear(8.0)), 4096, 32_768)],
        ),
        (
            "linear, transformers 5",
            llama
            | {"max_position_embeddings": 4096}
            | {"rope_parameters": {"rope_type": "linear", "factor": 8.0, "rope_theta": 5e4}},
            [("", rope(128, 5e4, scaling=pe.Linear(8.0)), 4096, 32_768)],
        ),
        (
            "dynamic",
            {"head_dim": 64, "max_position_embeddings": 2048, "rope_theta": 1e4}
            | {"rope_scaling": {"type": "dynamic", "factor": 2.0}},
            [("", rope(64, scaling=pe.DynamicNTK(2.0, 2048)), 2048, 4096)],
        ),
        (
            "yarn",
            {"head_dim": 128, "max_position_embeddings": 32_768, "rope_theta": 1e6}
            | {"rope_scaling": {"rope_type": "yarn"} | yarn},
            [("", rope(128, 1e6, scaling=pe.YaRN(4.0, 32_768)), 32_768, 131_072)],
        ),
        (
            "yarn without rounding",
            {"head_dim": 64, "max_position_embeddings": 131_072}
            | {
                "rope_parameters": {"rope_type": "yarn", "rope_theta": 150_000, "truncate": False}
                | {"factor": 32.0, "original_max_position_embeddings": 4096}
            },
            [("", rope(64, 150_000, scaling=pe.YaRN(32.0, 4096, truncate=False)), 4096, 131_072)],
        ),
        (
            "DeepSeek",
            {"qk_rope_head_dim": 64, "hidden_size": 2048, "num_attention_heads": 16}
            | {"max_position_embeddings": 163_840, "rope_theta": 10_000, "rope_scaling": deepseek},
            [
                (
                    "",
                    rope(64, scaling=pe.YaRN(40, 4096, mscale=0.707, mscale_all_dim=0.707)),
                    4096,
                    163_840,
                )
            ],
        ),
        (
            "Phi-3",
            phi
            | {"rope_scaling": {"type": "longrope", "short_factor": short, "long_factor": long}},
            [("", rope(96, scaling=longrope), 4096, 131_072)],
        ),
        (
            "Phi-3, its old name",
            phi | {"rope_scaling": {"type": "su", "short_factor": short, "long_factor": long}},
            [("", rope(96, scaling=longrope), 4096, 131_072)],
        ),
        (
            "Llama 3.1",
            {"head_dim": 128, "max_position_embeddings": 131_072, "rope_theta": 500_000.0}
            | {
                "rope_scaling": {"rope_type": "llama3", "original_max_position_embeddings": 8192}
                | llama3
            },
            [("", rope(128, 500_000.0, scaling=pe.Llama3(8.0, 1.0, 4.0, 8192)), 8192, 131_072)],
        ),
        (
            "a scaling alone",
            {"rope_type": "llama3", "rope_theta": 500_000.0, "original_max_position_embeddings": 64}
            | llama3,
            [("", rope(16, 500_000.0, scaling=pe.Llama3(8.0, 1.0, 4.0, 64)), 64, 512)],
        ),
        (
            "a part of the head",
            {"hidden_size": 2560, "num_attention_heads": 32, "max_position_embeddings": 2048}
            | {"partial_rotary_factor": 0.4, "rope_theta": 10_000.0},
            [("", rope(80, rotary_dim=32), 2048, 8192)],
        ),
        (
            "a number without bound, as Python writes it",
            {"head_dim": 64, "max_position_embeddings": 2048, "rope_theta": 5e4}
            | {"time_step_limit": [0.0, float("inf")], "note": 'an "Infinity" in words'},
            [("", rope(64, 5e4), 2048, 8192)],
        ),
        (
            "GPT-NeoX",
            {"hidden_size": 6144, "num_attention_heads": 64, "max_position_embeddings": 2048}
            | {"rotary_pct": 0.25, "rotary_emb_base": 10_000},
            [("", rope(96, rotary_dim=24), 2048, 8192)],
        ),
        (
            "by layer, transformers 5",
            gemma
            | {
                "rope_parameters": {
                    "full_attention": {"rope_type": "linear", "factor": 8.0, "rope_theta": 1e6},
                    "sliding_attention": {"rope_type": "default", "rope_theta": 1e4},
                    "no_attention": None,
                }
            },
            [
                ("full_attention", rope(256, 1e6, scaling=pe.Linear(8.0)), 131_072, 1_048_576),
                ("sliding_attention", rope(256, 1e4), 131_072, 524_288),
            ],
        ),
        (
            "by layer, transformers 4, inside a multimodal model",
            {
                "text_config": gemma
                | {"rope_theta": 1e6, "rope_local_base_freq": 1e4}
                | {"rope_scaling": {"rope_type": "linear", "factor": 8.0}}
            },
            [
                ("full_attention", rope(256, 1e6, scaling=pe.Linear(8.0)), 131_072, 1_048_576),
                ("sliding_attention", rope(256, 1e4), 131_072, 524_288),
            ],
        ),
        (
            "proportional",
            {"head_dim": 64, "max_position_embeddings": 1024, "rope_theta": 1e4}
            | {"rope_parameters": {"rope_type": "proportional", "partial_rotary_factor": 0.25}},
            [("", rope(64, scaling=pe.Proportional(0.25)), 1024, 4096)],
        ),
        (
            "Apertus, whose code stretches where a file says nothing",
            llama
            | {"model_type": "apertus", "max_position_embeddings": 65_536, "rope_scaling": None},
            [("", rope(128, 12e6, scaling=pe.Llama3(8.0, 1.0, 4.0, 8192)), 8192, 65_536)],
        ),
        (
            "Apertus, stretched otherwise",
            llama
            | {"model_type": "apertus", "max_position_embeddings": 4096}
            | {"rope_scaling": {"rope_type": "linear", "factor": 8.0}},
            [("", rope(128, 12e6, scaling=pe.Linear(8.0)), 4096, 32_768)],
        ),
        (
            "gpt-oss, whose code stretches where a file says nothing",
            {"model_type": "gpt_oss", "max_position_embeddings": 131_072},
            [
                (
                    "",
                    rope(64, 150_000, scaling=pe.YaRN(32.0, 4096, truncate=False)),
                    4096,
                    131_072,
                )
            ],
        ),
        (
            "Dory, by layer where a file says nothing",
            {"model_type": "dory", "max_position_embeddings": 8192},
            [
                ("full_attention", rope(256, 1e7), 8192, 32_768),
                ("sliding_attention", rope(256, 1e4), 8192, 32_768),
            ],
        ),
    ]


def config(name: str, given: dict[str, Any], ropes: list[Rope]) -> dict[str, Any]:
    found = []
    for layer, rope, trained, target in ropes:
        inverse = measure.frequencies(rope, target)[0]
        gain = 1.0 if rope.scaling is None else rope.scaling.gain
        numbered = {"inverse": numbers(inverse), "gain": gain, "turned": rope.rotated_dim}
        found.append({"layer": layer, "trained": trained, "target": target} | numbered)
    return {"name": name, "text": json.dumps(given), "ropes": found}


def published() -> list[dict[str, Any]]:
    """Published files, and how fast posenc finds that pairs turn at four times the trained length.

    No rotations stand where posenc has none. Sections (mrope) only say which axis a pair reads.
    """
    found = []
    for name in FACTS:
        values = facts(name)["config"]
        part = pe.read(values).main
        specs = [layer.rotary for layer in part.layers if layer is not None and layer.rotary]
        if any(spec.name == "mrope" for spec in specs):
            continue
        length = 4 * (part.trained_length or 4096)
        ropes = {json.dumps(turning) for spec in specs for turning in _turning(spec, length)}
        found.append(
            {"name": name, "text": json.dumps(values), "length": length}
            | {"ropes": [json.loads(rope) for rope in sorted(ropes)]}
        )
    return found


def _turning(spec: EncodingSpec, length: int) -> list[dict[str, Any]]:
    try:
        rope = spec.build()
    except UnsupportedError:
        return []
    if not isinstance(rope, pe.Rotary):
        return []
    gain = 1.0 if rope.scaling is None else rope.scaling.gain
    return [{"inverse": numbers(measure.frequencies(rope, length)[0]), "gain": gain}]
