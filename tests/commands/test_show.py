"""`posenc show`: what it draws, where it writes, and how it answers what is wrong."""

import inspect
import subprocess
import sys
from pathlib import Path

import pytest
from PIL import Image
from typer.testing import CliRunner

import posenc as pe
from posenc.analysis import plot
from posenc.commands import app
from posenc.commands.settings import build, parse

run = CliRunner().invoke


@pytest.fixture(autouse=True)
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def show(*words: str) -> list[str]:
    """The lines of an answer that went well."""
    ended = run(app, ["show", *words])
    assert ended.exit_code == 0, ended.stderr
    return ended.stdout.splitlines()


def refused(*words: str) -> str:
    """The one line that says what is wrong."""
    ended = run(app, ["show", *words])
    assert ended.exit_code == 2, (ended.exit_code, ended.stdout, ended.exception)
    assert ended.stdout == ""
    assert ended.stderr.startswith("posenc: ")
    assert len(ended.stderr.splitlines()) == 1
    return ended.stderr


def stranger(name: str, code: str) -> str:
    """A module in the working folder, as it is named to the command."""
    Path(f"{name}.py").write_text(f"import posenc as pe\n{code}", "utf-8")
    return name


@pytest.fixture
def findable(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.syspath_prepend(str(tmp_path))


class TestWords:
    def test_it_tells_how_to_draw(self) -> None:
        assert show("t5")[-1] == "figures: posenc show t5 --out posenc-figures"

    @pytest.mark.parametrize("name", ["yarn", "YaRN", "pe.YaRN", "posenc.YaRN"])
    def test_settings_are_shown_as_they_are_made(self, name: str) -> None:
        shown = "\n".join(show("rotary", "dim=64", f"scaling={name}(4, 4096)"))
        assert "with these settings\n    Rotary(dim=64, base=10000.0" in shown
        assert "YaRN(factor=4, original_length=4096" in shown


class TestFigures:
    def test_one_figure_is_one_file(self) -> None:
        assert show("sinusoidal", "--figure", "heatmap") == [
            "posenc-figures/sinusoidal-heatmap.light.svg"
        ]
        written = Path("posenc-figures/sinusoidal-heatmap.light.svg").read_text("utf-8")
        assert written == plot.svg(plot.heatmap(next(pe.Sinusoidal.examples())))

    def test_a_folder_alone_asks_for_all(self) -> None:
        lines = show("alibi", "--out", "a/b", "--theme", "dark", "--format", "png")
        assert lines == [f"a/b/alibi-{name}.dark.png" for name in plot.figures(pe.ALiBi(4))]
        for line in lines:
            with Image.open(line) as image:
                assert image.format == "PNG"

    def test_chinese_has_files_of_its_own(self) -> None:
        (line,) = show("window", "--figure", "mask", "--language", "zh")
        assert line.endswith("window-mask.light.zh.svg")
        english = show("window", "--figure", "mask")[0]
        assert Path(line).read_text("utf-8") != Path(english).read_text("utf-8")

    def test_settings_and_choices_reach_the_figure(self) -> None:
        words = ("sinusoidal", "dim=6", "layout=half", "--figure", "circle")
        (line,) = show(*words, "--pair", "2", "--length", "9")
        expected = plot.circle(pe.Sinusoidal(6, layout="half"), 2, 9)
        assert Path(line).read_text("utf-8") == plot.svg(expected)

    def test_a_head_is_chosen(self) -> None:
        (line,) = show("t5", "--figure", "scores", "--head", "2")
        other = show("t5", "--figure", "scores", "--out", "other")[0]
        assert Path(line).read_text("utf-8") != Path(other).read_text("utf-8")

    def test_a_figure_is_drawn_once(self) -> None:
        assert len(show("t5", "--figure", "bias", "--figure", "bias")) == 1


@pytest.mark.usefixtures("findable")
class TestStrangers:
    def test_a_class_of_ones_own_is_drawn(self) -> None:
        name = stranger(
            "mine_well",
            "class Mine(pe.Rotary):\n"
            "    'My own.'\n"
            "    name = 'mine'\n"
            "    def __init__(self, dim=8): super().__init__(dim)\n"
            "    @classmethod\n"
            "    def examples(cls): yield cls()\n",
        )
        (line,) = show(f"{name}:Mine", "dim=4", "--figure", "circle")
        assert Path(line).read_text("utf-8").startswith("<?xml")

    def test_its_name_cannot_leave_the_folder(self) -> None:
        name = stranger("mine_named", "class Mine(pe.NoPE):\n    name = '../../x/$y$'\n")
        (line,) = show(f"{name}:Mine", "--figure", "decomposition")
        assert line == "posenc-figures/_x_y_-decomposition.light.svg"

    def test_without_examples_settings_make_it(self) -> None:
        name = stranger(
            "mine_bare",
            "class Mine(pe.Encoding):\n"
            "    def __init__(self, dim):\n"
            "        super().__init__()\n"
            "        self.model_dim = self.dim = dim\n"
            "    def embed(self, x, positions, *, layer=0):\n"
            "        return x + positions.queries.position.view(1, -1, 1).to(x.dtype)\n",
        )
        assert show(f"{name}:Mine", "dim=4", "--figure", "heatmap")
        assert "missing 1 required" in refused(f"{name}:Mine", "--figure", "heatmap")

    @pytest.mark.parametrize(
        ("code", "said"),
        [
            ("raise RuntimeError('no')", "RuntimeError: no"),
            ("class Mine(", "SyntaxError"),
            ("Mine = 3", "a class derived from posenc.Encoding is needed"),
            ("", "cannot be imported"),
        ],
    )
    def test_what_cannot_be_imported_is_said(self, code: str, said: str) -> None:
        name = stranger(f"mine_{abs(hash(code))}", code)
        assert said in refused(f"{name}:Mine", "--figure", "heatmap")

    def test_what_it_raises_is_one_message(self) -> None:
        name = stranger(
            "mine_ill",
            "class Mine(pe.Encoding):\n"
            "    def lower(self, positions, context=None, *, dtype=None):\n"
            "        raise KeyError('angle')\n"
            "class Later(pe.Rotary):\n"
            "    def __init__(self): super().__init__(4)\n"
            "    @classmethod\n"
            "    def examples(cls): yield cls()\n"
            "    def settings(self): return {}\n"
            "    def lower(self, positions, *given, **named):\n"
            "        if positions.k_len > 4: raise ZeroDivisionError('one\\ntwo')\n"
            "        return super().lower(positions, *given, **named)\n",
        )
        assert "Mine cannot be drawn: KeyError" in refused(f"{name}:Mine", "--out", "x")
        said = refused(f"{name}:Later", "--figure", "circle")
        assert "Later cannot be drawn as circle: ZeroDivisionError: one" in said


class TestWrong:
    @pytest.mark.parametrize(
        ("words", "said"),
        [
            (("rotery",), "did you mean 'rotary'"),
            (("rotary", "--figure", "heatmop"), "did you mean 'heatmap'"),
            (("rotary", "--figure", "bias"), "nothing to show as bias"),
            (("rotary", "dim"), "give name=value"),
            (("rotary", "dim=4", "dim=8"), "given twice"),
            (("rotary", "dims=4"), "did you mean 'dim'"),
            (("rotary", "dim=3"), "must be even"),
            (("rotary", "dim=many"), "dim must be a whole number"),
            (("rotary", "dim=40000", "--figure", "circle"), "at most 16384"),
            (("rotary", "scaling=Yern(4, 4096)"), "did you mean 'yarn'"),
            (("rotary", "scaling=YaRN(4, 4096, 1, 2, 3, 4, 5, 6, 7, 8)"), "too many"),
            (("rotary", "scaling=YaRN(**{'factor': 2})"), "by its name"),
            (("rotary", "scaling=__import__('os').getcwd()"), "no scaling or encoding is called"),
            (("learned", "max_length=10**99"), "must be a whole number"),
            (("sinusoidal", "--figure", "heatmap", "--length", "-5"), "length=-5"),
            (("sinusoidal", "--figure", "heatmap", "--length", "99999999"), "length=99999999"),
            (("learned", "--figure", "heatmap", "--length", "65"), "64"),
            (("sinusoidal", "--figure", "circle", "--pair", "-1"), "pair=-1"),
            (("t5", "--figure", "scores", "--head", "4"), "head=4"),
        ],
        ids=lambda value: " ".join(value) if isinstance(value, tuple) else "",
    )
    def test_it_is_answered_in_one_line(self, words: tuple[str, ...], said: str) -> None:
        assert said in refused(*words)

    def test_a_file_in_the_way_is_named(self) -> None:
        Path("taken").write_text("")
        assert "taken" in refused("t5", "--figure", "bias", "--out", "taken")

    @pytest.mark.parametrize("option", [("--theme", "blue"), ("--format", "pdf")])
    def test_other_choices_are_usage_errors(self, option: tuple[str, str]) -> None:
        ended = run(app, ["show", "t5", "--figure", "bias", *option])
        assert ended.exit_code == 2
        assert option[1] in ended.stderr

    def test_without_matplotlib_it_says_what_to_install(self) -> None:
        program = (
            "import sys; sys.modules['matplotlib'] = None\n"
            "sys.argv = ['posenc', 'show', 't5', '--figure', 'bias']\n"
            "from posenc.cli import main; main()"
        )
        ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
        assert ended.returncode == 1
        assert ended.stderr.splitlines() == [
            'This needs matplotlib: pip install -e ".[plot]" in a clone of posenc'
        ]


class TestSettings:
    def test_values_are_read_as_python_writes_them(self) -> None:
        assert parse(["a=1", "b=-2.5e3", "c=(1, 2)", "d=None", "e=half", "f= two words"]) == {
            "a": 1,
            "b": -2500.0,
            "c": (1, 2),
            "d": None,
            "e": "half",
            "f": " two words",
        }

    def test_every_example_can_be_typed(self) -> None:
        for kind in pe.encodings().values():
            for example in kind.examples():
                texts = {name: repr(value) for name, value in example.settings().items()}
                if any("<function" in text for text in texts.values()):
                    continue
                again = build(kind, parse(f"{name}={text}" for name, text in texts.items()))
                assert repr(again) == repr(example)
                assert list(inspect.signature(kind).parameters) == list(texts)

    def test_weights_are_always_the_same(self) -> None:
        one, two = (build(pe.Learned, {"dim": 4}) for _ in range(2))
        assert one.weight.equal(two.weight)
        assert build(pe.Learned, {}).weight.equal(build(pe.Learned, {}).weight)
