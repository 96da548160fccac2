/** `object` as it is, and `seen`, the set of its properties that were read through `watched`. */
export function watch(object) {
  const seen = new Set();
  const watched = new Proxy(object, {
    get(target, key) {
      seen.add(key);
      return target[key];
    },
  });
  return { watched, seen };
}
