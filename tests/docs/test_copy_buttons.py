"""Blocks of code have a button that copies them; formulas have none."""

import re
import subprocess
from pathlib import Path

import pytest

STATIC = Path(__file__).parents[2] / "docs" / "extension" / "static"
# As Sphinx writes blocks. The click comes after the buttons, and tells what it copied.
PAGE = """<!doctype html><html lang="{language}"><meta charset="utf-8"><body>
<div class="highlight-python notranslate"><div class="highlight"><pre><span></span>x = 1
<span class="k">print</span>(x)
</pre></div></div>
<div class="highlight-text notranslate"><div class="highlight"><pre>p = 1</pre></div></div>
<p id="told"></p>
<script>
const told = document.getElementById("told");
const tell = (text) => (told.textContent = JSON.stringify(text));
{clipboard}
</script>
<script src="{script}"></script>
<script>document.querySelector("button.copy").click();</script>
</body></html>
"""
WITH = "Object.defineProperty(navigator, 'clipboard', {value: {writeText: async (t) => tell(t)}});"
WITHOUT = """Object.defineProperty(navigator, 'clipboard', {value: undefined});
document.execCommand = () => tell(String(window.getSelection()) + '\\n') !== null;"""


@pytest.mark.long
@pytest.mark.parametrize("clipboard", [WITH, WITHOUT], ids=["clipboard", "selection"])
@pytest.mark.parametrize(("language", "copied"), [("en", "Copied"), ("zh-CN", "已复制")])
def test_a_click_copies_the_block(
    tmp_path: Path, chromium: str, clipboard: str, language: str, copied: str
) -> None:
    page = PAGE.replace("{language}", language).replace("{clipboard}", clipboard)
    (tmp_path / "page.html").write_text(
        page.replace("{script}", (STATIC / "copy.js").as_uri()), "utf-8"
    )
    options = ["--headless", "--no-sandbox", "--disable-gpu", "--virtual-time-budget=500"]
    ended = subprocess.run(
        [chromium, *options, "--dump-dom", (tmp_path / "page.html").as_uri()],
        capture_output=True,
        text=True,
        check=True,
    )
    buttons = re.findall(r'<button type="button" class="copy">(.*?)</button>', ended.stdout)
    assert buttons == [copied]
    assert '<p id="told">"x = 1\\nprint(x)\\n"</p>' in ended.stdout
