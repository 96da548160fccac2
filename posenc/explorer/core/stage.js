import { curves } from "#core/curves.js";
import { element } from "#core/dom.js";
import { heatmap } from "#core/heatmap.js";
import { short } from "#core/numbers.js";
import { paint } from "#core/paint.js";

const GAP = 16;
const TWO_BESIDE = 680;
const LEAST = 160;

/**
 * Where a panel draws. The same calls in the same order at each draw reuse their elements, so that a
 * slider changes pixels and not the page; other calls replace what stands there.
 *
 * `page` has what drawings share: colors, theme, lang, say, own(id), change(id, value).
 */
export class Stage {
  #page;
  #items = [];
  #next = 0;
  #width;

  constructor(page, width, id) {
    this.#page = page;
    this.#width = width;
    this.element = element("div", { class: "stage", id });
  }

  /** Width in CSS pixels; measured by the caller once per change of the window, never per draw. */
  set width(width) {
    this.#width = width;
  }

  get width() {
    return this.#width;
  }

  get page() {
    return this.#page;
  }

  begin() {
    this.#next = 0;
  }

  end() {
    for (const gone of this.#items.splice(this.#next)) remove(gone);
  }

  clear() {
    this.begin();
    this.end();
  }

  curves(name, spec) {
    this.#item("curves", name, curves).update(spec, this.#wide(spec));
  }

  heatmap(name, spec) {
    this.#item("heatmap", name, heatmap).update(spec, this.#wide(spec));
  }

  paint(name, spec, painter) {
    this.#item("paint", name, paint).update(spec, this.#wide(spec), painter);
  }

  note(text) {
    this.#item("note", "", note).update(text);
  }

  table(head, rows) {
    this.#item("table", "", table).update(head, rows);
  }

  verdicts(found) {
    this.#item("verdicts", "", verdicts).update(found);
  }

  /** What stands on the stage, from top to bottom, for the SVG export. */
  get items() {
    return this.#items.map(({ item }) => item);
  }

  #wide(spec) {
    const half = spec.half && this.#width >= TWO_BESIDE;
    // A frame that is not shown, or not yet, has no width, and pictures have margins.
    return Math.max(LEAST, Math.floor(half ? (this.#width - GAP) / 2 : this.#width));
  }

  #item(kind, name, create) {
    const key = `${kind} ${name}`;
    const place = this.#next;
    this.#next += 1;
    if (this.#items[place]?.key === key) return this.#items[place].item;
    const item = create(this.#page);
    for (const gone of this.#items.splice(place, 1, { key, item })) remove(gone);
    const after = this.#items[place + 1]?.item.element ?? null;
    this.element.insertBefore(item.element, after);
    return item;
  }
}

function remove({ item }) {
  item.destroy?.();
  item.element.remove();
}

function note() {
  const line = element("p", { class: "note" });
  return {
    element: line,
    update(text) {
      if (line.textContent !== text) line.textContent = text;
    },
    lines: () => [line.textContent],
  };
}

function table() {
  const body = element("table");
  let lines = [];
  return {
    element: element("div", { class: "table", tabindex: "0" }, body),
    update(head, rows) {
      const cells = [head, ...rows].map((row) => row.map(short));
      const row = (texts, tag) => element("tr", {}, ...texts.map((text) => element(tag, {}, text)));
      body.replaceChildren(
        element("thead", {}, row(cells[0], "th")),
        element("tbody", {}, ...cells.slice(1).map((texts) => row(texts, "td"))),
      );
      lines = cells.map((texts) => texts.join(" | "));
    },
    lines: () => lines,
  };
}

function verdicts(page) {
  const list = element("ul", { class: "verdicts" });
  let lines = [];
  return {
    element: list,
    update(found) {
      const rows = found.map(({ label, passed, value }) => {
        const [mark, word] = {
          true: ["✓", "passed"],
          false: ["✗", "failed"],
          null: ["–", "unknown"],
        }[passed];
        const shown = value === undefined || value === null ? "" : short(value);
        return { mark, word, label, shown, kind: typeof value === "number" ? "value number" : "value" };
      });
      list.replaceChildren(
        ...rows.map(({ mark, word, label, shown, kind }) =>
          element(
            "li",
            { class: word },
            element("span", { class: "mark", "aria-hidden": "true" }, mark),
            element("span", { class: "name" }, label),
            element("span", { class: "word" }, page.say(word)),
            element("span", { class: kind }, shown),
          ),
        ),
      );
      lines = rows.map(
        ({ mark, word, label, shown }) => `${mark} ${label}: ${page.say(word)} ${shown}`,
      );
    },
    lines: () => lines,
  };
}
