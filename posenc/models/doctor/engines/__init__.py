"""The engines that the doctor knows, one file each."""

from collections.abc import Mapping

from posenc.models.doctor.engine import Engine
from posenc.models.doctor.engines.llama_cpp import LLAMA_CPP
from posenc.models.doctor.engines.mlx import MLX
from posenc.models.doctor.engines.sglang import SGLANG
from posenc.models.doctor.engines.transformers import TRANSFORMERS
from posenc.models.doctor.engines.vllm import VLLM

ENGINES: Mapping[str, Engine] = {
    engine.name: engine for engine in (TRANSFORMERS, VLLM, SGLANG, LLAMA_CPP, MLX)
}
