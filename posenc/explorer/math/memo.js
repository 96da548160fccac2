/** make(key), made at the first use of each key and kept as long as the function that is returned. */
export function memo(make) {
  const made = new Map();
  return (key) => {
    if (!made.has(key)) made.set(key, make(key));
    return made.get(key);
  };
}
