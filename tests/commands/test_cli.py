"""The command line: what each command prints, and how it ends."""

import ast
import inspect
import json
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from typer.core import TyperGroup
from typer.main import get_command
from typer.testing import CliRunner

import posenc as pe
import posenc.lab.compare
import posenc.testing
import posenc.testing.suite
from posenc.chinese import described
from posenc.command_list import COMMANDS
from posenc.commands import app
from posenc.commands.app import OneLine

run = CliRunner().invoke


def python(program: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)


class TestMain:
    @pytest.mark.parametrize("command", [["--help"], ["list"], ["list", "--json"], ["show", "t5"]])
    def test_output_that_cannot_be_written_ends_it_without_a_traceback(
        self, command: list[str]
    ) -> None:
        program = f"import sys; sys.argv[1:] = {command}; from posenc.cli import main; main()"
        reader, writer = os.pipe()
        os.close(reader)
        with os.fdopen(writer, "w") as closed, open("/dev/full", "w") as full:
            for output, code, said in (
                (closed, 1, ""),
                (full, 1, "posenc: the output cannot be written: No space left on device"),
            ):
                ended = subprocess.run(
                    [sys.executable, "-c", program], stdout=output, stderr=-1, text=True
                )
                assert (ended.returncode, ended.stderr.strip()) == (code, said)

    def test_a_file_for_which_there_is_no_room_is_named(self, tmp_path: Path) -> None:
        config = {"model_type": "llama", "num_hidden_layers": 1, "num_attention_heads": 1}
        config |= {"hidden_size": 8, "max_position_embeddings": 8, "rope_theta": 10000.0}
        (tmp_path / "config.json").write_text(json.dumps(config))
        out = tmp_path / "out.json"
        ended = python(
            "import errno, os, sys\n"
            f"sys.argv = ['posenc', 'convert', {str(tmp_path)!r}, {str(out)!r}, '--to', 'hf4']\n"
            "def full(handle):\n"
            "    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))\n"
            "os.fsync = full\n"
            "from posenc.cli import main\n"
            "main()"
        )
        assert ended.returncode == 2
        assert ended.stderr.endswith(f"No space left on device: '{out}'\n")
        assert [path.name for path in tmp_path.iterdir()] == ["config.json"]

    @pytest.mark.parametrize("command", ["--help", "list", "doctor config.json", "list --no-such"])
    def test_closed_outputs_are_written_to_in_vain(self, command: str, tmp_path: Path) -> None:
        config = {"model_type": "bert", "num_hidden_layers": 1, "num_attention_heads": 1}
        config |= {"hidden_size": 8, "max_position_embeddings": 8}
        (tmp_path / "config.json").write_text(json.dumps(config))
        call = [sys.executable, "-c", "from posenc.cli import main; main()", *command.split()]
        for closed in (">&-", "2>&-"):
            line = f"{shlex.join(call)} {closed}"
            ended = subprocess.run(line, shell=True, capture_output=True, text=True, cwd=tmp_path)
            assert ended.returncode == (2 if "no-such" in command else 0), ended.stderr
            assert "Traceback" not in ended.stderr
            # What is for one output never goes to the other.
            assert bool(ended.stdout) == (closed == "2>&-" and "no-such" not in command)

    def test_signs_are_written_plainly_where_a_terminal_lacks_them(self) -> None:
        program = (
            "import sys; sys.argv = ['posenc', 'list']\n"
            "import posenc.cli\n"
            "posenc.cli._run = lambda: print('\u22120.01 \xb10.02 \u2020' + {0!r})\n"
            "sys.stdout.reconfigure(encoding='ascii')\n"
            "posenc.cli.main()"
        )
        assert python(program.format("")).stdout == "-0.01 +-0.02 *\n"
        # What is no sign is never changed.
        ended = python(program.format("\N{GREEK SMALL LETTER ALPHA}"))
        assert (ended.stdout, ended.returncode) == ("", 1)
        assert "UnicodeEncodeError" in ended.stderr

    def test_help_waits_for_neither_torch_nor_typer(self) -> None:
        ended = python(
            "import sys; sys.argv = ['posenc', '--help']\n"
            "from posenc.cli import main\n"
            "try: main()\n"
            "except SystemExit: pass\n"
            "print({'torch', 'matplotlib', 'markdown_it', 'typer'} & set(sys.modules))\n"
            "print([name for name in sys.modules if name.startswith('posenc.')])"
        )
        *_, heavy, own = ended.stdout.splitlines()
        assert heavy == "set()"
        assert set(ast.literal_eval(own)) == {
            "posenc.cli", "posenc.command_help", "posenc.command_list",
        }  # fmt: skip
        assert all(name in ended.stdout for name in ("list", "show", "check", "compare"))

    @pytest.mark.parametrize("width", ["60", "80", "132"])
    def test_help_alone_says_what_typer_says(
        self, width: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Asked twice, it comes by typer."""
        monkeypatch.setenv("COLUMNS", width)
        program = "import sys; sys.argv = ['posenc', *{}]; from posenc.cli import main; main()"
        alone, typers = (python(program.format(["--help"] * count)) for count in (1, 2))
        assert " Usage: posenc [OPTIONS] COMMAND [ARGS]..." in alone.stdout
        assert (alone.stdout, alone.returncode) == (typers.stdout, typers.returncode)

    def test_help_names_each_command_in_its_own_words(self) -> None:
        group = get_command(app)
        for name, command in COMMANDS.items():
            first, _, _ = " ".join(group.commands[name].help.split()).partition(". ")
            assert command.summary.removesuffix(".") == first.removesuffix(".")
        words = " ".join(re.sub(r"[╭╮╰╯│─]", " ", run(app, ["--help"]).stdout).split())
        assert all(f"{name} {command.summary}" in words for name, command in COMMANDS.items())
        assert "--help Show this message and exit." in words

    @pytest.mark.parametrize("width", ["60", "80", "132"])
    def test_help_looks_as_typers_own(self, width: str, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("COLUMNS", width)
        shown = run(app, ["--help"]).stdout
        monkeypatch.setattr(OneLine, "format_help", TyperGroup.format_help)
        # Its column for the type of an option says nothing of --help.
        typers = re.sub(r" *<bool>", "", run(app, ["--help"]).stdout)
        assert [line.split() for line in shown.splitlines() if "--help" not in line] == [
            line.split() for line in typers.splitlines() if "--help" not in line
        ]

    @pytest.mark.parametrize("missing", ["typer", "rich"])
    def test_without_its_extra_it_says_what_to_install(self, missing: str) -> None:
        ended = python(
            f"import sys; sys.modules[{missing!r}] = None\nfrom posenc.cli import main; main()"
        )
        assert ended.returncode == 1
        assert 'pip install -e ".[cli]" in a clone' in ended.stderr
        assert "Traceback" not in ended.stderr

    @pytest.mark.parametrize(
        ("command", "missing"), [(["compare"], "safetensors"), (["extend", "model"], "scipy")]
    )
    def test_without_the_lab_it_says_what_to_install(
        self, command: list[str], missing: str
    ) -> None:
        ended = python(
            f"import sys; sys.modules[{missing!r}] = None; sys.argv = {['posenc', *command]}\n"
            "from posenc.cli import main; main()"
        )
        assert ended.returncode == 1
        assert 'pip install -e ".[lab]" in a clone' in ended.stderr

    def test_classes_are_found_from_the_working_folder(self, tmp_path: Path) -> None:
        (tmp_path / "mine.py").write_text(
            "import posenc as pe\nclass Mine(pe.NoPE):\n    'My own.'\n"
        )
        program = "import sys; sys.path.pop(0); from posenc.cli import main; main()"
        ended = subprocess.run(
            [sys.executable, "-c", program, "show", "mine:Mine"],
            capture_output=True,
            text=True,
            cwd=tmp_path,
        )
        assert "My own." in ended.stdout, ended.stderr


class TestErrors:
    @pytest.mark.parametrize(
        ("command", "message"),
        [
            ("compute", "No such command 'compute'"),
            ("comvert", "Did you mean 'convert'?"),
            ("list --no-such", "No such option: --no-such"),
            ("show", "Missing argument"),
            ("check", "name an encoding, or give --all"),
            ("check none --peers tests.peers --out no/such/file", "--out no/such/file"),
            ("compare --steps many", "Invalid value for '--steps'"),
            ("compare --test-lengths 64,many", "whole numbers between commas"),
            ("bench --only no-such", "no-such"),
            ("bench --threads 0", "threads=0"),
            ("convert a", "Missing option '--to'"),
            ("convert a --to half", "say --from, and where to write the copy"),
            ("convert a --to hf5 --from half", "--from speaks of weights"),
            ("convert a --to gguf --rotary-dim 8", "--rotary-dim speaks of weights"),
            ("convert a --to gguf --start 0", "--start speaks of weights"),
            ("convert a --to hf5 --heads 3", "--heads speaks of weights"),
            ("convert a --to hf5 --kv-heads 3", "--kv-heads speaks of weights"),
            ("convert a --to vllm --pattern q", "--pattern speaks of weights"),
            ("convert a --to vllm --columns q", "--columns speaks of weights"),
            ("convert no-such.json --to vllm", "no-such.json is not a model's configuration"),
            ("doctor no-such.json", "no-such.json is not a model's configuration"),
            ("doctor no-such.json --engine vlm", "did you mean 'vllm'"),
            ("convert a b --from half --to whole", "'whole' is not one of"),
            ("convert no-such b --from half --to interleaved", "is not a file"),
            ("explore --panel no-such", "no-such"),
        ],
    )
    def test_wrong_input_is_answered_in_one_line(self, command: str, message: str) -> None:
        ended = run(app, command.split())
        assert ended.exit_code == 2
        assert ended.stdout == ""
        assert ended.stderr.startswith("posenc: ")
        assert message in ended.stderr
        assert len(ended.stderr.splitlines()) == 1

    def test_no_command_at_all_shows_the_help(self) -> None:
        ended = run(app, [])
        assert ended.exit_code == 2
        assert "convert" in ended.output


class TestList:
    def test_it_does_not_wait_for_the_compiler_of_torch(self) -> None:
        ended = python(
            "import sys; sys.argv = ['posenc', 'list']\n"
            "from posenc.cli import main\n"
            "try: main()\n"
            "except SystemExit: pass\n"
            "print('torch._dynamo' in sys.modules)"
        )
        assert ended.stdout.endswith("False\n"), ended.stderr

    def test_names_every_encoding(self) -> None:
        shown = run(app, ["list"]).stdout
        for name, cls in pe.encodings().items():
            assert name in shown
            assert cls.__name__ in shown
            assert (inspect.getdoc(cls) or "").splitlines()[0] in shown

    def test_chinese_lists_the_same_in_the_same_order(self) -> None:
        shown, english = (run(app, ["list", "--language", x]).stdout for x in ("zh", "en"))
        names = [re.findall(r"^  (\w+)", text, re.MULTILINE) for text in (shown, english)]
        assert names[0] == names[1]
        for words in (
            "绝对：加到嵌入上",
            "相对，只用于因果",
            described(pe.Rotary).partition("\n")[0],
        ):
            assert words in shown

    def test_a_terminal_without_chinese_gets_english(self) -> None:
        ended = python(
            "import sys; sys.argv = ['posenc', 'list', '--language', 'zh']\n"
            "sys.stdout.reconfigure(encoding='latin-1')\n"
            "from posenc.cli import main; main()"
        )
        assert ended.stdout.startswith("absolute: adds to the embeddings\n"), ended.stderr

    def test_json_tells_the_same_to_programs(self) -> None:
        rows = {row["name"]: row for row in json.loads(run(app, ["list", "--json"]).stdout)}
        assert rows.keys() == pe.encodings().keys()
        assert rows["rotary"]["relative"] is True
        assert rows["learned"]["relative"] is False
        assert rows["alibi"]["paper"] == "arXiv:2108.12409"


class TestShow:
    @pytest.mark.parametrize("name", ["t5", "T5Bias", "posenc.encodings.t5:T5Bias"])
    def test_tells_formula_settings_tags_and_examples(self, name: str) -> None:
        shown = run(app, ["show", name]).stdout
        assert "T5Bias(heads: int, buckets: int = 32" in shown
        assert "Source: Raffel" in shown
        assert "translation_invariant" in shown
        for example in pe.T5Bias.examples():
            assert repr(example) in shown

    def test_an_unknown_name_is_answered_with_the_nearest(self) -> None:
        ended = run(app, ["show", "rotery"])
        assert ended.exit_code == 2
        assert "did you mean 'rotary'" in ended.stderr
        assert ended.stdout == ""
