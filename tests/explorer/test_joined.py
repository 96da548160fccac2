"""Modules that are joined into one script do what they do apart."""

import json
import subprocess
from pathlib import Path

import pytest

from posenc.explorer.joined import joined

MODULES = {
    "app.js": """import { twice, word as said } from "#a.js";
import {
  Counter,
  later,
} from "#b.js";
import * as all from "#a.js";
import table from "#data.js";
import code from "#code.js";

const counter = new Counter();
counter.add(twice(table.start));
console.log(JSON.stringify([counter.sum, said, Object.keys(all).sort(), code, await later()]));
""",
    "b.js": """import { twice } from "#a.js";

/** export const none = 1; */
export class Counter {
  sum = 0;
  add(n) { this.sum += twice(n); }
}
export async function later() {
  return "later";
}
""",
    "a.js": """const hidden = 2;
export const word = "</script><!-- $& ";
export function twice(n) {
  return hidden * n;
}
""",
    "data.js": "export default {\n  start: 3\n};\n",
    "code.js": "export default `import torch\nimport posenc as pe`;\n",
}


def ran(script: Path) -> list[object]:
    told = subprocess.run(["node", str(script)], capture_output=True, text=True, check=True)
    return json.loads(told.stdout)


class TestJoined:
    def test_it_runs_as_the_modules_do(self, tmp_path: Path) -> None:
        for name, source in MODULES.items():
            (tmp_path / name).write_text(source)
        imports = {"type": "module", "imports": {"#*": "./*"}}
        (tmp_path / "package.json").write_text(json.dumps(imports))
        # What starts the page is no function, and waits for nothing.
        app = MODULES["app.js"].replace("await later()", '"later"')
        (tmp_path / "one.mjs").write_text(joined(MODULES | {"app.js": app}))
        apart = ran(tmp_path / "app.js")
        assert apart[0] == 12
        assert ran(tmp_path / "one.mjs") == apart

    def test_no_text_of_it_ends_the_script(self) -> None:
        text = joined(MODULES)
        assert "</script" not in text
        assert "<!--" not in text

    @pytest.mark.parametrize(
        "source",
        [
            "export { a, b };",
            'export * from "#a.js";',
            'export { word } from "#a.js";',
            "export let count = 0;",
            'import "#a.js";',
        ],
    )
    def test_what_it_cannot_join_is_refused(self, source: str) -> None:
        with pytest.raises(ValueError, match=r"own\.js cannot be joined with other modules"):
            joined(MODULES | {"own.js": source})

    def test_modules_in_a_circle_are_refused(self) -> None:
        circle = {"a.js": 'import { b } from "#b.js";', "b.js": 'import { a } from "#a.js";'}
        with pytest.raises(ValueError, match="cycle"):
            joined(circle)
