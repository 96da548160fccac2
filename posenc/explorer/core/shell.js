import { announce } from "#core/announce.js";
import { bar } from "#core/bar.js";
import { chapterView } from "#core/chapter.js";
import { element } from "#core/dom.js";
import { elsewhere } from "#core/elsewhere.js";
import { follow, list } from "#core/list.js";
import { createStore } from "#core/store.js";
import { story } from "#core/story.js";
import { speaker } from "#core/text.js";
import { view } from "#core/view.js";

const MOST_PROBLEMS = 4;
// Of a sheet of A4 less the margins that browsers leave, in CSS pixels.
const PAPER = 690;
const NARROW = matchMedia("(max-width: 760px)");

/** Put the page together, the story or a panel of the workshop, and keep it in step with its settings. */
export function start(panels, chapters, root) {
  const preferred = {
    lang: /^zh\b/i.test(navigator.language) ? "zh" : "en",
    theme: matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light",
  };
  const lessons = document.querySelector('meta[name="posenc:lessons"]')?.content ?? "";
  const store = createStore(panels, preferred);
  let parts = null;
  let asked = null;
  let refused = null;
  let built = null;
  let at = null;
  let width = 0;

  const refuse = (name, given, allowed) => {
    refused = { name, given: given.slice(0, 40), allowed };
    problems();
  };
  function problems() {
    const say = speaker(store.settings.lang);
    const found = store.problems.map(({ key, values }) => say(key, values));
    if (refused) found.push(say("not_allowed", refused));
    const shown = found.slice(0, MOST_PROBLEMS);
    if (found.length > shown.length)
      shown.push(say("more_problems", { count: found.length - shown.length }));
    const close = element("button", {
      type: "button", id: "dismiss", textContent: say("dismiss"),
      onclick: () => {
        refused = null;
        store.dismiss();
        problems();
      },
    });
    parts.problems.hidden = !found.length;
    parts.problems.replaceChildren(
      element("ul", {}, ...shown.map((text) => element("li", {}, text))),
      close,
    );
  }

  function build() {
    const { lang, theme, embed } = store.settings;
    const say = speaker(lang);
    const focused = document.activeElement?.id;
    const chapter = chapters.find(({ id }) => id === store.settings.panel);
    const told = embed ? "chapter" : "story";
    const shows = store.settings.story && chapter ? told : "panel";
    document.documentElement.lang = lang === "zh" ? "zh-CN" : "en";
    document.documentElement.dataset.theme = theme;
    document.documentElement.dataset.shows = shows;
    document.documentElement.classList.toggle("embed", embed);
    const title = shows === "story" ? say("page") : store.panel.text[lang].title;
    document.title = `${title} · posenc`;
    const begun = JSON.stringify([shows, lang, theme]);
    // Another chapter of a page that stands is only a way to go.
    if (shows === "story" && begun === built) return parts.view.turn();
    const place = () => document.getElementById(`chapter.${chapter?.id}`)?.getBoundingClientRect().top;
    const seen = shows === "story" ? place() : undefined;
    parts?.view.leave?.();
    parts = {
      problems: element("div", { class: "problems", id: "problems", role: "alert", hidden: true }),
      ...MAKE[shows](store, chapters, chapter, refuse, lessons),
    };
    const main = element("main", { id: "main" }, parts.bar?.element, parts.problems, parts.view.element);
    const body = parts.list ? element("div", { class: "columns" }, parts.list.element, main) : main;
    root.replaceChildren(...(embed ? [] : head(store, say, lessons, shows)), body);
    width = inside();
    parts.view.fit(width);
    const now = `${shows} ${store.panel.id}`;
    const moved = at !== null && at !== now;
    [at, built] = [now, begun];
    if (moved && !embed) window.scrollTo(0, 0);
    parts.view.begin?.();
    // In another language or theme one reads on at the same place.
    if (seen !== undefined) {
      parts.view.complete();
      window.scrollBy(0, place() - seen);
    }
    // Who stepped on by keyboard goes on reading at the new title; all others stay where they are.
    const stepped = moved && ["next", "previous"].includes(focused);
    if (focused)
      document.getElementById(stepped ? "title" : focused)?.focus({ preventScroll: true });
    observer.disconnect();
    observer.observe(main);
  }
  function show() {
    parts.bar?.show(store.settled());
    parts.view.show();
    problems();
  }
  function draw() {
    const what = asked;
    asked = null;
    if (what === "all") build();
    show();
    performance.mark("posenc:drawn");
    // The links are no part of the picture, and the address is written late as well.
    setTimeout(refresh, 0);
  }
  const refresh = () => (parts.list ?? parts.view).refresh?.();
  /** The width that a stage has. */
  const inside = () => parts.view.measure?.() ?? innerWidth(document.getElementById("main"));
  const observer = new ResizeObserver(() => {
    const now = inside();
    if (Math.abs(now - width) < 1) return;
    width = now;
    parts.view.fit(now);
    parts.view.redraw();
  });
  store.listen((what) => {
    refused = null;
    if (asked === null) requestAnimationFrame(draw);
    asked = what === "all" || asked === "all" ? "all" : "values";
  });
  function dress(theme, wide) {
    document.documentElement.dataset.theme = theme;
    parts.view.dress(theme);
    parts.view.fit(wide);
    parts.view.redraw();
  }
  // Paper is light, and no wider than it is.
  window.addEventListener("beforeprint", () => {
    parts.view.complete?.();
    dress("light", PAPER);
  });
  window.addEventListener("afterprint", () => dress(store.settings.theme, width));
  // Narrow pages fold their lists, wide ones show them.
  NARROW.addEventListener("change", () => {
    if (!parts.list) return;
    parts.bar.element.open = !NARROW.matches;
    parts.list.element.querySelector("details").open = !NARROW.matches;
  });
  build();
  show();
  performance.mark("posenc:first");
  announce(root);
}

