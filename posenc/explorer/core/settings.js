import { clamped, limits, read, span, write } from "#core/controls.js";
import { GLOBALS } from "#core/globals.js";

const LANGUAGES = ["en", "zh"];
/** The position that is lit in all pictures of the story, until somebody chooses another. */
const LIT = { id: "at", kind: "range", min: 0, max: 16_383, step: 1, value: 7 };
/** Of a language and its country, zh-CN or en_GB, the language. */
const spoken = (tag) => tag.toLowerCase().split(/[-_]/)[0];
const COLOURS = ["light", "dark"];
// What the address shows of a value that it got wrong is cut: it could be of any length.
const shown = (text) => (text.length > 40 ? `${text.slice(0, 40)}…` : text);

/**
 * All settings as they begin: the panel shown, in the story or in the workshop, the position that is
 * lit, the shared settings, and each panel's own.
 */
export function defaults(panels, preferred) {
  return {
    panel: panels[0].id,
    story: true,
    at: null,
    lang: preferred.lang,
    theme: preferred.theme,
    embed: false,
    shared: Object.fromEntries(GLOBALS.map((control) => [control.id, control.value])),
    own: new Map(panels.map((panel) => [panel.id, initial(panel)])),
  };
}

/** A panel's own settings as they begin. */
export function initial(panel) {
  return Object.fromEntries(panel.controls.map((control) => [control.id, control.value]));
}

/**
 * What a panel's compute, draw and python get: shared and own settings, each within its limits.
 *
 * A chapter has a lit position, and only the settings that it offers are the reader's: all others are
 * what it `holds`, or as they begin, so that its answer stays true. Of a select it may offer fewer
 * `options`. `follows`: whether a chapter that begins at a position of its own has gone on to the lit one.
 */
export function settle(panel, settings, chapter = null, follows = settings.at !== null) {
  const s = { lang: settings.lang, theme: settings.theme };
  const at = chapter && !follows && "at" in chapter.predict ? null : settings.at;
  const kept = (control, given) => {
    if (!chapter || chapter.controls.includes(control.id) || chapter.byHand?.includes(control.id)) return given;
    return chapter.holds?.[control.id] ?? control.value;
  };
  for (const control of GLOBALS)
    s[control.id] = clamped(control, kept(control, settings.shared[control.id]), s);
  const own = settings.own.get(panel.id);
  for (const control of panel.controls) {
    const given = control.id === panel.light ? lit(control, at, chapter, s) : null;
    s[control.id] = clamped(offered(control, chapter), given ?? kept(control, own[control.id]), s);
  }
  return s;
}

/** The position that is lit: a chapter that does not reach so far stands where it begins, and not at its end. */
function lit(control, at, chapter, s) {
  if (!chapter) return at;
  return at === null || at > limits(control, s).max ? (chapter.predict.at ?? LIT.value) : at;
}

/** A panel's control as a chapter offers it. */
export function offered(control, chapter) {
  const options = chapter?.options?.[control.id];
  return options ? { ...control, options } : control;
}

/**
 * The settings in a URL hash, and a list of what could not be used, each { key, values } of a text.
 * Nothing in the hash can make this throw.
 */
export function parse(hash, panels, preferred) {
  const settings = defaults(panels, preferred);
  const problems = [];
  const entries = [...pairs(hash, problems)];
  const problem = (key, values) => problems.push({ key, values });

  const choose = (name, text, allowed) => {
    if (allowed.includes(text)) settings[name] = text;
    else
      problem("bad_value", {
        name,
        given: shown(text),
        allowed: allowed.join(", "),
        used: settings[name],
      });
  };
  const ids = panels.map((panel) => panel.id);
  for (const [name, text] of entries) {
    // A link is as short as it can be: #circle.
    if (text === "" && ids.includes(name)) settings.panel = name;
    else if (name === "panel") {
      choose(name, text, ids);
      settings.story = false;
    } else if (name === LIT.id) settings.at = position(text, problem);
    else if (name === "lang") choose(name, LANGUAGES.includes(spoken(text)) ? spoken(text) : text, LANGUAGES);
    else if (name === "theme") choose(name, text, COLOURS);
    else if (name === "embed") settings.embed = text === "1";
    else if (!known(name, panels)) problem("unknown_setting", { name: shown(name) });
  }
  const values = new Map(entries);
  const take = (control, name, held, s) => {
    if (values.has(name)) {
      const text = values.get(name);
      const value = read(control, text, s);
      const used = clamped(control, value ?? control.value, s);
      if (value === undefined || (control.kind === "range" && used !== value)) {
        problem("bad_value", {
          name,
          given: shown(text),
          allowed: span(control, s),
          used: shown(write(control, used)),
        });
      }
      held[control.id] = used;
    }
    s[control.id] = clamped(control, held[control.id], s);
  };
  const shared = { lang: settings.lang, theme: settings.theme };
  for (const control of GLOBALS) take(control, control.id, settings.shared, shared);
  for (const panel of panels) {
    const s = { ...shared };
    const own = settings.own.get(panel.id);
    for (const control of panel.controls) take(control, `${panel.id}.${control.id}`, own, s);
  }
  return { settings, problems };
}

/** The hash that `parse` reads back: the chapter or the panel, and whatever is not as it began. */
export function hash(settings, panels, preferred) {
  const parts = [];
  if (settings.lang !== preferred.lang) parts.push(["lang", settings.lang]);
  if (settings.theme !== preferred.theme) parts.push(["theme", settings.theme]);
  if (settings.embed) parts.push(["embed", "1"]);
  if (settings.at !== null) parts.push([LIT.id, String(settings.at)]);
  const add = (control, name, value) => {
    const text = write(control, value);
    if (text !== write(control, control.value)) parts.push([name, text]);
  };
  for (const control of GLOBALS) add(control, control.id, settings.shared[control.id]);
  for (const panel of panels) {
    const own = settings.own.get(panel.id);
    for (const control of panel.controls) {
      // Where a position is lit everywhere, the panel's own is never asked.
      if (settings.at !== null && control.id === panel.light) continue;
      add(control, `${panel.id}.${control.id}`, own[control.id]);
    }
  }
  const shown = settings.story ? settings.panel : `panel=${settings.panel}`;
  return `#${[shown, ...parts.map(([name, text]) => `${name}=${encodeURIComponent(text)}`)].join("&")}`;
}

function position(text, problem) {
  const value = read(LIT, text, {});
  if (value !== undefined && clamped(LIT, value, {}) === value) return value;
  problem("bad_value", {
    name: LIT.id, given: shown(text), allowed: span(LIT, {}), used: LIT.value,
  });
  return null;
}

function* pairs(hash, problems) {
  for (const part of hash.replace(/^#/, "").split("&").slice(0, 500)) {
    if (!part) continue;
    const at = part.indexOf("=");
    try {
      yield at < 0
        ? [decodeURIComponent(part), ""]
        : [decodeURIComponent(part.slice(0, at)), decodeURIComponent(part.slice(at + 1))];
    } catch {
      problems.push({ key: "bad_escape", values: { given: shown(part) } });
    }
  }
}

function known(name, panels) {
  if (GLOBALS.some((control) => control.id === name)) return true;
  return panels.some((panel) =>
    panel.controls.some((control) => name === `${panel.id}.${control.id}`),
  );
}
