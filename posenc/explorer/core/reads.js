import { catalogue } from "#math/catalogue.js";

/** Which of the shared settings the named encodings are made of, at the settings `s`. */
export function reads(s, ...names) {
  const seen = new Set();
  const watched = new Proxy(s, {
    get(target, key) {
      seen.add(key);
      return target[key];
    },
  });
  for (const name of names) catalogue[name].settings(watched);
  return ["d", "base", "length", "heads", "trained"].filter((key) => seen.has(key));
}
