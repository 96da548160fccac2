// What a chapter paints, as text: every line, place and word of its picture, in the order in which it is drawn.
import { Recorder } from "../../posenc/explorer/core/recorder.js";
import { THEMES } from "../../posenc/explorer/core/palette.js";
import { parse, settle } from "../../posenc/explorer/core/settings.js";
import { speaker } from "../../posenc/explorer/core/text.js";
import { PANELS } from "../../posenc/explorer/panels/index.js";
import { STORY } from "../../posenc/explorer/story/index.js";

// Pictures of matrices need a canvas; here nobody looks at their pixels.
const canvas = () => ({ getContext: () => ({ putImageData() {} }), toDataURL: () => "" });
globalThis.window ??= { devicePixelRatio: 1 };
globalThis.document ??= { createElement: canvas };
globalThis.ImageData ??= class {
  constructor(width, height) {
    this.data = new Uint8ClampedArray(4 * width * height);
  }
};

export const chapterOf = (id) => STORY.find((chapter) => chapter.id === id);

/** What the chapter's compute and draw get where the address ends in `hash`. */
export function begun(id, hash = "", { lang = "en", ...more } = {}) {
  const chapter = chapterOf(id);
  const { settings } = parse(hash, PANELS, { lang, theme: "light" });
  return { ...settle(chapter.panel, settings, chapter), told: false, guess: undefined, ...more };
}

/** { spec, data, markup } of the chapter's picture at the settings `s`. */
export function painted(id, s, width = 690) {
  const chapter = chapterOf(id);
  const data = chapter.panel.compute(s);
  const recorder = new Recorder();
  let spec = null;
  const paint = (_, given, painter) => {
    spec = given;
    painter(recorder, width, given.height, THEMES.light);
  };
  const stage = { width, page: { theme: "light", colors: THEMES.light }, paint, note() {} };
  chapter.draw(stage, data, s, speaker(s.lang, chapter.panel, chapter));
  return { spec, data, markup: recorder.markup };
}

/** The words in a picture. */
export const words = (markup) => [...markup.matchAll(/<text[^>]*>([^<]*)</g)].map(([, text]) => text);
