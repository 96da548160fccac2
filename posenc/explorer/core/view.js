import { element } from "#core/dom.js";
import { addressOf } from "#core/elsewhere.js";
import { exhibit } from "#core/exhibit.js";
import { follow } from "#core/list.js";
import { speaker } from "#core/text.js";

/** One panel in the workshop: its texts, all its controls, its stage, and what can be taken from it. */
export function view(store, refuse, lessons) {
  const { panel } = store;
  const { lang, embed } = store.settings;
  const say = speaker(lang, panel);
  const pageSay = speaker(lang);
  const title = say("title");
  const { draw, formula, symbols, controls } = panel;
  const settled = () => store.settled();
  const shown = exhibit(
    store,
    { panel, controls, draw, formula, symbols, say, title, prefix: "", settled, address: store.address },
    refuse,
  );
  const box = element(
    "article",
    { "aria-labelledby": "title" },
    element("h2", { id: "title", tabindex: "-1" }, title),
    element(
      "section",
      { class: "predict" },
      element(
        "p",
        { class: "question" },
        element("strong", {}, pageSay("question_of")),
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
    element("div", { class: "controls" }, ...shown.fields),
    shown.message,
    shown.stage,
    shown.formula,
    shown.actions,
    shown.python,
    embed ? whole(store, pageSay) : further(store, pageSay, lessons),
  );
  return { ...shown, element: box };
}

/** The lesson, or where it is. */
export function lessonLink(panel, lang, say, lessons) {
  return lessons
    ? element("a", { class: "lesson", href: addressOf(lessons, lang, panel.lesson) }, say("lesson"))
    : element("span", { class: "lesson" }, say("lesson_at", { path: `docs/${lang}/${panel.lesson}.md` }));
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
  return element(
    "footer",
    {},
    lessonLink(panel, lang, say, lessons),
    step("previous", panels[at - 1]),
    step("next", panels[at + 1]),
  );
}

/** Inside another page: the way to the whole explorer, with the settings of now. */
export function whole(store, say) {
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
