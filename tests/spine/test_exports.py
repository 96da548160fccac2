"""The public face: names, docstrings, the catalogue, and what an import costs."""

import inspect
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest
import torch

import posenc
from posenc import Encoding, make

ROOT = Path(__file__).parents[2]
# What DESIGN.md promises of this release.
PROMISED = {
    *("ALiBi", "Attention", "AxialRotary", "Binary", "Cache", "CoPE", "Context", "DeBERTa"),
    *(
        "Documents",
        "DynamicNTK",
        "DynamicYaRN",
        "Encoding",
        "EnhancedMaskDecoder",
        "FIRE",
        "FLOATER",
    ),
    *("ForgetGate", "KERPLE", "LMInfinite", "Learned", "LearnedRotary", "Linear", "Llama3"),
    *("LongRoPE", "MRoPE", "NTK", "NoPE", "Ordinal", "Positions", "PosencError", "Proportional"),
    *(
        "ReRoPE",
        "Recurrent",
        "Resonance",
        "Rotary",
        "Sandwich",
        "SelfExtend",
        "Shaw",
        "Sinks",
        "Sinusoidal",
    ),
    *("SlidingWindow", "T5Bias", "Tags", "Temperature", "Transformer", "TransformerEmbedding"),
    *("TransformerXL", "Waveform", "XPos", "YaRN", "attend", "check_encoding", "encodings"),
    "measure",
    *("explain_backend", "lower", "make", "rotate", "scores", "FusedHeads", "convert_checkpoint"),
    "convert_layout",
    *("decompose", "diagnose", "linear_attention", "LinearState", "linear_step"),
    *("RollingCache", "StaticCache", "rerotate"),
}
PUBLIC = posenc.__all__


def run(code: str) -> str:
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return done.stdout.strip()


def test_names_are_sorted_and_complete() -> None:
    assert sorted(set(PUBLIC)) == PUBLIC
    assert dir(posenc) == sorted({*posenc.__all__, "__version__"})
    assert set(PUBLIC) >= PROMISED
    for name in PUBLIC:
        assert getattr(posenc, name) is not None


def test_everything_public_has_a_docstring_of_its_own() -> None:
    for name in PUBLIC:
        thing = getattr(posenc, name)
        documented = "__doc__" in vars(thing) or inspect.isfunction(thing)
        assert documented, name
        assert (inspect.getdoc(thing) or "").strip(), name
        # A dataclass without a docstring gets its signature as one.
        assert not inspect.getdoc(thing).startswith(f"{name}("), name


def test_star_import_gives_the_public_names() -> None:
    assert run("from posenc import *; print(Rotary.__name__, encodings.__name__)") == (
        "Rotary posenc.encodings"
    )


def test_importing_posenc_does_not_import_torch() -> None:
    heavy = "{'torch', 'matplotlib', 'rich', 'typer', 'numpy'} & set(sys.modules)"
    assert run(f"import sys, posenc; posenc.__version__; print({heavy})") == "set()"
    assert run(f"import sys, posenc.errors; print({heavy})") == "set()"


def test_each_name_is_what_api_gathers() -> None:
    for name in PUBLIC:
        assert getattr(posenc, name) is getattr(posenc.api, name), name
    # The errors of a program that has not used posenc yet.
    code = "import sys, posenc; posenc.PosencError; print('torch' in sys.modules)"
    assert run(code) == "False"


def test_first_use_loads_no_more_than_it_needs() -> None:
    """What comes beside torch: jaxtyping, and of posenc what encodings are made of."""
    code = (
        "import sys, torch; before = set(sys.modules); import posenc as pe; pe.Rotary(64); "
        "print(*sorted(set(sys.modules) - before))"
    )
    came = run(code).split()
    others = {name.partition(".")[0] for name in came}
    # numpy.typing is what jaxtyping asks for; torch has brought numpy itself.
    assert others <= {"posenc", "jaxtyping", "numpy"}
    assert {name for name in came if name.startswith("numpy")} <= {
        "numpy.typing",
        "numpy._typing._add_docstring",
    }
    own = {name.split(".")[1] for name in came if name.startswith("posenc.")}
    assert own == {
        "encoding",
        "encodings",
        "errors",
        "frequencies",
        "lazy_names",
        "mask_rules",
        "positions",
        "terms",
        "torch_modes",
    }
    encodings = {name.split(".")[2] for name in came if name.startswith("posenc.encodings.")}
    assert encodings == {"rotary", "_rotary", "scaling"}