/** What each kind of page has: the view, and around a panel the shared settings and the list. */
const MAKE = {
  story: (store, chapters, _, refuse, lessons) => ({ view: story(store, chapters, refuse, lessons) }),
  chapter: (store, chapters, chapter, refuse, lessons) => ({
    view: chapterView(store, chapter, chapters.indexOf(chapter) + 1, refuse, lessons),
  }),
  panel: (store, _, __, refuse, lessons) => {
    const { embed } = store.settings;
    return {
      ...(embed ? {} : { list: list(store, !NARROW.matches) }),
      bar: bar(store, refuse, !NARROW.matches && !embed),
      view: view(store, refuse, lessons),
    };
  },
};

function head(store, say, lessons, shows) {
  const { lang, theme } = store.settings;
  const switches = element(
    "div",
    { class: "switches" },
    element("button", {
      type: "button",
      id: "lang",
      lang: lang === "zh" ? "en" : "zh-CN",
      textContent: say("other_language"),
      onclick: () => store.dress({ lang: lang === "zh" ? "en" : "zh" }),
    }),
    element("button", {
      type: "button",
      id: "theme",
      textContent: say(theme === "dark" ? "to_light" : "to_dark"),
      onclick: () => store.dress({ theme: theme === "dark" ? "light" : "dark" }),
    }),
  );
  const links = elsewhere(lessons, lang).map(([key, href]) => element("a", { href }, say(key)));
  const skip = element(
    "a",
    {
      class: "skip",
      href: "#title",
      onclick: (event) => {
        event.preventDefault();
        document.querySelector("#title, .title").focus();
      },
    },
    say("skip"),
  );
  const told = shows === "story";
  const other = element(
    "a",
    {
      id: "other", href: store.address({ story: !told }),
      onclick: (event) => follow(event, store, store.settings.panel, !told),
    },
    say(told ? "workshop" : "story"),
  );
  const title = element("h1", {}, element("span", { class: "name" }, "posenc"), " ", say("page"));
  return [skip, element("header", {}, title, element("p", {}, say("page_line")), other, ...links, switches)];
}

function innerWidth(main) {
  const style = getComputedStyle(main);
  return (
    main.clientWidth - Number.parseFloat(style.paddingLeft) - Number.parseFloat(style.paddingRight)
  );
}
