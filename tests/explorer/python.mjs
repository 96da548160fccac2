// Prints, as JSON, the Python that every panel gives for its first settings and for others.
import { GLOBALS } from "../../posenc/explorer/core/globals.js";
import { parse, settle } from "../../posenc/explorer/core/settings.js";
import { UserError } from "../../posenc/explorer/core/errors.js";
import { limits } from "../../posenc/explorer/core/controls.js";
import { PANELS } from "../../posenc/explorer/panels/index.js";
import { used } from "../../posenc/explorer/core/uses.js";

const found = [];
const seen = new Set();

function add(panel, hash) {
  const { settings } = parse(`#${hash}`, PANELS, { lang: "en", theme: "light" });
  const s = settle(panel, settings);
  try {
    panel.compute(s);
  } catch (error) {
    if (error instanceof UserError) return;
    throw error;
  }
  const code = panel.python(s);
  if (seen.has(code)) return;
  seen.add(code);
  found.push({ panel: panel.id, hash, code });
}

for (const panel of PANELS) {
  add(panel, "");
  const { settings } = parse("", PANELS, { lang: "en", theme: "light" });
  const s = settle(panel, settings);
  // A small model: what is tried here is whether the code runs, many times.
  const small = "d=16&length=24&heads=4&trained=16";
  for (const control of panel.controls) {
    const { options, min, max } = limits(control, s);
    const values = {
      select: options, toggle: ["0", "1"], range: [min, max].map(String),
      button: ["1"], text: [], sketch: [],
    }[control.kind];
    for (const value of values)
      add(panel, `${small}&${panel.id}.${control.id}=${encodeURIComponent(value)}`);
  }
  if (!used(panel, s).includes("a")) continue;
  const names = GLOBALS.find(({ id }) => id === "a").options;
  const toggles = panel.controls
    .filter(({ kind }) => kind === "toggle")
    .map(({ id }) => `${panel.id}.${id}=1`);
  for (const name of names) add(panel, [`${small}&a=${name}`, ...toggles].join("&"));
}
process.stdout.write(JSON.stringify(found));
