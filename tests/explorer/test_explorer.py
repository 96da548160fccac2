"""The explorer: its bundle, its command, its texts, its Python, and itself in a real browser."""

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from fontTools.ttLib import TTFont
from typer.testing import CliRunner

from posenc.commands import app
from posenc.explorer import bundle
from posenc.explorer.tables import tables
from tests.explorer import strangers

TESTS = Path(__file__).parent
BROWSER = ("pictures", "story", "use")
IMPORT = re.compile(r'^(?:import|export)\b[^;]*?\bfrom "([^"\n]+)"', re.MULTILINE)


def sources() -> Iterator[tuple[str, str]]:
    for path in sorted(bundle.SOURCE.rglob("*.js")):
        yield path.relative_to(bundle.SOURCE).as_posix(), path.read_text("utf-8")


class TestBundle:
    def test_it_is_one_small_file_that_asks_for_nothing(self) -> None:
        page = bundle.bundle()
        assert len(page.encode()) < 1_000_000
        assert "default-src 'none'" in page
        assert "{{" not in page
        # The name of SVG's namespace is an address that nobody fetches.
        text = page.replace("http://www.w3.org/2000/svg", "").replace("%23", "#")
        for fetched in (
            r'src="',
            r"@import",
            r"url\((?!data:font)",
            r'href="(?!data:|\$\{canvas\.toDataURL)',
            r"\bfetch\(",
            "XMLHttp",
        ):
            assert not re.search(fetched, text), fetched

    def test_every_module_is_in_it_after_those_that_it_imports(self) -> None:
        page = bundle.bundle()
        places = {name: page.index(f'\nmodules["{name}"] = ') for name, _ in sources()}
        for name, source in sources():
            for imported in IMPORT.findall(source):
                assert places[imported.removeprefix("#")] < places[name], f"{name}: {imported}"

    def test_no_source_makes_code_of_text(self) -> None:
        for name, source in sources():
            assert not re.search(r"\beval\(|new Function\(", source), name

    def test_own_sources_stay_short(self) -> None:
        for name, source in sources():
            if not name.startswith(("vendor/", "data/")):
                assert source.count("\n") <= 300, name

    def test_vendored_code_brings_its_licence(self) -> None:
        vendor = bundle.SOURCE / "vendor"
        for name, licence in (("uplot", "MIT"), ("stix", "SIL Open Font License")):
            assert licence in (vendor / f"{name}.LICENSE").read_text()

    def test_the_font_has_every_sign_of_the_formulas(self) -> None:
        font = TTFont(bundle.SOURCE / "vendor" / "stix.woff")
        assert "MATH" in font
        texts = [path.read_text("utf-8") for path in (bundle.SOURCE / "formulas").glob("*.js")]
        for folder in ("panels", "story"):
            for path in (bundle.SOURCE / folder).glob("*.js"):
                texts += re.findall(r"formula: (.*?\]\])", path.read_text("utf-8"), re.DOTALL)
        # Chinese signs are the system's.
        written = {sign for sign in "".join(texts) if sign.isprintable() and ord(sign) < 0x3000}
        assert len(written) > 90
        missing = written - set(map(chr, font.getBestCmap()))
        assert not missing

    def test_the_link_to_a_lesson_is_a_text_and_not_markup(self) -> None:
        page = bundle.bundle('{page}.html"><b>')
        assert 'content="{page}.html&quot;&gt;&lt;b&gt;"' in page


class TestCommand:
    def test_it_writes_the_page(self, tmp_path: Path) -> None:
        out = tmp_path / "page.html"
        ended = CliRunner().invoke(app, ["explore", "--out", str(out), "--no-open"])
        assert ended.exit_code == 0, ended.output
        assert ended.output == f"page: {out}\n"
        assert out.read_text("utf-8").startswith("<!doctype html>")

    def test_it_opens_the_panel_and_language_that_are_asked_for(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        opened: list[str] = []
        monkeypatch.setattr("webbrowser.open", lambda address: opened.append(address) or True)
        out = tmp_path / "page.html"
        CliRunner().invoke(app, ["explore", "--out", str(out), "--panel", "circle", "--lang", "zh"])
        assert opened == [f"{out.as_uri()}#panel=circle&lang=zh"]

    def test_a_panel_that_is_not_there_is_a_message(self, tmp_path: Path) -> None:
        out = tmp_path / "page.html"
        ended = CliRunner().invoke(app, ["explore", "--out", str(out), "--panel", "circel"])
        assert ended.exit_code == 2
        assert "no panel is called 'circel': did you mean 'circle'" in ended.output
        assert not out.exists()

    def test_a_folder_that_is_not_there_is_a_message(self, tmp_path: Path) -> None:
        out = tmp_path / "no" / "page.html"
        ended = CliRunner().invoke(app, ["explore", "--out", str(out)])
        assert ended.exit_code == 2
        assert f"posenc: explore --out {out}: it cannot be written" in ended.output
        # Of the file that it is written to before, nobody has heard.
        assert ".tmp" not in ended.output

    def test_it_waits_for_torch_only_to_make_tables(self, tmp_path: Path) -> None:
        program = (
            "import sys; sys.argv = ['posenc', 'explore', '--no-open']\n"
            "from posenc.cli import main\n"
            "try: main()\n"
            "except SystemExit: pass\n"
            "print('torch' in sys.modules)"
        )
        ended = subprocess.run(
            [sys.executable, "-c", program], capture_output=True, text=True, cwd=tmp_path
        )
        needed = bool(bundle.without_javascript())
        assert ended.stdout.endswith(f"{needed}\n"), ended.stderr
        assert (tmp_path / "posenc-explorer.html").is_file()


def test_its_arithmetic_and_texts_in_node(node: str, compared: Path) -> None:
    files = [path.name for path in sorted(compared.glob("*.test.mjs"))]
    ended = subprocess.run([node, "--test", *files], cwd=compared, capture_output=True, text=True)
    assert ended.returncode == 0, ended.stdout[-6000:] + ended.stderr[-2000:]


def test_what_it_copies_as_python_runs(node: str, workshop: Path) -> None:
    ended = subprocess.run([node, "python.mjs"], cwd=workshop, capture_output=True, check=True)
    panels = set()
    for found in json.loads(ended.stdout):
        panels.add(found["panel"])
        torch.manual_seed(0)
        code = compile(found["code"], f"{found['panel']} #{found['hash']}", "exec")
        exec(code, {"__name__": "__main__"})
    assert panels == set(bundle.panels())


@pytest.mark.long
@pytest.mark.parametrize("name", BROWSER)
def test_it_in_a_real_browser(name: str, node: str, chromium: str, tmp_path: Path) -> None:
    if not (TESTS / "node_modules" / "playwright-core").is_dir():
        pytest.skip("playwright-core is not installed: npm ci in tests/explorer")
    page = tmp_path / "page.html"
    bundle.write(page, members=tables(strangers.ALL))
    ended = subprocess.run(
        [node, "--test", "--test-reporter=spec", f"browser/{name}.mjs"],
        cwd=TESTS,
        env=os.environ | {"PAGE": str(page), "CHROMIUM": chromium},
        capture_output=True,
        text=True,
    )
    assert ended.returncode == 0, ended.stdout[-8000:] + ended.stderr[-2000:]
