import { element } from "#core/dom.js";
import { exhibit } from "#core/exhibit.js";
import { follow } from "#core/list.js";
import { prediction } from "#core/prediction.js";
import { offered } from "#core/settings.js";
import { speaker } from "#core/text.js";
import { lessonLink, whole } from "#core/view.js";

/**
 * One chapter of the story: what is asked and told, one picture, its controls, and where it fails.
 *
 * A chapter is a value: the panel whose settings and numbers it shows, and in place of the panel's the
 * controls, draw, formula, symbols and text that it has of its own; byHand, settings that only the picture
 * changes; holds and options, see `settle`; predict, see `prediction`; edges, numbers for the sides of what
 * it gives to draw on; facts(say), a table { title, head, rows } below the answer. What it draws gets,
 * beside the settings, `guess` and `told`: what the reader said, and whether the answer may show.
 */
export function chapterView(store, chapter, number, refuse, lessons) {
  const { panel, id } = chapter;
  const { lang, embed } = store.settings;
  const say = speaker(lang, panel, chapter);
  const pageSay = speaker(lang);
  const title = say("title");
  const named = (key) => offered(panel.controls.find((control) => control.id === key), chapter);
  const settled = () => {
    const guess = store.guess(id);
    return { ...store.settled(panel, chapter), guess, told: guess !== undefined };
  };
  const address = (other = {}) => store.address({ panel: id, ...other });
  const shown = exhibit(
    store,
    {
      panel, say, title, settled, address,
      prefix: `${id}.`,
      controls: chapter.controls.map(named),
      draw: chapter.draw ?? panel.draw,
      formula: chapter.formula ?? panel.formula,
      symbols: chapter.symbols ?? panel.symbols,
    },
    refuse,
  );
  const predicted = prediction(store, chapter, say, pageSay);
  const workshop = element(
    "a",
    {
      class: "workshop", id: `${id}.workshop`, href: "#",
      onclick: (event) => follow(event, store, id, false, store.held(chapter)),
    },
    pageSay("in_workshop"),
  );
  const taken = element(
    "details",
    { class: "take" },
    element("summary", {}, pageSay("take")),
    shown.actions,
    shown.python,
  );
  // Where this chapter fails gives its answer away.
  const leads = embed
    ? whole(store, pageSay)
    : element("p", { class: "leads" }, element("strong", {}, say("fails")), " ", say("leads"));
  const picture = element(
    "div",
    { class: "picture" },
    shown.message,
    shown.stage,
    element("div", { class: "controls" }, ...shown.fields),
  );
  const facts = chapter.facts ? table(chapter.facts(say)) : null;
  const tag = embed ? "h1" : "h2";
  const box = element(
    "section",
    { class: "chapter", id: `chapter.${id}`, "aria-labelledby": `${id}.title` },
    element(
      "div",
      { class: "opening" },
      element(
        tag,
        { id: `${id}.title`, class: "title", tabindex: "-1" },
        embed ? null : element("span", { class: "number" }, String(number)),
        title,
      ),
      element("p", { class: "lead" }, say("lead")),
    ),
    // In a box as high as the words beside it, within which it stays in view.
    element("div", { class: "beside" }, picture),
    element(
      "div",
      { class: "talk" },
      predicted.element,
      shown.formula,
      embed ? null : element("p", { class: "more" }, lessonLink(panel, lang, pageSay, lessons), " ", workshop),
      embed ? null : taken,
    ),
    facts,
    leads,
  );
  let told = null;
  return {
    ...shown,
    id, element: box,
    show() {
      const s = settled();
      predicted.show(s);
      leads.classList.toggle("early", !s.told);
      if (facts) facts.hidden = !s.told;
      // Where the question stands below the picture, the answer would change what is out of sight.
      if (told === false && s.told) bring(picture);
      ({ told } = s);
      shown.show();
      workshop.setAttribute("href", address({ story: false, ...store.held(chapter) }));
    },
  };
}

/** Into view, where it is not yet, and at once for those who want nothing to move. */
function bring(node) {
  const calm = matchMedia("(prefers-reduced-motion: reduce)").matches;
  const block = node.offsetHeight > innerHeight ? "start" : "nearest";
  node.scrollIntoView({ block, behavior: calm ? "instant" : "smooth" });
}

function table({ title, head, rows }) {
  const row = (texts, tag) => element("tr", {}, ...texts.map((text) => element(tag, {}, text)));
  return element(
    "table",
    { class: "facts", hidden: true },
    element("caption", {}, title),
    element("thead", {}, row(head, "th")),
    element("tbody", {}, ...rows.map((texts) => row(texts, "td"))),
  );
}
