import { catalogue } from "#math/catalogue.js";
import { element } from "#core/dom.js";
import { GLOBALS } from "#core/globals.js";
import { speaker } from "#core/text.js";
import { used } from "#core/uses.js";
import { widget } from "#core/widgets.js";

/** The settings that all panels share; those that the panel shown does not read are greyed out. */
export function bar(store, refuse, open) {
  const { lang } = store.settings;
  const say = speaker(lang);
  const fields = GLOBALS.map((control) => {
    const words = { label: say(control.id), option: (name) => catalogue[name].label[lang], say };
    const to = { change: (value) => store.setShared(control.id, value), refuse };
    return { control, made: widget(control, control.id, words, to) };
  });
  const reset = element("button", {
    type: "button", id: "reset", title: say("reset_hint"), textContent: say("reset"),
    onclick: () => store.reset(),
  });
  function grey({ control, made }, unused) {
    if (made.element.classList.toggle("unused", unused) !== (made.element.title !== "")) {
      made.element.title = unused ? say("unused") : "";
      for (const input of made.element.querySelectorAll("input, select")) input.disabled = unused;
    }
  }
  return {
    element: element(
      "details",
      { class: "bar", id: "bar", open },
      element("summary", {}, say("shared")),
      element("div", { class: "fields" }, ...fields.map(({ made }) => made.element), reset),
    ),
    show(s) {
      const uses = used(store.panel, s);
      for (const field of fields) {
        field.made.show(s[field.control.id], s);
        grey(field, !uses.includes(field.control.id));
      }
    },
  };
}
