import { csv } from "#core/csv.js";
import { element } from "#core/dom.js";
import { UserError } from "#core/errors.js";
import { mathml } from "#core/mathml.js";
import { THEMES } from "#core/palette.js";
import { escape } from "#core/recorder.js";
import { copy, download } from "#core/save.js";
import { Stage } from "#core/stage.js";
import { svg } from "#core/svg.js";
import { speaker } from "#core/text.js";
import { widget } from "#core/widgets.js";
import { wordIn } from "#formulas/words.js";

/**
 * What the workshop and the story share of a panel: the stage that it draws on, its controls, its
 * formula, and what can be taken along, each an element for the page to place.
 *
 * `shown` has the panel, the controls to offer, draw, formula, symbols(s, data), the names of texts that say
 * what a formula's signs mean, say, title, the text that ids begin with, settled() and address().
 */
export function exhibit(store, shown, refuse) {
  const { panel, say, prefix } = shown;
  const { lang, theme } = store.settings;
  const pageSay = speaker(lang);
  let s = shown.settled();
  let data = null;

  const change = (id, value) => store.setOwn(id, value, panel.id);
  const page = {
    colors: THEMES[theme], theme, lang, say: pageSay,
    // What a hand holds does not move by itself.
    change(id, value) {
      store.player.stop();
      change(id, value);
    },
    own: (id) => ({
      control: panel.controls.find((control) => control.id === id),
      value: s[id],
      s,
    }),
  };
  const stage = new Stage(page, 600, `${prefix}stage`);
  const fields = shown.controls.map((control) => {
    const words = {
      label: say(control.id),
      hint: panel.text[lang][`${control.id}_hint`] ?? null,
      option: (name) => say(name),
      say: pageSay,
    };
    const to = { change: (value) => change(control.id, value), refuse, player: store.player };
    return { control, made: widget(control, `${panel.id}.${control.id}`, words, to) };
  });
  const message = element("p", { class: "message", role: "alert", hidden: true });
  const code = element("code");
  const status = element("span", { class: "status", role: "status" });

  const button = (key, onclick) =>
    element("button", { type: "button", id: prefix + key, textContent: pageSay(key), onclick });
  const tell = (done) => (status.textContent = pageSay(done ? "copied" : "not_copied"));
  const python = element(
    "details",
    { class: "python", ontoggle: () => writeCode() },
    element("summary", {}, pageSay("as_python")),
    element("pre", {}, code),
  );
  const saved = (kind, text, type) => button(`save_${kind}`, () => {
    if (data !== null) download(`posenc-${panel.id}.${kind}`, text(), type);
  });
  const files = [
    saved("svg", () => svg(stage, shown.title, shown.address()), "image/svg+xml"),
    saved("csv", () => csv(panel.table(data, s)), "text/csv"),
  ];
  const actions = element(
    "div",
    { class: "actions", role: "group", "aria-label": pageSay("take") },
    button("copy_python", async () => {
      const done = await copy(pythonOf(panel, s));
      if (!done) python.open = true;
      tell(done);
    }),
    button("copy_link", async () => tell(await copy(location.href.split("#")[0] + shown.address()))),
    ...files,
    status,
  );
  const formula = element("div", {
    class: "formula",
    role: "group",
    "aria-label": pageSay("formula"),
  });

  let written = "";
  /** What is computed, as the settings have it; `data` is null where they cannot be used. */
  function writeFormula() {
    const given = shown.formula;
    const rows = typeof given === "function" ? given(s, data) : given;
    const markup = rows
      .map((row) => `<div>${row.map((line) => mathml(line, wordIn(lang))).join("")}</div>`)
      .join("");
    const signs = (shown.symbols?.(s, data) ?? []).map((key) => say(key)).join(" ");
    const all = signs ? `${markup}<p class="signs">${withSubscripts(escape(signs))}</p>` : markup;
    if (all !== written) formula.innerHTML = written = all;
    formula.hidden = !rows.flat().length;
  }
  /** Some panels compute to write their code: it is written when somebody can read it. */
  function writeCode() {
    if (python.open) code.textContent = pythonOf(panel, s);
  }
  function redraw() {
    stage.begin();
    shown.draw(stage, data, s, say);
    stage.end();
  }
  return {
    fields: fields.map(({ made }) => made.element),
    message, stage: stage.element, formula, actions, python,
    /** Colours for what is drawn next. */
    dress(other) {
      Object.assign(page, { theme: other, colors: THEMES[other] });
    },
    fit(width) {
      stage.width = width;
    },
    redraw() {
      if (data !== null) redraw();
    },
    /** Pictures listen to the window, which would keep them and all that they stand in. */
    leave() {
      data = null;
      stage.clear();
    },
    show() {
      s = shown.settled();
      for (const { control, made } of fields) {
        made.show(s[control.id], s);
        made.element.hidden = control.show ? !control.show(s) : false;
      }
      status.textContent = "";
      try {
        data = panel.compute(s);
        redraw();
        message.hidden = true;
      } catch (error) {
        data = null;
        stage.clear();
        message.textContent = explained(error, say);
        message.hidden = false;
        if (!(error instanceof UserError)) console.error(error);
      }
      writeFormula();
      writeCode();
      for (const file of files) file.disabled = data === null;
    },
  };
}

/** h_i as formulas have it. */
const withSubscripts = (text) => text.replace(/(\p{L}+)_(\p{L})/gu, "<i>$1</i><sub>$2</sub>");

function explained(error, say) {
  if (error instanceof UserError) return say(error.key, error.values);
  return say("broken", { message: String(error.message ?? error) });
}

function pythonOf(panel, s) {
  try {
    return panel.python(s);
  } catch (error) {
    // Settings that compute refuses may leave nothing to write either.
    if (error instanceof UserError) return "";
    throw error;
  }
}