def test_attending_loads_no_compiler_and_no_tools() -> None:
    code = (
        "import sys, torch; before = set(sys.modules); import posenc as pe; "
        "q = torch.randn(1, 2, 4, 8, requires_grad=True); "
        "pe.attend(q, q, q, pe.Rotary(8), causal=True).sum().backward(); "
        "print(*sorted(set(sys.modules) - before))"
    )
    came = run(code).split()
    assert {name.partition(".")[0] for name in came if "torch" not in name} <= {
        "posenc", "jaxtyping", "numpy",
    }  # fmt: skip
    assert not any(name.startswith(("torch._dynamo", "torch._inductor")) for name in came)
    own = {name.split(".")[1] for name in came if name.startswith("posenc.")}
    assert not own & {"analysis", "api", "conversion", "lab", "linear", "model", "testing"}


def test_an_unknown_attribute_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="module 'posenc' has no attribute 'Rotery'"):
        _ = posenc.Rotery
    assert not hasattr(posenc, "_private")
    code = "import sys, posenc; print(hasattr(posenc, '_private'), 'torch' in sys.modules)"
    assert run(code) == "False False"


def test_encodings_is_a_package_and_a_function() -> None:
    assert isinstance(posenc.encodings, ModuleType)
    members = posenc.encodings()
    assert list(members) == sorted(members)
    for name, member in members.items():
        assert issubclass(member, Encoding)
        assert member.name == name
        assert getattr(posenc, member.__name__) is member
    # Which of the two is imported first makes no difference.
    code = "import posenc.encodings as e, posenc; print(e is posenc.encodings, len(e()))"
    assert run(code) == f"True {len(members)}"


def test_the_catalogue_makes_what_a_model_needs() -> None:
    rotary = make("rotary", model_dim=512, heads=8)
    assert repr(rotary) == repr(posenc.Rotary(dim=64))
    assert repr(make("Rotary", model_dim=512, heads=8, base=500.0)) == repr(
        posenc.Rotary(64, base=500.0)
    )
    assert make("rotary", model_dim=512, heads=8, head_dim=32).dim == 32
    assert repr(make("ALIBI", model_dim=32, heads=4)) == repr(posenc.ALiBi(4))
    assert make("learned", model_dim=32, heads=4, max_length=77).max_length == 77
    assert repr(make("posenc:NoPE", model_dim=32, heads=4)) == "NoPE()"


def test_what_is_learned_per_distance_fits_the_train_length() -> None:
    """Rows that no training distance reaches would stay as they began."""
    sizes = {"model_dim": 32, "heads": 4, "max_length": 512}
    for length in (4, 16, 64, 1024):
        t5 = make("t5", **sizes, train_length=length)
        reached = set(t5.bucket(-torch.arange(length)).tolist())
        assert reached == set(range(t5.buckets)), length
        shaw = make("shaw", **sizes, train_length=length)
        assert shaw.clip < length
    assert make("t5", **sizes, train_length=1024).max_distance == 128


@pytest.mark.parametrize("folder", ["posenc", "tests", "tools"])
def test_files_stay_short(folder: str) -> None:
    """A file of more than 300 lines holds more than one named thing."""
    sources = {".py", ".c", ".h", ".js", ".mjs"}
    paths = [path for path in (ROOT / folder).rglob("*") if path.suffix in sources]
    # A build leaves sources of its own beside ours.
    ours = [path for path in paths if not {"node_modules", "CMakeFiles"} & set(path.parts)]
    assert ours
    assert [str(path) for path in ours if len(path.read_text().splitlines()) > 300] == []
