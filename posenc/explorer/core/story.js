import { chapterView } from "#core/chapter.js";
import { element } from "#core/dom.js";
import { follow } from "#core/list.js";
import { speaker } from "#core/text.js";

/**
 * All chapters on one page. The first picture does not wait for those below it: they are built after it,
 * and drawn when there is time, or when they come near.
 */
export function story(store, chapters, refuse, lessons) {
  const { lang } = store.settings;
  const say = speaker(lang);
  const views = [];
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
  const stale = new Set();
  let width = 0;
  let built = false;

  function draw(view) {
    stale.delete(view);
    view.show();
  }
  const byElement = new Map();
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
  const cards = workshop(store, say, lang);
  const box = element(
    "div",
    { class: "story" },
    element("nav", { class: "chapters", "aria-label": say("chapters") }, bar),
  );
  /** As many chapters as that, and the workshop behind the last. */
  function build(count) {
    while (views.length < count) {
      const view = chapterView(store, chapters[views.length], views.length + 1, refuse, lessons);
      views.push(view);
      stale.add(view);
      byElement.set(view.element, view);
      box.append(view.element);
      if (width) view.fit(width);
      approach.observe(view.element);
      middle.observe(view.element);
    }
    if (views.length === chapters.length) box.append(cards);
  }
  function rest() {
    if (!box.isConnected) return;
    if (views.length === chapters.length) return soon(idle);
    build(views.length + 1);
    setTimeout(rest, 0);
  }
  const current = () => Math.max(0, chapters.findIndex(({ id }) => id === store.settings.panel));
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
    const at = current();
    // It comes to the top only where the page goes on below it.
    build(at > 0 ? chapters.length : 1);
    for (const view of views.slice(0, at + 1)) if (stale.has(view)) draw(view);
    if (built || at > 0) views[at].element.scrollIntoView();
    built = true;
    mark();
  }
  function idle() {
    const [next] = stale;
    if (!next || !next.element.isConnected) return;
    draw(next);
    soon(idle);
  }
  build(1);
  return {
    element: box,
    /** To be called once the page has it: scrolls to the chapter that the address names. */
    begin() {
      go();
      setTimeout(rest, 0);
    },
    turn: go,
    show() {
      for (const view of views) stale.add(view);
      for (const view of near) draw(view);
    },
    /** Width of the column of pictures. */
    measure: () => views[0].element.querySelector(".picture").clientWidth,
    fit(wide) {
      width = wide;
      for (const view of views) view.fit(wide);
    },
    dress: (theme) => views.forEach((view) => view.dress(theme)),
    redraw: () => views.forEach((view) => view.redraw()),
    /** For paper, which shows everything at once. */
    complete() {
      build(chapters.length);
      [...stale].forEach(draw);
    },
    refresh() {
      chapters.forEach(({ id }, i) => links[i].setAttribute("href", store.address({ panel: id })));
    },
    leave() {
      approach.disconnect();
      middle.disconnect();
      views.forEach((view) => view.leave());
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
