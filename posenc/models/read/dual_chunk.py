"""Dual chunk attention, as Qwen2.5-1M's files ask for it."""

from posenc.models.keys import Keys
from posenc.models.spec import EncodingSpec

_NAME = "dual_chunk_attention_config"
# vLLM's, where an object is there and silent.
_CHUNK_SIZE, _LOCAL_SIZE, _THRESHOLD = 8192, 1024, 32_768


def dual_chunk(keys: Keys, spec: EncodingSpec) -> tuple[EncodingSpec, dict[str, str]]:
    """The rotation in chunks, where the file has the two sizes of vLLM's code.

    There chunks are chunk_size - local_size tokens, and no distance is larger than chunk_size.
    """
    own = _asked(keys)
    if own is None:
        return spec, {}
    size, size_key = own.maybe_whole("chunk_size")
    near, near_key = own.maybe_whole("local_size", least=0)
    size, near = size or _CHUNK_SIZE, _LOCAL_SIZE if near is None else near
    if near >= size:
        raise own.wrong(near_key, near, f"a number below chunk_size = {size}")
    if spec.name != "rotary" or {"scaling", "rotary_dim"} & set(spec.settings):
        raise own.wrong(f"{keys.path}{_NAME}", dict(own.values), "a rotation of whole heads")
    chunk = size - near
    settings = {**spec.settings, "chunk": chunk, "local": min(near + 1, chunk)}
    key = f"{size_key} - {near_key}"
    return EncodingSpec("dual_chunk", settings), {"chunk": key, "local": near_key}


def beside_dual_chunk(keys: Keys) -> tuple[str, ...]:
    """What vLLM's code does besides: it makes keys longer, and leaves most pairs of prompts out."""
    own = _asked(keys)
    if own is None:
        return ()
    said = []
    length = own.maybe_whole("original_max_position_embeddings", least=0).value
    if length:
        said.append(f"beyond {length} tokens scores grow with the length of the input")
    table = own.any("sparse_attention_config").value
    enabled = own.any("sparse_attention_enabled").value
    threshold = own.maybe_whole("sparse_attention_threshold").value or _THRESHOLD
    own.maybe_whole("sparse_attention_last_q")
    if table is not None if enabled is None else enabled:
        said.append(f"prompts beyond {threshold} tokens see a sparse pattern of keys")
    return tuple(said)


def _asked(keys: Keys) -> Keys | None:
    own = keys.inside(_NAME)
    return own if own is not None and own.values else None
