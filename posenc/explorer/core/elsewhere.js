// Pages of the docs that the front page leads to, by the texts that name them.
export const PAGES = { docs: "index", install: "start/index" };

/** The address of a page of the docs; `docs` has `{page}` in its place, or is "" where there are none. */
export const addressOf = (docs, lang, page) => docs && docs.replace("{page}", `${lang}/${page}`);

/** [key, address] of each; none where there are no docs. */
export const elsewhere = (docs, lang) =>
  docs ? Object.entries(PAGES).map(([key, page]) => [key, addressOf(docs, lang, page)]) : [];
