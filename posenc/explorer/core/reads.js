import { watch } from "#core/watch.js";
import { catalogue } from "#math/catalogue.js";

/** Which of the shared settings the named encodings are made of, at the settings `s`. */
export function reads(s, ...names) {
  const { watched, seen } = watch(s);
  for (const name of names) catalogue[name].settings(watched);
  return ["d", "base", "length", "heads", "trained"].filter((key) => seen.has(key));
}
