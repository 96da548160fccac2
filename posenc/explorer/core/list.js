import { element } from "#core/dom.js";
import { speaker } from "#core/text.js";

/** The list of panels, each a link that keeps all settings. */
export function list(store, open) {
  const say = speaker(store.settings.lang);
  const { lang, panel } = store.settings;
  const links = store.panels.map((each) =>
    element(
      "a",
      {
        href: store.address({ panel: each.id, story: false }), id: `to.${each.id}`,
        "aria-current": each.id === panel ? "page" : null,
        onclick: (event) => follow(event, store, each.id, false),
      },
      each.text[lang].title,
    ),
  );
  return {
    element: element(
      "nav",
      { "aria-label": say("panels") },
      element(
        "details",
        { open },
        element("summary", {}, say("panels")),
        element("ol", {}, ...links.map((link) => element("li", {}, link))),
      ),
    ),
    /** Links opened elsewhere take the settings of now along. */
    refresh() {
      store.panels.forEach((each, i) =>
        links[i].setAttribute("href", store.address({ panel: each.id, story: false })),
      );
    },
  };
}

/** Go to a panel or chapter without loading the page again; other clicks (a new tab) stay the browser's. */
export function follow(event, store, id, story, changes) {
  if (event.ctrlKey || event.metaKey || event.shiftKey || event.button) return;
  event.preventDefault();
  store.show(id, story, changes);
}
