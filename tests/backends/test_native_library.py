"""The library of C kernels: loaded, or a sentence that says why not; forks; and its structures."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import torch

import posenc as pe
from posenc.native.attention_struct import CallStruct
from posenc.native.library import LIBRARY, SETS, load

pytestmark = pytest.mark.skipif(isinstance(LIBRARY, str), reason=str(LIBRARY))

FORK = """
import os, torch, posenc as pe
torch.set_num_threads(2)
lowered = pe.lower(pe.Rotary(64), 256)
q, k = torch.ones(2, 2, 8, 256, 64).unbind()
q, k = q.clone(), k.clone()
expected = pe.rotate(q, k, lowered)
child = os.fork()
if child == 0:
    rotated = pe.rotate(q, k, lowered)
    # torch's own threads do not survive either.
    torch.set_num_threads(1)
    os._exit(0 if torch.equal(rotated[0], expected[0]) else 1)
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""
WITHOUT = """
import torch, posenc as pe
from posenc.native.library import LIBRARY
torch.manual_seed(0)
q, k = torch.randn(2, 1, 2, 5, 8).unbind()
rotated = pe.rotate(q, k, pe.Rotary(8))
print(LIBRARY if isinstance(LIBRARY, str) else "kernels")
print(rotated[0].double().norm().item(), rotated[1][0, 0, 3, 2].item())
"""


def printed(code: str, **environment: str) -> list[str]:
    """What a process of its own prints."""
    root = str(Path(pe.__file__).parents[1])
    variables = {**os.environ, "PYTHONPATH": root, **environment}
    command = [sys.executable, "-c", code]
    ended = subprocess.run(command, env=variables, capture_output=True, text=True, check=True)
    return ended.stdout.splitlines()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system does not fork")
def test_a_forked_child_does_not_wait_for_its_parents_threads() -> None:
    assert printed(FORK) == ["0"]


def test_posenc_runs_without_the_kernels() -> None:
    without, with_them = printed(WITHOUT, POSENC_NATIVE="0"), printed(WITHOUT)
    assert without[0] == "POSENC_NATIVE=0 turns the C kernels off"
    assert with_them[0] == "kernels"
    norms = [[float(x) for x in lines[1].split()] for lines in (without, with_them)]
    assert norms[0] == pytest.approx(norms[1], rel=1e-6)


def test_it_says_why_there_are_no_kernels(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert "a C compiler was missing or failed" in load(tmp_path / "none.so")
    broken = tmp_path / "broken.so"
    broken.write_text("no library")
    assert "do not load" in load(broken)
    monkeypatch.setattr("posenc.native.library.ROTATION_BYTES", 8)
    assert "but posenc writes {'pe_rotation': 8" in load()
    monkeypatch.undo()
    # Such a library would read elements of a type that it does not know as if they were float32.
    monkeypatch.setattr("posenc.native.library.TYPES", {torch.float32: 0})
    assert re.search(r"the C kernels read .*'pe_type': 4}, but .*'pe_type': 1}", load())
    monkeypatch.setenv("POSENC_NATIVE", str(broken))
    assert "do not load" in load()
    monkeypatch.setenv("POSENC_NATIVE", "nowhere.so")
    assert load() == "POSENC_NATIVE=nowhere.so is no file"


SET = """
import torch
import posenc as pe
from posenc.native.library import LIBRARY
q = torch.linspace(-2, 3, 4 * 70 * 24).sin().view(1, 4, 70, 24)
out = pe.attend(q, q + 0.5, q.cos(), pe.ALiBi(4), causal=True, backend="native")
print(LIBRARY.instruction_set, out.norm().item())
"""


def test_a_lesser_instruction_set_can_be_asked_for() -> None:
    ((best, wanted),) = (line.split() for line in printed(SET))
    # No machine has the second of two neighbours without the first.
    for name in SETS:
        ((chosen, norm),) = (line.split() for line in printed(SET, POSENC_NATIVE_ISA=name))
        assert SETS.index(chosen) == min(SETS.index(name), SETS.index(best))
        assert float(norm) == pytest.approx(float(wanted), rel=1e-6)


def test_an_unknown_instruction_set_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("POSENC_NATIVE_ISA", "sse9")
    assert load() == "POSENC_NATIVE_ISA=sse9 is none of baseline, avx2, avx512, avx512bf16, amx"


FIELD = re.compile(r"(?:const )?(struct \w+|\w+) ([^;()]+);")
KINDS = {"int64_t": "c_long", "double": "c_double"}


def declared(header: str, struct: str, before: str = "") -> list[tuple[str, str]]:
    """Fields of a struct of C, those of structs in it as their own, with their types in ctypes."""
    body = re.sub(r"/\*.*?\*/", "", header, flags=re.DOTALL)
    body = body[body.index(f"struct {struct} {{") :].partition("{")[2].partition("}")[0]
    fields = []
    for kind, names in FIELD.findall(body):
        for name in (name.strip() for name in names.split(",")):
            if kind.startswith("struct"):
                inner = name.removesuffix("_tokens").removesuffix("_grads") + "_"
                own = declared(header, kind.removeprefix("struct "), before + inner)
                end = "_grad" if kind.endswith("_grads") else ""
                fields += [(field + end, type_) for field, type_ in own]
            elif name.startswith("*"):
                fields.append((before + name[1:], "c_void_p"))
            else:
                size = "_Array_3" if "[3]" in name else ""
                fields.append((before + name.removesuffix("[3]"), KINDS[kind] + size))
    if struct == "pe_table":
        # Python names a table by itself.
        fields = [(name.removesuffix("_weight"), kind) for name, kind in fields]
    return fields


def test_python_and_c_declare_the_same_structure() -> None:
    """Sizes are compared where the library is loaded; order and types are, here."""
    header = (Path(pe.__file__).parent / "native" / "attention.h").read_text()
    of_python = [(name, kind.__name__) for name, kind in CallStruct._fields_]
    assert of_python == declared(header, "pe_attention")
