// What the search page does beside Sphinx's own script: a page is listed once, excerpts come from
// `pageTexts`, which a page that is opened as a file can read where it cannot fetch others, and a
// query that finds nothing is answered with the nearest word.
const MEANT = { en: "Did you mean", zh: "您要找的是不是" };

// The mark of a word that a page explains stands at its top, and says nothing as a section.
const perform = Search._performSearch;
Search._performSearch = (...parsed) => {
  const listed = new Set();
  const results = perform(...parsed).reverse();
  for (const result of results) if (result[6] === "index") result[2] = "";
  // The last of them is shown first.
  return results
    .filter(([page, , anchor, description]) => {
      const place = `${page}${anchor}`;
      const seen = !description && listed.has(place);
      listed.add(place);
      return !seen;
    })
    .reverse();
};

const query = new URLSearchParams(window.location.search).get("q") || "";
const output = document.getElementById("search-results");

function excerpt(item) {
  const link = item.querySelector("a");
  const [file, anchor] = link.getAttribute("href").split("#");
  const page = pageTexts[file.replace(/\.html$/, "")];
  // What has a description beside its link says enough.
  if (!page || item.querySelector("span")) return;
  const part = page.find(([id]) => id === anchor);
  const text = part ? part[1] : page.map(([, each]) => each).join(" ");
  const [, , , terms] = Search._parseQuery(query);
  const html = `<div role="main">${_escapeHTML(text)}</div>`;
  // The last one that is found is shown: best the whole of the query.
  const summary = Search.makeSearchSummary(html, [...[...terms].reverse(), query], "");
  if (!summary) return;
  item.append(summary);
  for (const term of terms) _highlightText(item, term, "highlighted");
}

function distance(a, b) {
  let row = Array.from({ length: b.length + 1 }, (_, j) => j);
  for (let i = 1; i <= a.length; i++) {
    const next = [i];
    for (let j = 1; j <= b.length; j++) {
      const changed = row[j - 1] + (a[i - 1] !== b[j - 1]);
      next.push(Math.min(row[j] + 1, next[j - 1] + 1, changed));
    }
    row = next;
  }
  return row[b.length];
}

function nearest(typed) {
  const { indexentries, alltitles, objects } = Search._index;
  const names = Object.values(objects).flatMap((found) => found.map((each) => each[4]));
  const known = [...Object.keys(indexentries), ...Object.keys(alltitles), ...names].flatMap(
    (text) => text.toLowerCase().match(/[a-z][a-z0-9]+/g) || [],
  );
  const allowed = Math.min(2, Math.floor(typed.length / 3));
  const near = [...new Set(known)].map((word) => [distance(typed, word), word]);
  const [best] = near.filter(([far]) => far <= allowed).sort(([a], [b]) => a - b);
  return best && best[1];
}

function suggest() {
  const words = query.toLowerCase().split(/\s+/);
  const meant = words.map((word) => nearest(word) || word).join(" ");
  if (meant === query.toLowerCase() || document.getElementById("meant")) return;
  const said = document.createElement("p");
  said.id = "meant";
  const link = document.createElement("a");
  link.href = `?q=${encodeURIComponent(meant)}`;
  link.textContent = meant;
  const chinese = document.documentElement.lang.startsWith("zh");
  said.append(`${MEANT[chinese ? "zh" : "en"]} `, link, chinese ? "？" : "?");
  output.append(said);
}

new MutationObserver((changes) => {
  for (const { addedNodes } of changes)
    for (const node of addedNodes) if (node.nodeName === "LI") excerpt(node);
  const told = Search.status && Search.status.innerText;
  if (told && Search.output && !Search.output.children.length) suggest();
}).observe(output, { childList: true, subtree: true });
