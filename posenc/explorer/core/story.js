import { chapterView } from "#core/chapter.js";
import { element } from "#core/dom.js";
import { follow } from "#core/list.js";
import { speaker } from "#core/text.js";

/** All chapters on one page. Those out of sight are drawn when there is time, or when they come near. */
export function story(store, chapters, refuse, lessons) {
  const { lang } = store.settings;
  const say = speaker(lang);
  const views = chapters.map((chapter, i) => chapterView(store, chapter, i + 1, refuse, lessons));
  const links = chapters.map((chapter, i) =>
    element(
      "a",
      {
        href: store.address({ panel: chapter.id }), id: `go.${chapter.id}`,
        title: titleOf(chapter, lang),
        onclick: (event) => follow(event, store, chapter.id, true),
      },
      element("span", { class: "number" }, String(i + 1)),
      element("span", { class: "name" }, titleOf(chapter, lang)),
    ),
  );
  const bar = element("ol", {}, ...links.map((link) => element("li", {}, link)));
  const near = new Set();
  const stale = new Set(views);
  let built = false;

  function draw(view) {
    stale.delete(view);
    view.show();
  }
  const byElement = new Map(views.map((view) => [view.element, view]));
  const approach = new IntersectionObserver(
    (entries) => {
      for (const { target, isIntersecting } of entries) {
        const view = byElement.get(target);
        if (!isIntersecting) near.delete(view);
        else {
          near.add(view);
          if (stale.has(view)) draw(view);
        }
      }
    },
    { rootMargin: "50% 0px" },
  );
  const middle = new IntersectionObserver(
    (entries) => {
      for (const { target, isIntersecting } of entries)
        if (isIntersecting) reached(byElement.get(target));
    },
    { rootMargin: "-35% 0px -60% 0px" },
  );
  const current = () => views.find(({ id }) => id === store.settings.panel) ?? views[0];
  function reached(view) {
    store.reach(view.id);
    mark();
  }
  function mark() {
    for (const link of links) {
      const reads = link.id === `go.${store.settings.panel}`;
      if (reads) link.setAttribute("aria-current", "true");
      else link.removeAttribute("aria-current");
    }
  }
  /** To the chapter that the address names, below all those that it stands under. */
  function go() {
    for (const view of views.slice(0, views.indexOf(current()) + 1))
      if (stale.has(view)) draw(view);
    if (built || current() !== views[0]) current().element.scrollIntoView();
    built = true;
    mark();
  }
  function idle() {
    const [next] = stale;
    if (!next || !next.element.isConnected) return;
    draw(next);
    soon(idle);
  }
  return {
    element: element(
      "div",
      { class: "story" },
      element(
        "nav",
        { class: "chapters", "aria-label": say("chapters") },
        bar,
      ),
      ...views.map((view) => view.element),
      workshop(store, say, lang),
    ),
    /** To be called once the page has it: scrolls to the chapter that the address names. */
    begin() {
      go();
      for (const view of views) {
        approach.observe(view.element);
        middle.observe(view.element);
      }
      soon(idle);
    },
    turn: go,
    show() {
      for (const view of views) stale.add(view);
      for (const view of near) draw(view);
    },
    /** Width of the column of pictures. */
    measure: () => views[0].element.querySelector(".picture").clientWidth,
    fit: (width) => views.forEach((view) => view.fit(width)),
    dress: (theme) => views.forEach((view) => view.dress(theme)),
    redraw: () => views.forEach((view) => view.redraw()),
    /** For paper, which shows everything at once. */
    complete: () => [...stale].forEach(draw),
    refresh() {
      chapters.forEach(({ id }, i) => links[i].setAttribute("href", store.address({ panel: id })));
    },
    leave() {
      approach.disconnect();
      middle.disconnect();
    },
  };
}

export const titleOf = (chapter, lang) => chapter.text[lang].title ?? chapter.panel.text[lang].title;

const soon = (what) =>
  window.requestIdleCallback ? requestIdleCallback(what, { timeout: 500 }) : setTimeout(what, 50);

/** The panels behind the story, each with what it asks. */
function workshop(store, say, lang) {
  const cards = store.panels.map((panel) =>
    element(
      "li",
      {},
      element(
        "a",
        {
          href: store.address({ panel: panel.id, story: false }),
          id: `to.${panel.id}`,
          onclick: (event) => follow(event, store, panel.id, false),
        },
        element("strong", {}, panel.text[lang].title),
        element("span", {}, panel.text[lang].question),
      ),
    ),
  );
  return element(
    "section",
    { class: "cards", id: "workshop", "aria-labelledby": "workshop.title" },
    element("h2", { id: "workshop.title" }, say("workshop")),
    element("p", { class: "lead" }, say("workshop_line")),
    element("ul", {}, ...cards),
  );
}
