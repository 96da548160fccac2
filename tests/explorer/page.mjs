import { clamped } from "../../posenc/explorer/core/controls.js";

/** Settings of a small page, on which every encoding is compared. */
const PAGE = {
  a: "rotary", b: "alibi", d: 16, base: 100, length: 24, heads: 4, trained: 10,
  lang: "en", theme: "light",
};

/** What a panel's compute gets: the page's settings, the panel's own as they begin, and changes. */
export function settingsFor(panel, changes = {}) {
  const s = { ...PAGE, ...changes };
  for (const control of panel.controls) s[control.id] = clamped(control, s[control.id] ?? control.value, s);
  return s;
}
