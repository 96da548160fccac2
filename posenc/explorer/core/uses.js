import { GLOBALS } from "#core/globals.js";

/** The shared settings that a panel reads, at the settings `s`. */
export function used(panel, s) {
  if (!panel.uses) return GLOBALS.map(({ id }) => id);
  return typeof panel.uses === "function" ? panel.uses(s) : panel.uses;
}
