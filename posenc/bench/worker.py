"""What a process of its own does: measure one case, and write the answer."""

import os
from pathlib import Path
from typing import Any

from posenc.atomic_files import write_json
from posenc.bench.cases import all_cases
from posenc.bench.measure import run


def answer(request: dict[str, Any], folder: str) -> None:
    """Write answer.json for a request; what is printed meanwhile goes to said.txt.

    What torch compiles is kept there too: its own cache does not tell instruction sets apart, and a
    kernel that was written for AVX2, compiled for AVX-512, writes beyond its tensors.
    """
    os.environ["TORCHINDUCTOR_CACHE_DIR"] = str(Path(folder, "compiled"))
    with Path(folder, "said.txt").open("wb") as said:
        for stream in (1, 2):
            os.dup2(said.fileno(), stream)
    write_json(Path(folder, "answer.json"), run(request, all_cases()))
