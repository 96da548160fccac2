"""Whatever a GGUF file says, it is read or refused in one line."""

import math
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from posenc.errors import ConfigError, UnknownNameError
from posenc.models.read import read
from posenc.models.read.gguf.architectures import ARCHITECTURES, ENCODER_DECODERS, STATEFUL
from tests.support.gguf_files import Typed, Values, gguf_bytes, write_gguf
from tests.support.gguf_published import FILES, KEYS, changed

ANY_VALUE = st.one_of(
    st.integers(0, 70),
    st.integers(0, 2**32 - 1),
    st.floats(width=32),
    st.booleans(),
    st.sampled_from(["", "yarn", "linear", "longrope", "none", "ntk"]),
    st.lists(st.integers(0, 9), max_size=9).map(tuple),
    st.lists(st.booleans(), max_size=9).map(tuple),
    st.lists(st.floats(width=32), max_size=9).map(tuple),
    st.lists(st.text(max_size=3), max_size=3).map(tuple),
    st.builds(Typed, st.just(11), st.integers(-(2**63), 2**63 - 1)),
)
ANY_KEY = sorted(
    {key for file in FILES.values() for key in file.values}
    | {"rope.scale_linear", "decoder_block_count", "attention.relative_buckets_count"}
    | {"rope.scaling.attn_factor", "attention.output_scale", "attention.max_alibi_bias"}
)


@settings(max_examples=600, deadline=None)
@given(
    st.sampled_from(sorted({*ARCHITECTURES, *STATEFUL, *ENCODER_DECODERS})),
    st.sampled_from(sorted(FILES)),
    st.dictionaries(st.sampled_from(ANY_KEY), ANY_VALUE, max_size=4),
    st.one_of(st.none(), st.lists(st.floats(width=32), max_size=40)),
)
def test_any_values_are_read_or_refused(
    tmp_path_factory: pytest.TempPathFactory,
    architecture: str,
    name: str,
    more: Values,
    rows: list[float] | None,
) -> None:
    file, place = FILES[name], tmp_path_factory.getbasetemp() / "any.gguf"
    tensors = file.tensors if rows is None else {"rope_freqs.weight": rows}
    try:
        spec = read(write_gguf(place, architecture, {**file.values, **more}, tensors))
    except ConfigError:
        return
    for _, _, layer in spec.attention():
        assert min(layer.heads, layer.key_heads, layer.head_dim, layer.value_dim) > 0
        assert layer.heads % layer.key_heads == 0
        assert 0 < layer.scale < math.inf


REFUSED = {
    "no heads": ({"attention.head_count": None}, r"no llama.attention.head_count"),
    "no layers": ({"block_count": None}, r"no llama.block_count"),
    "layers beyond any model": ({"block_count": 10**9}, r"block_count is 1000000000"),
    "a list for fewer layers": ({KEYS: (3, 3)}, r"head_count_kv is \(3, 3\): a number for each"),
    "key heads that divide nothing": ({KEYS: 2}, r"head_count_kv is 2: a divisor of the 9"),
    "more heads than dimensions": ({"embedding_length": 8}, r"embedding_length is 8: at least one"),
    "a factor below 1": ({"rope.scaling.factor": 0.5}, r"llama.rope.scaling.factor is 0.5: a num"),
    "an unknown scaling": ({"rope.scaling.type": "ntk"}, r"rope.scaling.type is 'ntk'"),
    "text for a number": ({"rope.freq_base": "x"}, r"rope.freq_base is 'x'"),
    "a base that is no number": ({"rope.freq_base": math.nan}, r"rope.freq_base is nan"),
    "a negative size": ({"embedding_length": Typed(5, -1)}, r"embedding_length is -1"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_values_that_no_model_has_are_refused(case: str, tmp_path: Path) -> None:
    more, message = REFUSED[case]
    with pytest.raises(ConfigError, match=message):
        changed("smollm2-135m-instruct", tmp_path, **more)


def test_a_wide_division_is_refused(tmp_path: Path) -> None:
    """Gemma 3's scale of 62 layers divides the width."""
    with pytest.raises(ConfigError, match=r"gemma3.embedding_length is 31"):
        changed("gemma-3-27b-it", tmp_path, embedding_length=31)


@pytest.mark.parametrize(
    ("rows", "message"),
    [([1.0] * 3, "has 3 divisors, and 32 pairs turn"), ([0.0] * 32, "holds 0.0")],
)
def test_tables_that_fit_no_rotation_are_refused(
    rows: list[float], message: str, tmp_path: Path
) -> None:
    with pytest.raises(ConfigError, match=message):
        changed("smollm2-135m-instruct", tmp_path, {"rope_freqs.weight": rows})


def test_an_unknown_architecture_is_named(tmp_path: Path) -> None:
    with pytest.raises(UnknownNameError, match=r"no architecture of llama.cpp is called 'lama'"):
        read(write_gguf(tmp_path / "model.gguf", "lama", {}))
    (tmp_path / "part.gguf").write_bytes(gguf_bytes({"split.no": 1}))
    with pytest.raises(ConfigError, match=r"has no general.architecture.*give the first"):
        read(tmp_path / "part.gguf")


def test_a_folder_is_read_by_its_only_file(tmp_path: Path) -> None:
    file = FILES["smollm2-135m-instruct"]
    write_gguf(tmp_path / "model-00001-of-00002.gguf", *file)
    (tmp_path / "model-00002-of-00002.gguf").write_bytes(gguf_bytes({"split.no": 1}))
    assert len(read(tmp_path).layers) == 30
    write_gguf(tmp_path / "other.gguf", *file)
    with pytest.raises(ConfigError, match=r"holds no config.json and 2 GGUF files"):
        read(tmp_path)
