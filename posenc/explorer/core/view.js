import { csv } from "#core/csv.js";
import { element } from "#core/dom.js";
import { addressOf } from "#core/elsewhere.js";
import { UserError } from "#core/errors.js";
import { follow } from "#core/list.js";
import { mathml } from "#core/mathml.js";
import { THEMES } from "#core/palette.js";
import { copy, download } from "#core/save.js";
import { Stage } from "#core/stage.js";
import { svg } from "#core/svg.js";
import { speaker } from "#core/text.js";
import { widget } from "#core/widgets.js";
import { wordIn } from "#formulas/words.js";

/** One panel on the page: its texts, its controls, its stage, and what can be taken from it. */
export function view(store, refuse, lessons) {
  const { panel } = store;
  const { lang, theme, embed } = store.settings;
  const say = speaker(lang, panel);
  const pageSay = speaker(lang);
  const title = say("title");
  let s = store.settled();
  let data = null;

  const page = {
    colors: THEMES[theme], theme, lang, say: pageSay,
    own: (id) => ({
      control: panel.controls.find((control) => control.id === id),
      value: s[id],
      s,
    }),
    change: (id, value) => store.setOwn(id, value),
  };
  const stage = new Stage(page, 600);
  const fields = panel.controls.map((control) => {
    const words = {
      label: say(control.id),
      hint: panel.text[lang][`${control.id}_hint`] ?? null,
      option: (name) => say(name),
      say: pageSay,
    };
    const to = { change: (value) => store.setOwn(control.id, value), refuse };
    return { control, made: widget(control, `${panel.id}.${control.id}`, words, to) };
  });
  const message = element("p", { class: "message", role: "alert", hidden: true });
  const code = element("code");
  const status = element("span", { class: "status", role: "status" });

  const button = (key, onclick) =>
    element("button", { type: "button", id: key, textContent: pageSay(key), onclick });
  const tell = (done) => (status.textContent = pageSay(done ? "copied" : "not_copied"));
  const python = element(
    "details",
    { class: "python", ontoggle: () => writeCode() },
    element("summary", {}, pageSay("as_python")),
    element("pre", {}, code),
  );
  const actions = element(
    "div",
    { class: "actions", role: "group", "aria-label": pageSay("take") },
    button("copy_python", async () => {
      const done = await copy(pythonOf(panel, s));
      if (!done) python.open = true;
      tell(done);
    }),
    button("copy_link", async () =>
      tell(await copy(location.href.split("#")[0] + store.address())),
    ),
    button(
      "save_svg",
      () =>
        data !== null &&
        download(`posenc-${panel.id}.svg`, svg(stage, title, store.address()), "image/svg+xml"),
    ),
    button(
      "save_csv",
      () =>
        data !== null && download(`posenc-${panel.id}.csv`, csv(panel.table(data, s)), "text/csv"),
    ),
    status,
  );
  const formula = element("div", {
    class: "formula",
    role: "group",
    "aria-label": pageSay("formula"),
  });

  const number = store.panels.indexOf(panel) + 1;
  const box = element(
    "article",
    { "aria-labelledby": "title" },
    element("h2", { id: "title", tabindex: "-1" }, embed ? title : `${number}. ${title}`),
    element(
      "section",
      { class: "predict" },
      element(
        "p",
        { class: "question" },
        element("strong", {}, pageSay("predict")),
        " ",
        say("question"),
      ),
      element(
        "details",
        { class: "answer" },
        element("summary", {}, pageSay("see_answer")),
        element("p", {}, say("answer")),
        panel.text[lang].more && element("p", { class: "more" }, say("more")),
      ),
    ),
    element("div", { class: "controls" }, ...fields.map(({ made }) => made.element)),
    message,
    stage.element,
    formula,
    actions,
    python,
    embed ? whole(store, pageSay) : further(store, pageSay, lessons),
  );

  let written = "";
  /** What is computed, as the settings have it; `data` is null where they cannot be used. */
  function writeFormula() {
    const rows = typeof panel.formula === "function" ? panel.formula(s, data) : panel.formula;
    const markup = rows
      .map((row) => `<div>${row.map((line) => mathml(line, wordIn(lang))).join("")}</div>`)
      .join("");
    if (markup !== written) formula.innerHTML = written = markup;
    formula.hidden = !rows.flat().length;
  }
  /** Some panels compute to write their code: it is written when somebody can read it. */
  function writeCode() {
    if (python.open) code.textContent = pythonOf(panel, s);
  }
  function redraw() {
    stage.begin();
    panel.draw(stage, data, s, say);
    stage.end();
  }
  return {
    element: box,
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
    show() {
      s = store.settled();
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
      for (const action of ["save_svg", "save_csv"])
        actions.querySelector(`#${action}`).disabled = data === null;
    },
  };
}

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

/** The lesson, and the panels beside this one. */
function further(store, say, lessons) {
  const { panel, panels } = store;
  const { lang } = store.settings;
  const at = panels.indexOf(panel);
  const step = (key, other) =>
    other &&
    element(
      "a",
      {
        href: store.address({ panel: other.id }),
        id: key,
        onclick: (event) => follow(event, store, other.id),
      },
      say(key, { title: other.text[lang].title }),
    );
  const path = `docs/${lang}/${panel.lesson}.md`;
  const lesson = lessons
    ? element(
        "a",
        { class: "lesson", href: addressOf(lessons, lang, panel.lesson) },
        say("lesson"),
      )
    : element("span", { class: "lesson" }, say("lesson_at", { path }));
  return element(
    "footer",
    {},
    lesson,
    step("previous", panels[at - 1]),
    step("next", panels[at + 1]),
  );
}

/** Inside another page: the way to the whole explorer, with the settings of now. */
function whole(store, say) {
  const link = element(
    "a",
    { target: "_blank", rel: "noopener", id: "whole", href: "#" },
    say("open_whole"),
  );
  const aim = () =>
    link.setAttribute("href", location.href.split("#")[0] + store.address({ embed: false }));
  for (const event of ["pointerdown", "focus"]) link.addEventListener(event, aim);
  return element("footer", {}, link);
}
