// Chapters without a page: their settings, and what they draw.
import { THEMES } from "../../posenc/explorer/core/palette.js";
import { Recorder } from "../../posenc/explorer/core/recorder.js";
import { parse, settle } from "../../posenc/explorer/core/settings.js";
import { speaker } from "../../posenc/explorer/core/text.js";
import { PANELS } from "../../posenc/explorer/panels/index.js";

export const COLORS = THEMES.light;

/** The settings that a chapter begins with, or those of an address. */
export const begun = (chapter, lang = "en", hash = "") =>
  settle(chapter.panel, parse(hash, PANELS, { lang, theme: "light" }).settings, chapter);

/** Everything that a chapter draws: kinds, names, what is said and what paints it. */
export function drawn(chapter, s, width) {
  const found = [];
  const told = speaker(s.lang, chapter.panel, chapter);
  const stage = new Proxy({ width }, {
    get: (target, kind) =>
      target[kind] ?? ((name, spec, painter) => found.push({ kind, name, spec, painter })),
  });
  (chapter.draw ?? chapter.panel.draw)(stage, chapter.panel.compute(s), s, told);
  return found;
}

/** The picture of a chapter: its spec, and as SVG its markup and the texts in it. */
export function picture(chapter, s, width = 690) {
  const { spec, painter } = drawn(chapter, s, width).find(({ kind }) => kind === "paint");
  const recorder = new Recorder();
  painter(recorder, width, spec.height, COLORS);
  const texts = [...recorder.markup.matchAll(/<text [^>]*>([^<]*)</g)].map(([, text]) => text);
  return { spec, texts, markup: recorder.markup };
}
